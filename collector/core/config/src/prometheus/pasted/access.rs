//! How a pasted job's targets are requested: TLS, credentials, proxies. Secrets are in files alone.

use serde_norway::Value;

use super::read::PastedReader;
use crate::{Authorization, BasicAuth, HttpTls, HttpUrl, NoProxy, OAuth2, Proxy};

/// A proxy, whose fields are mixed with others.
#[derive(Default)]
pub(super) struct ProxyFields {
    url: Option<HttpUrl>,
    no_proxy: Vec<NoProxy>,
}

impl ProxyFields {
    /// Takes a field, if it is one of a proxy's.
    pub(super) fn take_field(
        &mut self,
        reader: &mut PastedReader,
        name: &str,
        at: &str,
        it: &Value,
    ) -> bool {
        match name {
            "proxy_url" => self.url = reader.read_parsed(at, it),
            "no_proxy" => {
                let text = reader.read_text(at, it);
                for host in NoProxy::parse_list(&text) {
                    match host {
                        Ok(host) => self.no_proxy.push(host),
                        Err(error) => reader.refuse(at, &format!("{error}")),
                    }
                }
            }
            _ => return false,
        }
        true
    }

    /// The proxy, if there is one.
    pub(super) fn into_proxy(self) -> Option<Proxy> {
        let Self { url, no_proxy } = self;
        url.map(|url| Proxy { url, basic_auth: None, no_proxy })
    }
}

pub(super) fn parse_tls(reader: &mut PastedReader, at: &str, written: &Value) -> HttpTls {
    let mut tls = HttpTls::default();
    reader.read_fields(at, written, |r, name, at, it| match name {
        "ca_file" => tls.ca_file = r.read_parsed(at, it),
        "cert_file" => tls.cert_file = r.read_parsed(at, it),
        "key_file" => tls.key_file = r.read_parsed(at, it),
        "server_name" => tls.server_name = Some(r.read_text(at, it)),
        "insecure_skip_verify" => tls.insecure_skip_verify = r.read_flag(at, it),
        _ => r.refuse(at, "remove it; certificates and keys must be in files"),
    });
    tls
}

pub(super) fn parse_basic_auth(reader: &mut PastedReader, at: &str, written: &Value) -> BasicAuth {
    let mut auth = BasicAuth::default();
    reader.read_fields(at, written, |r, name, at, it| match name {
        "username" => auth.username = Some(r.read_text(at, it)),
        "username_file" => auth.username_file = r.read_parsed(at, it),
        "password_file" => auth.password_file = r.read_parsed(at, it),
        _ => r.refuse(at, "a secret must be in a file: use password_file"),
    });
    auth
}

pub(super) fn parse_authorization(
    reader: &mut PastedReader,
    at: &str,
    written: &Value,
) -> Option<Authorization> {
    let (mut word, mut file) = ("Bearer".to_owned(), None);
    let before = reader.problem_count();
    reader.read_fields(at, written, |r, name, at, it| match name {
        "type" => word = r.read_text(at, it),
        "credentials_file" => file = r.read_parsed(at, it),
        _ => r.refuse(at, "a secret must be in a file: use credentials_file"),
    });
    if file.is_none() && reader.problem_count() == before {
        reader.refuse(at, "credentials_file is required");
    }
    file.map(|credentials_file| Authorization { r#type: word, credentials_file })
}

pub(super) fn parse_oauth2(reader: &mut PastedReader, at: &str, written: &Value) -> Option<OAuth2> {
    let (mut client_id, mut secret, mut url) = (None, None, None);
    let (mut scopes, mut params, mut encryption) = (Vec::new(), Default::default(), None);
    let mut proxy = ProxyFields::default();
    let before = reader.problem_count();
    reader.read_fields(at, written, |r, name, at, it| match name {
        "client_id" => client_id = Some(r.read_text(at, it)),
        "client_secret_file" => secret = r.read_parsed(at, it),
        "token_url" => url = r.read_parsed(at, it),
        "scopes" => scopes = r.read_list(at, it, PastedReader::read_text),
        "endpoint_params" => params = r.read_map(at, it, PastedReader::read_text),
        "tls_config" => encryption = Some(parse_tls(r, at, it)),
        "client_secret" => r.refuse(at, "a secret must be in a file: use client_secret_file"),
        _ => {
            if !proxy.take_field(r, name, at, it) {
                r.refuse(at, "not supported: remove it");
            }
        }
    });
    match (secret, url) {
        (Some(client_secret_file), Some(token_url)) => Some(OAuth2 {
            client_id,
            client_id_file: None,
            client_secret_file,
            token_url,
            scopes,
            endpoint_params: params,
            tls: encryption,
            proxy: proxy.into_proxy(),
        }),
        _ => {
            if reader.problem_count() == before {
                reader.refuse(at, "client_id, client_secret_file and token_url are required");
            }
            None
        }
    }
}
