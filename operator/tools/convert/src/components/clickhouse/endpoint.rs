//! Converts the exporter's address: hosts of one of ClickHouse's protocols to URLs of the HTTP
//! interface.

use millrace_crds::ClickHouseEndpoint;

/// Ports of the HTTP interface for files that name another protocol's.
const HTTP_PORT: u16 = 8123;
const HTTPS_PORT: u16 = 8443;

/// Maximum endpoints of a pipeline.
const ENDPOINTS_MAX: usize = 64;

/// The parts of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ParsedEndpoint {
    /// The HTTP interfaces.
    pub(super) http: Vec<ClickHouseEndpoint>,
    /// Whether the file names the native protocol's ports: the URLs then have the default ones.
    pub(super) is_native: bool,
    /// The database in its path or parameters.
    pub(super) database: Option<String>,
    /// Whether it has a user name or password.
    pub(super) has_user: bool,
    /// Names of its other parameters.
    pub(super) parameters: Vec<String>,
}

impl ParsedEndpoint {
    /// Parses `scheme://[user[:password]@]host[:port][,host[:port]...][/database][?parameters]`;
    /// `None` if it is invalid.
    pub(super) fn read(text: &str) -> Option<Self> {
        let (scheme, rest) = text.trim().split_once("://")?;
        let is_native = match scheme {
            "tcp" | "clickhouse" | "native" => true,
            "http" | "https" => false,
            _ => return None,
        };
        // Each host may have its own scheme.
        let rest = rest.replace(&format!(",{scheme}://"), ",");
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, tail) = rest.split_at_checked(end)?;
        let (user, hosts) = match authority.rsplit_once('@') {
            Some((user, hosts)) => (user, hosts),
            None => ("", authority),
        };
        let (path, query) = tail.split_once('?').unwrap_or((tail, ""));
        let mut read = Self {
            http: Vec::new(),
            is_native,
            database: Some(path.trim_matches('/').to_owned()).filter(|name| !name.is_empty()),
            has_user: !user.is_empty(),
            parameters: Vec::new(),
        };
        let mut is_secure = scheme == "https";
        for parameter in query.split('&').filter(|text| !text.is_empty()) {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            match name {
                "secure" => is_secure |= value == "true",
                "username" | "password" => read.has_user = true,
                "database" => read.database = Some(value.to_owned()),
                // An invalid name isn't repeated, because it would be in a comment.
                name if name.chars().all(|one| one.is_ascii_alphanumeric() || one == '_') => {
                    read.parameters.push(name.to_owned());
                }
                _ => read.parameters.push("others".to_owned()),
            }
        }
        let hosts = hosts.split(',').map(str::trim).filter(|host| !host.is_empty());
        let urls: Option<Vec<_>> =
            hosts.map(|host| http_url(host, is_native, is_secure).parse().ok()).collect();
        read.http = urls.filter(|urls| !urls.is_empty() && urls.len() <= ENDPOINTS_MAX)?;
        // The pipeline names each endpoint once.
        let mut once = Vec::new();
        read.http.retain(|url| {
            let is_new = !once.contains(url);
            once.push(url.clone());
            is_new
        });
        Some(read)
    }
}

fn http_url(host: &str, is_native: bool, is_secure: bool) -> String {
    let (scheme, port) = if is_secure { ("https", HTTPS_PORT) } else { ("http", HTTP_PORT) };
    // A colon within brackets is part of an IPv6 address.
    let named = host.rsplit_once(':').filter(|(_, port)| !port.contains(']'));
    match (is_native, named) {
        (false, Some(_)) => format!("{scheme}://{host}"),
        (true, Some((name, _))) => format!("{scheme}://{name}:{port}"),
        (_, None) => format!("{scheme}://{host}:{port}"),
    }
}

#[cfg(test)]
mod tests {
    use super::ParsedEndpoint;

    fn urls(text: &str) -> Vec<String> {
        let read = ParsedEndpoint::read(text);
        read.iter().flat_map(|it| &it.http).map(|url| url.as_str().to_owned()).collect()
    }

    /// Scenario: the forms that the exporter's page names. Guarantee: the HTTP interface of the
    /// same hosts, with TLS where there was TLS.
    #[test]
    fn each_form_becomes_the_http_interface_of_the_same_hosts() {
        assert_eq!(urls("tcp://a:9000"), ["http://a:8123"]);
        assert_eq!(urls("tcp://a:9000,tcp://b:9000"), ["http://a:8123", "http://b:8123"]);
        assert_eq!(
            urls("clickhouse://a:9440,b:9440/otel?secure=true&dial_timeout=5s"),
            ["https://a:8443", "https://b:8443"]
        );
        assert_eq!(urls("http://a:8124,b:8124"), ["http://a:8124", "http://b:8124"]);
        assert_eq!(urls("https://a"), ["https://a:8443"]);
        assert_eq!(urls("tcp://[fd00::1]:9000"), ["http://[fd00::1]:8123"]);
        assert_eq!(urls("tcp://a:9000,a:9000"), ["http://a:8123"]);
        for no_address in ["a:9000", "ftp://a", "tcp://", "tcp://a b:9000"] {
            assert_eq!(ParsedEndpoint::read(no_address), None, "{no_address}");
        }
    }

    /// Scenario: an address with credentials, database and parameters. Guarantee: each is found,
    /// and no password is stored.
    #[test]
    fn what_an_address_says_beside_hosts_is_found() {
        let read = ParsedEndpoint::read("clickhouse://me:s3cret@a:9000/otel?compress=lz4").unwrap();
        assert_eq!((read.database.as_deref(), read.has_user), (Some("otel"), true));
        assert_eq!(read.parameters, ["compress"]);
        assert!(!format!("{read:?}").contains("s3cret"));
        let read = ParsedEndpoint::read("tcp://a:9000?x%1b\u{1b}[2J=1").unwrap();
        assert_eq!(read.parameters, ["others"]);
        let read =
            ParsedEndpoint::read("tcp://a:9000?username=me&password=s3cret&database=o").unwrap();
        assert_eq!((read.database.as_deref(), read.has_user), (Some("o"), true));
    }
}
