//! How targets are asked: TLS, credentials, proxies. Credentials are keys of Secrets and
//! ConfigMaps in the monitor's namespace, which pods find as files.

use millrace_config::{
    Authorization, BasicAuth, HttpTls, HttpUrl, NoProxy, OAuth2, Proxy, Scheme, ScrapeJob,
    SecretFile,
};
use serde_json::Value;

use crate::fields::{Field, Reader, ignored, no_effect, read, refused, said};

/// What is to be written instead of a file.
const FILE: &str = "files of Prometheus' pods aren't here: name a key of a Secret";

/// Why HTTP/2 is no choice.
pub(crate) const HTTP_1: &str = "targets are asked by HTTP/1.1";

/// What a job's settings are read from.
#[derive(Default)]
pub(crate) struct Draft {
    pub(crate) job: ScrapeJob,
    pub(crate) interval: Option<u32>,
    pub(crate) timeout: Option<u32>,
    proxy: ProxyDraft,
}

impl Draft {
    /// The job, and times that it names. The fields of a proxy are joined.
    pub(crate) fn finish(self) -> (ScrapeJob, Option<u32>, Option<u32>) {
        let Self { mut job, interval, timeout, proxy } = self;
        job.proxy = proxy.whole();
        (job, interval, timeout)
    }
}

/// Gives the draft of a job.
pub(crate) trait HasDraft {
    fn draft(&mut self) -> &mut Draft;
}

/// What a proxy's settings are read from.
#[derive(Default)]
pub(crate) struct ProxyDraft {
    url: Option<HttpUrl>,
    no_proxy: Vec<NoProxy>,
}

impl ProxyDraft {
    fn whole(self) -> Option<Proxy> {
        let Self { url, no_proxy } = self;
        url.map(|url| Proxy { url, basic_auth: None, no_proxy })
    }
}

/// Gives the draft of a proxy.
pub(crate) trait HasProxy {
    fn proxy(&mut self) -> &mut ProxyDraft;
}

impl<T: HasDraft> HasProxy for T {
    fn proxy(&mut self) -> &mut ProxyDraft {
        &mut self.draft().proxy
    }
}

impl HasProxy for OAuthDraft {
    fn proxy(&mut self) -> &mut ProxyDraft {
        &mut self.proxy
    }
}

/// Fields that say who asks, wherever they stand.
pub(crate) const fn credentials<T: HasDraft>() -> [Field<T>; 5] {
    [
        read("tlsConfig", |r, to, at, it| to.draft().job.tls = Some(tls(r, at, it))),
        read("authorization", |r, to, at, it| {
            to.draft().job.authorization = authorization(r, at, it);
        }),
        read("basicAuth", |r, to, at, it| to.draft().job.basic_auth = Some(basic_auth(r, at, it))),
        read("oauth2", |r, to, at, it| to.draft().job.oauth2 = oauth2(r, at, it)),
        read("bearerTokenSecret", |r, to, at, it| {
            if let Some(credentials_file) = r.secret(at, it) {
                let word = "Bearer".to_owned();
                let header = Authorization { r#type: word, credentials_file };
                to.draft().job.authorization = Some(header);
            }
        }),
    ]
}

/// Further fields of endpoints.
pub(crate) const fn following<T: HasDraft>() -> [Field<T>; 3] {
    [
        refused("bearerTokenFile", FILE),
        read("followRedirects", |r, to, at, it| {
            to.draft().job.follow_redirects = r.flag(at, it);
        }),
        no_effect("enableHttp2", HTTP_1),
    ]
}

/// Fields of a proxy.
pub(crate) const fn proxy<T: HasProxy>() -> [Field<T>; 4] {
    [
        read("proxyUrl", |r, to, at, it| {
            let url = r.parsed::<HttpUrl>(at, it);
            let is_plain =
                |url: &HttpUrl| url.scheme() == Scheme::Http && url.path_and_query() == "/";
            if url.as_ref().is_some_and(|url| !is_plain(url)) {
                r.refuse(at, "write http://host:port: TLS to a proxy is not supported");
            }
            to.proxy().url = url;
        }),
        read("noProxy", |r, to, at, it| {
            let text = r.text(at, it);
            for host in NoProxy::list(&text) {
                match host {
                    Ok(host) => to.proxy().no_proxy.push(host),
                    Err(error) => r.refuse(at, format!("{error}")),
                }
            }
        }),
        refused("proxyFromEnvironment", "pods' environment names no proxy: write proxyUrl"),
        refused("proxyConnectHeader", "a proxy gets no further headers: leave it out"),
    ]
}

/// Fields of TLS.
pub(crate) const TLS: &[Field<HttpTls>] = &[
    read("ca", |r, to, at, it| to.ca_file = r.secret_or_config_map(at, it)),
    read("cert", |r, to, at, it| to.cert_file = r.secret_or_config_map(at, it)),
    read("keySecret", |r, to, at, it| to.key_file = r.secret(at, it)),
    read("serverName", |r, to, at, it| to.server_name = Some(r.text(at, it))),
    read("insecureSkipVerify", |r, to, at, it| to.insecure_skip_verify = r.flag(at, it)),
    ignored("minVersion", "TLS 1.2 and 1.3 are spoken"),
    ignored("maxVersion", "TLS 1.2 and 1.3 are spoken"),
    refused("caFile", FILE),
    refused("certFile", FILE),
    refused("keyFile", FILE),
];

fn tls(reader: &mut Reader<'_>, at: &str, value: &Value) -> HttpTls {
    let mut tls = HttpTls::default();
    reader.fields(at, value, &[TLS], &mut tls);
    if tls.cert_file.is_some() != tls.key_file.is_some() {
        reader.refuse(at, "cert and keySecret go together: write both or neither");
    }
    tls
}

/// Type and credentials of an authorization header.
type Header = (String, Option<SecretFile>);

/// Fields of an authorization.
pub(crate) const AUTHORIZATION: &[Field<Header>] = &[
    read("type", |r, to, at, it| {
        to.0 = r.text(at, it).trim().to_owned();
        if to.0.eq_ignore_ascii_case("basic") {
            r.refuse(at, "for Basic write basicAuth");
        }
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if to.0.is_empty() || to.0.len() > 1024 || !to.0.bytes().all(is_word) {
            r.refuse(at, format!("`{}` is no type: write one word", said(&to.0)));
        }
    }),
    read("credentials", |r, to, at, it| to.1 = r.secret(at, it)),
    refused("credentialsFile", FILE),
];

fn authorization(reader: &mut Reader<'_>, at: &str, value: &Value) -> Option<Authorization> {
    let before = reader.left_out();
    let mut header = ("Bearer".to_owned(), None);
    reader.fields(at, value, &[AUTHORIZATION], &mut header);
    let (word, file) = header;
    if file.is_none() && reader.left_out() == before {
        reader.refuse(at, "write credentials: a key of a Secret");
    }
    file.map(|credentials_file| Authorization { r#type: word, credentials_file })
}

/// Fields of a user name and password.
pub(crate) const BASIC_AUTH: &[Field<BasicAuth>] = &[
    read("username", |r, to, at, it| to.username_file = r.secret(at, it)),
    read("password", |r, to, at, it| to.password_file = r.secret(at, it)),
];

fn basic_auth(reader: &mut Reader<'_>, at: &str, value: &Value) -> BasicAuth {
    let mut auth = BasicAuth::default();
    reader.fields(at, value, &[BASIC_AUTH], &mut auth);
    if auth.username_file.is_none() {
        reader.refuse(at, "write username: a key of a Secret");
    }
    auth
}

/// What OAuth 2.0's settings are read from.
#[derive(Default)]
pub(crate) struct OAuthDraft {
    id: Option<SecretFile>,
    secret: Option<SecretFile>,
    url: Option<HttpUrl>,
    scopes: Vec<String>,
    params: std::collections::BTreeMap<String, String>,
    tls: Option<HttpTls>,
    proxy: ProxyDraft,
}

/// Fields of OAuth 2.0.
pub(crate) const OAUTH2: &[Field<OAuthDraft>] = &[
    read("clientId", |r, to, at, it| to.id = r.secret_or_config_map(at, it)),
    read("clientSecret", |r, to, at, it| to.secret = r.secret(at, it)),
    read("tokenUrl", |r, to, at, it| to.url = r.parsed(at, it)),
    read("scopes", |r, to, at, it| to.scopes = r.list(at, it, Reader::text)),
    read("endpointParams", |r, to, at, it| {
        to.params = r.map(at, it, Reader::text);
        let ours = ["grant_type", "client_id", "client_secret", "scope"];
        if let Some(name) = ours.into_iter().find(|name| to.params.contains_key(*name)) {
            r.refuse(at, format!("`{name}` is set by the collector: leave it out"));
        }
    }),
    read("tlsConfig", |r, to, at, it| to.tls = Some(tls(r, at, it))),
];

/// Those of its proxy.
pub(crate) const OAUTH2_PROXY: &[Field<OAuthDraft>] = &proxy();

fn oauth2(reader: &mut Reader<'_>, at: &str, value: &Value) -> Option<OAuth2> {
    let before = reader.left_out();
    let mut draft = OAuthDraft::default();
    reader.fields(at, value, &[OAUTH2, OAUTH2_PROXY], &mut draft);
    let OAuthDraft { id, secret, url, scopes, params, tls, proxy } = draft;
    match (id, secret, url) {
        (Some(id), Some(client_secret_file), Some(token_url)) => Some(OAuth2 {
            client_id: None,
            client_id_file: Some(id),
            client_secret_file,
            token_url,
            scopes,
            endpoint_params: params,
            tls,
            proxy: proxy.whole(),
        }),
        _ => {
            if reader.left_out() == before {
                reader.refuse(at, "write clientId, clientSecret and tokenUrl");
            }
            None
        }
    }
}
