//! How targets are scraped: TLS, credentials, proxies. Credentials are keys of Secrets and
//! ConfigMaps in the monitor's namespace, which pods find as files.

use millrace_config::{
    Authorization, BasicAuth, HttpTls, HttpUrl, NoProxy, OAuth2, Proxy, Scheme, ScrapeJob,
    SecretFile,
};
use serde_json::Value;

use crate::monitor::fields::{
    MonitorField, MonitorReader, ignored, no_effect, read, refused, text_excerpt,
};

/// The advice for a field that names a file.
const FILE: &str = "files of Prometheus' pods do not exist here: name a key of a Secret";

/// Why HTTP/2 is not available.
pub(crate) const HTTP_1: &str = "targets are scraped over HTTP/1.1";

/// A job's settings that are being read.
#[derive(Default)]
pub(crate) struct JobDraft {
    pub(crate) job: ScrapeJob,
    pub(crate) interval: Option<u32>,
    pub(crate) timeout: Option<u32>,
    proxy: ProxyDraft,
}

impl JobDraft {
    /// Returns the job with its joined proxy fields, and the times that it names.
    pub(crate) fn into_job(self) -> (ScrapeJob, Option<u32>, Option<u32>) {
        let Self { mut job, interval, timeout, proxy } = self;
        job.proxy = proxy.into_proxy();
        (job, interval, timeout)
    }
}

/// Gives access to the draft of a job.
pub(crate) trait HasDraft {
    fn draft(&mut self) -> &mut JobDraft;
}

/// A proxy's settings that are being read.
#[derive(Default)]
pub(crate) struct ProxyDraft {
    url: Option<HttpUrl>,
    no_proxy: Vec<NoProxy>,
}

impl ProxyDraft {
    fn into_proxy(self) -> Option<Proxy> {
        let Self { url, no_proxy } = self;
        url.map(|url| Proxy { url, basic_auth: None, no_proxy })
    }
}

/// Gives access to the draft of a proxy.
pub(crate) trait HasProxy {
    fn proxy_draft(&mut self) -> &mut ProxyDraft;
}

impl<T: HasDraft> HasProxy for T {
    fn proxy_draft(&mut self) -> &mut ProxyDraft {
        &mut self.draft().proxy
    }
}

impl HasProxy for OAuthDraft {
    fn proxy_draft(&mut self) -> &mut ProxyDraft {
        &mut self.proxy
    }
}

/// Fields of credentials, for every block that has them.
pub(crate) const fn credential_fields<T: HasDraft>() -> [MonitorField<T>; 5] {
    [
        read("tlsConfig", |r, to, at, it| to.draft().job.tls = Some(read_tls(r, at, it))),
        read("authorization", |r, to, at, it| {
            to.draft().job.authorization = read_authorization(r, at, it);
        }),
        read("basicAuth", |r, to, at, it| {
            to.draft().job.basic_auth = Some(read_basic_auth(r, at, it))
        }),
        read("oauth2", |r, to, at, it| to.draft().job.oauth2 = read_oauth2(r, at, it)),
        read("bearerTokenSecret", |r, to, at, it| {
            if let Some(credentials_file) = r.read_secret(at, it) {
                let word = "Bearer".to_owned();
                let header = Authorization { r#type: word, credentials_file };
                to.draft().job.authorization = Some(header);
            }
        }),
    ]
}

/// Further fields of endpoints.
pub(crate) const fn redirect_fields<T: HasDraft>() -> [MonitorField<T>; 3] {
    [
        refused("bearerTokenFile", FILE),
        read("followRedirects", |r, to, at, it| {
            to.draft().job.follow_redirects = r.read_flag(at, it);
        }),
        no_effect("enableHttp2", HTTP_1),
    ]
}

/// Fields of a proxy.
pub(crate) const fn proxy_fields<T: HasProxy>() -> [MonitorField<T>; 4] {
    [
        read("proxyUrl", |r, to, at, it| {
            let url = r.read_parsed::<HttpUrl>(at, it);
            let is_plain =
                |url: &HttpUrl| url.scheme() == Scheme::Http && url.path_and_query() == "/";
            if url.as_ref().is_some_and(|url| !is_plain(url)) {
                r.refuse(at, "write http://host:port: TLS to a proxy is not supported");
            }
            to.proxy_draft().url = url;
        }),
        read("noProxy", |r, to, at, it| {
            let text = r.read_text(at, it);
            for host in NoProxy::parse_list(&text) {
                match host {
                    Ok(host) => to.proxy_draft().no_proxy.push(host),
                    Err(error) => r.refuse(at, format!("{error}")),
                }
            }
        }),
        refused("proxyFromEnvironment", "the environment of pods has no proxy: write proxyUrl"),
        refused("proxyConnectHeader", "extra headers for a proxy are not supported: remove it"),
    ]
}

/// Fields of TLS.
pub(crate) const TLS: &[MonitorField<HttpTls>] = &[
    read("ca", |r, to, at, it| to.ca_file = r.secret_or_config_map(at, it)),
    read("cert", |r, to, at, it| to.cert_file = r.secret_or_config_map(at, it)),
    read("keySecret", |r, to, at, it| to.key_file = r.read_secret(at, it)),
    read("serverName", |r, to, at, it| to.server_name = Some(r.read_text(at, it))),
    read("insecureSkipVerify", |r, to, at, it| to.insecure_skip_verify = r.read_flag(at, it)),
    ignored("minVersion", "TLS 1.2 and 1.3 are supported"),
    ignored("maxVersion", "TLS 1.2 and 1.3 are supported"),
    refused("caFile", FILE),
    refused("certFile", FILE),
    refused("keyFile", FILE),
];

fn read_tls(reader: &mut MonitorReader<'_>, at: &str, value: &Value) -> HttpTls {
    let mut tls = HttpTls::default();
    reader.read_fields(at, value, &[TLS], &mut tls);
    if tls.cert_file.is_some() != tls.key_file.is_some() {
        reader.refuse(at, "cert and keySecret require each other: write both or neither");
    }
    tls
}

/// Type and credentials of an authorization header.
type AuthorizationHeader = (String, Option<SecretFile>);

/// Fields of an authorization.
pub(crate) const AUTHORIZATION: &[MonitorField<AuthorizationHeader>] = &[
    read("type", |r, to, at, it| {
        to.0 = r.read_text(at, it).trim().to_owned();
        if to.0.eq_ignore_ascii_case("basic") {
            r.refuse(at, "use basicAuth for Basic");
        }
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if to.0.is_empty() || to.0.len() > 1024 || !to.0.bytes().all(is_word) {
            r.refuse(at, format!("`{}` is not a type: write one word", text_excerpt(&to.0)));
        }
    }),
    read("credentials", |r, to, at, it| to.1 = r.read_secret(at, it)),
    refused("credentialsFile", FILE),
];

fn read_authorization(
    reader: &mut MonitorReader<'_>,
    at: &str,
    value: &Value,
) -> Option<Authorization> {
    let before = reader.refused_count();
    let mut header = ("Bearer".to_owned(), None);
    reader.read_fields(at, value, &[AUTHORIZATION], &mut header);
    let (word, file) = header;
    if file.is_none() && reader.refused_count() == before {
        reader.refuse(at, "write credentials: a key of a Secret");
    }
    file.map(|credentials_file| Authorization { r#type: word, credentials_file })
}

/// Fields of a user name and password.
pub(crate) const BASIC_AUTH: &[MonitorField<BasicAuth>] = &[
    read("username", |r, to, at, it| to.username_file = r.read_secret(at, it)),
    read("password", |r, to, at, it| to.password_file = r.read_secret(at, it)),
];

fn read_basic_auth(reader: &mut MonitorReader<'_>, at: &str, value: &Value) -> BasicAuth {
    let mut auth = BasicAuth::default();
    reader.read_fields(at, value, &[BASIC_AUTH], &mut auth);
    if auth.username_file.is_none() {
        reader.refuse(at, "write username: a key of a Secret");
    }
    auth
}

/// Settings of OAuth 2.0 that are being read.
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
pub(crate) const OAUTH2: &[MonitorField<OAuthDraft>] = &[
    read("clientId", |r, to, at, it| to.id = r.secret_or_config_map(at, it)),
    read("clientSecret", |r, to, at, it| to.secret = r.read_secret(at, it)),
    read("tokenUrl", |r, to, at, it| to.url = r.read_parsed(at, it)),
    read("scopes", |r, to, at, it| to.scopes = r.read_list(at, it, MonitorReader::read_text)),
    read("endpointParams", |r, to, at, it| {
        to.params = r.read_map(at, it, MonitorReader::read_text);
        let ours = ["grant_type", "client_id", "client_secret", "scope"];
        if let Some(name) = ours.into_iter().find(|name| to.params.contains_key(*name)) {
            r.refuse(at, format!("`{name}` is set by the collector: remove it"));
        }
    }),
    read("tlsConfig", |r, to, at, it| to.tls = Some(read_tls(r, at, it))),
];

/// Fields of the proxy of OAuth 2.0.
pub(crate) const OAUTH2_PROXY: &[MonitorField<OAuthDraft>] = &proxy_fields();

fn read_oauth2(reader: &mut MonitorReader<'_>, at: &str, value: &Value) -> Option<OAuth2> {
    let before = reader.refused_count();
    let mut draft = OAuthDraft::default();
    reader.read_fields(at, value, &[OAUTH2, OAUTH2_PROXY], &mut draft);
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
            proxy: proxy.into_proxy(),
        }),
        _ => {
            if reader.refused_count() == before {
                reader.refuse(at, "write clientId, clientSecret and tokenUrl");
            }
            None
        }
    }
}
