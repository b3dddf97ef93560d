//! Judges how a server is asked over HTTP.

use super::Judge;
use crate::network::host_and_port;
use crate::{Authorization, BasicAuth, HttpAccess, HttpTls, OAuth2, Proxy, Scheme};

/// Most scopes, further fields, and hosts without a proxy.
const ENTRIES_MAX: usize = 64;

/// The longest user name, client name, scope or field.
const TEXT_BYTES_MAX: usize = 1024;

impl Judge<'_> {
    /// `field` is what the fields stand in.
    pub(super) fn http_access(&mut self, field: &str, access: &HttpAccess) {
        let HttpAccess { tls, authorization, basic_auth, oauth2, proxy, follow_redirects: _ } =
            access;
        let given = [
            ("authorization", authorization.is_some()),
            ("basicAuth", basic_auth.is_some()),
            ("oauth2", oauth2.is_some()),
        ];
        let given = given.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name);
        let given: Vec<&str> = given.collect();
        if let [_, second, ..] = given.as_slice() {
            let message = format!("{} are given: write one of them", given.join(" and "));
            self.say(&format!("{field}.{second}"), message);
        }
        if let Some(tls) = tls {
            self.http_tls(&format!("{field}.tls"), tls);
        }
        if let Some(Authorization { r#type, credentials_file: _ }) = authorization {
            self.authorization_type(&format!("{field}.authorization.type"), r#type);
        }
        if let Some(basic_auth) = basic_auth {
            self.basic_auth(&format!("{field}.basicAuth"), basic_auth);
        }
        if let Some(oauth2) = oauth2 {
            self.oauth2(&format!("{field}.oauth2"), oauth2);
        }
        if let Some(proxy) = proxy {
            self.proxy(&format!("{field}.proxy"), proxy);
        }
    }

    fn http_tls(&mut self, field: &str, tls: &HttpTls) {
        let HttpTls { ca_file: _, cert_file, key_file, server_name, insecure_skip_verify: _ } = tls;
        if cert_file.is_some() != key_file.is_some() {
            self.say(field, "certFile and keyFile go together: write both or neither");
        }
        let is_host = |name: &str| host_and_port(&format!("{name}:1")).is_some();
        if let Some(name) = server_name
            && !is_host(name)
            && name.parse::<std::net::IpAddr>().is_err()
        {
            let field = format!("{field}.serverName");
            self.say(&field, format!("`{name}` is neither a host name nor an address"));
        }
    }

    fn authorization_type(&mut self, field: &str, text: &str) {
        let is_token =
            |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if text.is_empty() || text.len() > TEXT_BYTES_MAX || !text.bytes().all(is_token) {
            self.say(field, format!("`{text}` is no type: write one word, as in Bearer"));
        }
        if text.eq_ignore_ascii_case("basic") {
            self.say(field, "for Basic write basicAuth, with a user name and a password's file");
        }
    }

    fn basic_auth(&mut self, field: &str, basic: &BasicAuth) {
        let BasicAuth { username, username_file, password_file: _ } = basic;
        if username.is_some() == username_file.is_some() {
            self.say(field, "write username or usernameFile, and not both");
        }
        if let Some(name) = username
            && (name.is_empty() || name.len() > TEXT_BYTES_MAX || name.contains(':'))
        {
            let message = format!("write 1 to {TEXT_BYTES_MAX} bytes without a colon");
            self.say(&format!("{field}.username"), message);
        }
    }

    fn oauth2(&mut self, field: &str, oauth2: &OAuth2) {
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
            self.say(field, "write clientId or clientIdFile, and not both");
        }
        let all = scopes.iter().chain(endpoint_params.keys()).chain(client_id);
        if all.into_iter().any(|text| text.is_empty() || text.len() > TEXT_BYTES_MAX) {
            let message = format!(
                "clientId, scopes and the names of endpointParams: write 1 to {TEXT_BYTES_MAX} bytes"
            );
            self.say(field, message);
        }
        if endpoint_params.values().any(|text| text.len() > TEXT_BYTES_MAX) {
            let message = format!("write values of {TEXT_BYTES_MAX} bytes at most");
            self.say(&format!("{field}.endpointParams"), message);
        }
        let ours = ["grant_type", "client_id", "client_secret", "scope"];
        if let Some(name) = ours.into_iter().find(|name| endpoint_params.contains_key(*name)) {
            let message = format!("`{name}` is set by the collector: leave it out");
            self.say(&format!("{field}.endpointParams"), message);
        }
        for (name, length) in [("scopes", scopes.len()), ("endpointParams", endpoint_params.len())]
        {
            self.entries(&format!("{field}.{name}"), length);
        }
        if let Some(tls) = tls {
            self.http_tls(&format!("{field}.tls"), tls);
        }
        if let Some(proxy) = proxy {
            self.proxy(&format!("{field}.proxy"), proxy);
        }
    }

    fn proxy(&mut self, field: &str, proxy: &Proxy) {
        let Proxy { url, basic_auth, no_proxy } = proxy;
        if url.scheme() != Scheme::Http || url.path_and_query() != "/" {
            let message = "write http://host:port without a path; TLS to a proxy is not supported";
            self.say(&format!("{field}.url"), message);
        }
        if let Some(basic_auth) = basic_auth {
            self.basic_auth(&format!("{field}.basicAuth"), basic_auth);
        }
        self.entries(&format!("{field}.noProxy"), no_proxy.len());
    }

    fn entries(&mut self, field: &str, length: usize) {
        if length > ENTRIES_MAX {
            self.say(field, format!("{length} entries: write {ENTRIES_MAX} at most"));
        }
    }
}
