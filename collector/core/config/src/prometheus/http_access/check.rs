//! Judges the settings of requests to a server over HTTP.

use super::{Authorization, BasicAuth, HttpAccess, HttpTls, OAuth2, Proxy};
use crate::document::check::Checker;
use crate::values::network::host_and_port;
use crate::values::url::Scheme;

/// Most scopes, further fields, and hosts without a proxy.
const ENTRIES_MAX: usize = 64;

/// The longest user name, client name, scope or field.
const TEXT_BYTES_MAX: usize = 1024;

impl Checker<'_> {
    /// `field` is the path of the section with these fields.
    pub(crate) fn check_http_access(&mut self, field: &str, access: &HttpAccess) {
        let HttpAccess { tls, authorization, basic_auth, oauth2, proxy, follow_redirects: _ } =
            access;
        let methods = [
            ("authorization", authorization.is_some()),
            ("basicAuth", basic_auth.is_some()),
            ("oauth2", oauth2.is_some()),
        ];
        let methods = methods.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| name);
        let methods: Vec<&str> = methods.collect();
        if let [_, second, ..] = methods.as_slice() {
            let message = format!("{} are set: use only one", methods.join(" and "));
            self.add_problem(&format!("{field}.{second}"), message);
        }
        if let Some(tls) = tls {
            self.check_http_tls(&format!("{field}.tls"), tls);
        }
        if let Some(Authorization { r#type, credentials_file: _ }) = authorization {
            self.check_authorization_type(&format!("{field}.authorization.type"), r#type);
        }
        if let Some(basic_auth) = basic_auth {
            self.check_basic_auth(&format!("{field}.basicAuth"), basic_auth);
        }
        if let Some(oauth2) = oauth2 {
            self.check_oauth2(&format!("{field}.oauth2"), oauth2);
        }
        if let Some(proxy) = proxy {
            self.check_proxy(&format!("{field}.proxy"), proxy);
        }
    }

    fn check_http_tls(&mut self, field: &str, tls: &HttpTls) {
        let HttpTls { ca_file: _, cert_file, key_file, server_name, insecure_skip_verify: _ } = tls;
        if cert_file.is_some() != key_file.is_some() {
            self.add_problem(
                field,
                "certFile and keyFile must be set together: set both, or neither",
            );
        }
        let is_host = |name: &str| host_and_port(&format!("{name}:1")).is_some();
        if let Some(name) = server_name
            && !is_host(name)
            && name.parse::<std::net::IpAddr>().is_err()
        {
            let field = format!("{field}.serverName");
            self.add_problem(&field, format!("`{name}` is neither a host name nor an IP address"));
        }
    }

    fn check_authorization_type(&mut self, field: &str, text: &str) {
        let is_token =
            |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if text.is_empty() || text.len() > TEXT_BYTES_MAX || !text.bytes().all(is_token) {
            self.add_problem(
                field,
                format!("`{text}` is not an authorization scheme: use one word, as in Bearer"),
            );
        }
        if text.eq_ignore_ascii_case("basic") {
            self.add_problem(
                field,
                "Basic is not supported here: use basicAuth with a user name and a password file",
            );
        }
    }

    fn check_basic_auth(&mut self, field: &str, basic: &BasicAuth) {
        let BasicAuth { username, username_file, password_file: _ } = basic;
        if username.is_some() == username_file.is_some() {
            self.add_problem(field, "set either username or usernameFile, not both");
        }
        if let Some(name) = username
            && (name.is_empty() || name.len() > TEXT_BYTES_MAX || name.contains(':'))
        {
            let message = format!("use 1 to {TEXT_BYTES_MAX} bytes without a colon");
            self.add_problem(&format!("{field}.username"), message);
        }
    }

    fn check_oauth2(&mut self, field: &str, oauth2: &OAuth2) {
        let OAuth2 {
            client_id,
            client_id_file,
            client_secret_file: _,
            token_url: _,
            scopes,
            endpoint_params,
            tls,
            proxy,
        } = oauth2;
        if client_id.is_some() == client_id_file.is_some() {
            self.add_problem(field, "set either clientId or clientIdFile, not both");
        }
        let all = scopes.iter().chain(endpoint_params.keys()).chain(client_id);
        if all.into_iter().any(|text| text.is_empty() || text.len() > TEXT_BYTES_MAX) {
            let message = format!(
                "clientId, scopes and the names of endpointParams: use 1 to {TEXT_BYTES_MAX} bytes"
            );
            self.add_problem(field, message);
        }
        if endpoint_params.values().any(|text| text.len() > TEXT_BYTES_MAX) {
            let message = format!("use values of at most {TEXT_BYTES_MAX} bytes");
            self.add_problem(&format!("{field}.endpointParams"), message);
        }
        let ours = ["grant_type", "client_id", "client_secret", "scope"];
        if let Some(name) = ours.into_iter().find(|name| endpoint_params.contains_key(*name)) {
            let message = format!("`{name}` is set by the collector: remove it");
            self.add_problem(&format!("{field}.endpointParams"), message);
        }
        for (name, length) in [("scopes", scopes.len()), ("endpointParams", endpoint_params.len())]
        {
            self.check_entries(&format!("{field}.{name}"), length);
        }
        if let Some(tls) = tls {
            self.check_http_tls(&format!("{field}.tls"), tls);
        }
        if let Some(proxy) = proxy {
            self.check_proxy(&format!("{field}.proxy"), proxy);
        }
    }

    fn check_proxy(&mut self, field: &str, proxy: &Proxy) {
        let Proxy { url, basic_auth, no_proxy } = proxy;
        if url.scheme() != Scheme::Http || url.path_and_query() != "/" {
            let message = "use http://host:port without a path; TLS to a proxy is not supported";
            self.add_problem(&format!("{field}.url"), message);
        }
        if let Some(basic_auth) = basic_auth {
            self.check_basic_auth(&format!("{field}.basicAuth"), basic_auth);
        }
        self.check_entries(&format!("{field}.noProxy"), no_proxy.len());
    }

    fn check_entries(&mut self, field: &str, length: usize) {
        if length > ENTRIES_MAX {
            self.add_problem(field, format!("{length} entries: use at most {ENTRIES_MAX}"));
        }
    }
}
