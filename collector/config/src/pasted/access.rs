//! How a pasted job's targets are asked: TLS, who asks, proxies. Secrets are in files alone.

use serde_norway::Value;

use super::read::Reader;
use crate::{Authorization, BasicAuth, HttpTls, HttpUrl, NoProxy, OAuth2, Proxy};

/// A proxy, whose fields stand among others.
#[derive(Default)]
pub(super) struct ProxyFields {
    url: Option<HttpUrl>,
    no_proxy: Vec<NoProxy>,
}

impl ProxyFields {
    /// Takes a field, if it is one of a proxy's.
    pub(super) fn take(&mut self, reader: &mut Reader, name: &str, at: &str, it: &Value) -> bool {
        match name {
            "proxy_url" => self.url = reader.parsed(at, it),
            "no_proxy" => {
                let text = reader.text(at, it);
                for host in NoProxy::list(&text) {
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
    pub(super) fn whole(self) -> Option<Proxy> {
        let Self { url, no_proxy } = self;
        url.map(|url| Proxy { url, basic_auth: None, no_proxy })
    }
}

pub(super) fn tls(reader: &mut Reader, at: &str, written: &Value) -> HttpTls {
    let mut tls = HttpTls::default();
    reader.fields(at, written, |r, name, at, it| match name {
        "ca_file" => tls.ca_file = r.parsed(at, it),
        "cert_file" => tls.cert_file = r.parsed(at, it),
        "key_file" => tls.key_file = r.parsed(at, it),
        "server_name" => tls.server_name = Some(r.text(at, it)),
        "insecure_skip_verify" => tls.insecure_skip_verify = r.flag(at, it),
        _ => r.refuse(at, "leave it out; certificates and keys must be in files"),
    });
    tls
}

pub(super) fn basic_auth(reader: &mut Reader, at: &str, written: &Value) -> BasicAuth {
    let mut auth = BasicAuth::default();
    reader.fields(at, written, |r, name, at, it| match name {
        "username" => auth.username = Some(r.text(at, it)),
        "username_file" => auth.username_file = r.parsed(at, it),
        "password_file" => auth.password_file = r.parsed(at, it),
        _ => r.refuse(at, "a secret must be in a file: write password_file"),
    });
    auth
}

pub(super) fn authorization(
    reader: &mut Reader,
    at: &str,
    written: &Value,
) -> Option<Authorization> {
    let (mut word, mut file) = ("Bearer".to_owned(), None);
    let before = reader.count();
    reader.fields(at, written, |r, name, at, it| match name {
        "type" => word = r.text(at, it),
        "credentials_file" => file = r.parsed(at, it),
        _ => r.refuse(at, "a secret must be in a file: write credentials_file"),
    });
    if file.is_none() && reader.count() == before {
        reader.refuse(at, "write credentials_file");
    }
    file.map(|credentials_file| Authorization { r#type: word, credentials_file })
}

pub(super) fn oauth2(reader: &mut Reader, at: &str, written: &Value) -> Option<OAuth2> {
    let (mut client_id, mut secret, mut url) = (None, None, None);
    let (mut scopes, mut params, mut encryption) = (Vec::new(), Default::default(), None);
    let mut proxy = ProxyFields::default();
    let before = reader.count();
    reader.fields(at, written, |r, name, at, it| match name {
        "client_id" => client_id = Some(r.text(at, it)),
        "client_secret_file" => secret = r.parsed(at, it),
        "token_url" => url = r.parsed(at, it),
        "scopes" => scopes = r.list(at, it, Reader::text),
        "endpoint_params" => params = r.map(at, it, Reader::text),
        "tls_config" => encryption = Some(tls(r, at, it)),
        "client_secret" => r.refuse(at, "a secret must be in a file: write client_secret_file"),
        _ => {
            if !proxy.take(r, name, at, it) {
                r.refuse(at, "it isn't supported: leave it out");
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
            proxy: proxy.whole(),
        }),
        _ => {
            if reader.count() == before {
                reader.refuse(at, "write client_id, client_secret_file and token_url");
            }
            None
        }
    }
}
