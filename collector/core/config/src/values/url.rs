//! Checked URLs of HTTP servers, and hosts that are reached without a proxy.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::values::network::host_and_port;
use crate::values::text::as_text;

/// The longest URL, in bytes: what common servers take as a request's first line.
const URL_BYTES_MAX: usize = 8 * 1024;

/// Protocol of a server.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scheme {
    /// No encryption.
    #[default]
    Http,
    /// Over TLS.
    Https,
}

impl Scheme {
    /// As it is written in URLs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    const fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// A URL that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// It has a user name, and perhaps a password: not repeated here.
    #[error("a URL has a user name or an @: use files for credentials, and %40 for an @")]
    Credentials,
    /// It is no URL that a request can be sent to.
    #[error("`{0}` is not a valid HTTP URL: use http:// or https://, host, optional :port, path")]
    Malformed(String),
    /// It is over [`URL_BYTES_MAX`].
    #[error("a URL has {0} bytes: use at most {URL_BYTES_MAX}")]
    TooLong(usize),
}

/// An `http://` or `https://` URL without credentials and fragment.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HttpUrl {
    scheme: Scheme,
    /// In lower case, IPv6 in brackets.
    host: String,
    port: u16,
    path_and_query: String,
}

impl HttpUrl {
    /// Checks a URL. A fragment is dropped: it is never sent.
    ///
    /// # Errors
    /// When no request can be sent to it, or it holds credentials.
    pub fn new(text: &str) -> Result<Self, UrlError> {
        let malformed = || UrlError::Malformed(text.to_owned());
        if text.contains('@') {
            return Err(UrlError::Credentials);
        }
        if text.len() > URL_BYTES_MAX {
            return Err(UrlError::TooLong(text.len()));
        }
        let (scheme, rest) = text.split_once("://").ok_or_else(malformed)?;
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            _ => return Err(malformed()),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        let has_port =
            authority.rfind(':').is_some_and(|at| !authority.get(at..).unwrap_or("").contains(']'));
        let full = match has_port {
            true => authority.to_owned(),
            false => format!("{authority}:{}", scheme.default_port()),
        };
        let (host, port) = host_and_port(&full).ok_or_else(malformed)?;
        Self::from_parts(scheme, host, port, rest).ok_or_else(malformed)
    }

    /// A URL of parts that are checked already but for the path.
    ///
    /// # Errors
    /// When the path has characters that no path may have.
    pub fn of_target(
        scheme: Scheme,
        target: &crate::TargetAddress,
        path_and_query: &str,
    ) -> Result<Self, UrlError> {
        Self::from_parts(scheme, target.host(), target.port(), path_and_query)
            .ok_or_else(|| UrlError::Malformed(path_and_query.to_owned()))
    }

    fn from_parts(scheme: Scheme, host: &str, port: u16, rest: &str) -> Option<Self> {
        let rest = rest.split('#').next().unwrap_or("");
        if !rest.bytes().all(|byte| byte.is_ascii_graphic()) {
            return None;
        }
        let slash = if rest.starts_with('/') { "" } else { "/" };
        let path_and_query = format!("{slash}{rest}");
        Some(Self { scheme, host: host.to_ascii_lowercase(), port, path_and_query })
    }

    /// Where a `location` points that this URL's answer has.
    ///
    /// # Errors
    /// When no request can be sent to that.
    pub fn join(&self, location: &str) -> Result<Self, UrlError> {
        let path = location.find(['/', '?', '#']).unwrap_or(location.len());
        if location.find(':').is_some_and(|colon| colon < path) {
            return Self::new(location);
        }
        if location.starts_with("//") {
            return Self::new(&format!("{}:{location}", self.scheme.as_str()));
        }
        let own = self.path_and_query.split('?').next().unwrap_or("/");
        let folder = own.rfind('/').and_then(|at| own.get(..=at)).unwrap_or("/");
        let rest = match location.as_bytes().first() {
            Some(b'/') => location.to_owned(),
            None | Some(b'?' | b'#') => format!("{own}{location}"),
            Some(_) => format!("{folder}{location}"),
        };
        if rest.len() > URL_BYTES_MAX {
            return Err(UrlError::TooLong(rest.len()));
        }
        Self::from_parts(self.scheme, &self.host, self.port, &rest)
            .ok_or_else(|| UrlError::Malformed(location.to_owned()))
    }

    /// How the server is spoken to.
    #[must_use]
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The host name or address, IPv6 in brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The host name or address, IPv6 without brackets.
    #[must_use]
    pub fn bare_host(&self) -> &str {
        self.host.trim_start_matches('[').trim_end_matches(']')
    }

    /// The port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `host`, or `host:port` where the port isn't the scheme's own.
    #[must_use]
    pub fn authority(&self) -> String {
        if self.port == self.scheme.default_port() {
            self.host.clone()
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// The path, with the query if there is one.
    #[must_use]
    pub fn path_and_query(&self) -> &str {
        &self.path_and_query
    }

    /// Whether both are the same server, spoken to in the same way.
    #[must_use]
    pub fn has_origin_of(&self, other: &Self) -> bool {
        (self.scheme, &self.host, self.port) == (other.scheme, &other.host, other.port)
    }
}

impl std::str::FromStr for HttpUrl {
    type Err = UrlError;
    fn from_str(text: &str) -> Result<Self, UrlError> {
        Self::new(text)
    }
}

impl fmt::Display for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme.as_str(), self.authority(), self.path_and_query)
    }
}

as_text!(HttpUrl, "an http:// or https:// URL");

/// Hosts that are reached without the proxy.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NoProxy {
    text: String,
    hosts: Hosts,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Hosts {
    All,
    Named { name: String, with_itself: bool, port: Option<u16> },
    Net { address: IpAddr, prefix_bits: u8 },
}

/// What is no entry of `noProxy`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a valid host for noProxy: use a name (which includes its subdomains), .name for \
     its subdomains only, an address, a network as in 10.0.0.0/8, or *"
)]
pub struct NoProxyError(String);

impl NoProxy {
    /// Checks an entry.
    ///
    /// # Errors
    /// When it is neither a name, an address, a network, nor `*`.
    pub fn new(text: &str) -> Result<Self, NoProxyError> {
        let hosts = parse_hosts(text).ok_or_else(|| NoProxyError(text.to_owned()))?;
        Ok(Self { text: text.to_owned(), hosts })
    }

    /// Those of a text, between commas.
    pub fn parse_list(text: &str) -> impl Iterator<Item = Result<Self, NoProxyError>> {
        text.split(',').map(str::trim).filter(|host| !host.is_empty()).map(Self::new)
    }

    /// Whether a URL's host is meant. Names are not resolved for it.
    #[must_use]
    pub fn matches_url(&self, url: &HttpUrl) -> bool {
        match &self.hosts {
            Hosts::All => true,
            Hosts::Named { name, with_itself, port } => {
                let rest = url.host().strip_suffix(name.as_str());
                let is_meant = rest.is_some_and(|rest| match rest {
                    "" => *with_itself,
                    rest => rest.ends_with('.'),
                });
                is_meant && port.is_none_or(|port| port == url.port())
            }
            Hosts::Net { address, prefix_bits } => {
                let host = url.bare_host().parse::<IpAddr>();
                host.is_ok_and(|host| is_inside(host.to_canonical(), *address, *prefix_bits))
            }
        }
    }
}

fn parse_hosts(text: &str) -> Option<Hosts> {
    if text == "*" {
        return Some(Hosts::All);
    }
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = bare.parse::<IpAddr>() {
        let prefix_bits = if address.is_ipv4() { 32 } else { 128 };
        return Some(Hosts::Net { address, prefix_bits });
    }
    if let Some((address, bits)) = text.split_once('/') {
        let (address, prefix_bits) = (address.parse::<IpAddr>().ok()?, bits.parse::<u8>().ok()?);
        let longest = if address.is_ipv4() { 32 } else { 128 };
        return (prefix_bits <= longest).then_some(Hosts::Net { address, prefix_bits });
    }
    let (host, port) = match text.contains(':') {
        true => host_and_port(text).map(|(host, port)| (host, Some(port)))?,
        false => {
            let with_port = format!("{text}:1");
            host_and_port(&with_port)?;
            (text, None)
        }
    };
    let name = host.trim_start_matches("*.").trim_start_matches('.').to_ascii_lowercase();
    let with_itself = name.len() == host.len();
    (!name.is_empty()).then_some(Hosts::Named { name, with_itself, port })
}

fn is_inside(host: IpAddr, net: IpAddr, prefix_bits: u8) -> bool {
    let differ = match (host, net) {
        (IpAddr::V4(host), IpAddr::V4(net)) => {
            u128::from(host.to_bits() ^ net.to_bits()).checked_shr(32 - u32::from(prefix_bits))
        }
        (IpAddr::V6(host), IpAddr::V6(net)) => {
            let differ = host.to_bits() ^ net.to_bits();
            Some(differ.checked_shr(128 - u32::from(prefix_bits)).unwrap_or(0))
        }
        _ => None,
    };
    differ == Some(0)
}

impl std::str::FromStr for NoProxy {
    type Err = NoProxyError;
    fn from_str(text: &str) -> Result<Self, NoProxyError> {
        Self::new(text)
    }
}

impl fmt::Display for NoProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

as_text!(NoProxy, "a host, a network or *");

#[cfg(test)]
mod tests {
    use super::{HttpUrl, NoProxy, UrlError};

    /// Scenario: URLs good and bad. Guarantee: parts are as written, with the scheme's port; what
    /// can't be asked is refused, and credentials are not repeated.
    #[test]
    fn a_url_gives_its_parts_or_is_refused() {
        for (text, authority, port, path) in [
            ("http://shop", "shop", 80, "/"),
            ("HTTPS://Shop:8443/a?b=c#d", "shop:8443", 8443, "/a?b=c"),
            ("https://[::1]/x", "[::1]", 443, "/x"),
            ("https://[fd00::1]:443?x", "[fd00::1]", 443, "/?x"),
        ] {
            let url = HttpUrl::new(text).unwrap();
            assert_eq!((url.authority().as_str(), url.port()), (authority, port), "{text}");
            assert_eq!(url.path_and_query(), path, "{text}");
            assert_eq!(HttpUrl::new(&url.to_string()), Ok(url), "{text}");
        }
        for bad in ["shop:80", "ftp://shop", "http://", "http://shop:0", "http://a b/", "http:///x"]
        {
            assert!(matches!(HttpUrl::new(bad), Err(UrlError::Malformed(_))), "{bad}");
        }
        let error = HttpUrl::new("https://me:hunter2@shop").unwrap_err().to_string();
        assert!(!error.contains("hunter2"), "{error}");
    }

    /// Scenario: locations of redirects in each form. Guarantee: where each points.
    #[test]
    fn locations_are_joined() {
        let url = HttpUrl::new("https://shop:8443/a/b?c=d").unwrap();
        for (location, wanted) in [
            ("/x", "https://shop:8443/x"),
            ("x?y=http://z", "https://shop:8443/a/x?y=http://z"),
            ("?y", "https://shop:8443/a/b?y"),
            ("//other/x", "https://other/x"),
            ("http://other:1/x", "http://other:1/x"),
            ("", "https://shop:8443/a/b"),
        ] {
            assert_eq!(url.join(location).unwrap().to_string(), wanted, "{location}");
        }
        for bad in ["file:///etc/passwd", "http://a@b/", "/a b", "javascript:x"] {
            assert!(url.join(bad).is_err(), "{bad}");
        }
    }

    /// Scenario: entries of each kind. Guarantee: which hosts each holds.
    #[test]
    fn hosts_without_a_proxy_are_told() {
        for (entry, inside, outside) in [
            ("*", "http://a", ""),
            ("shop.net", "http://shop.net", "http://eshop.net"),
            ("shop.net", "http://a.SHOP.net:9", "http://shop.net.evil"),
            (".shop.net", "http://a.shop.net", "http://shop.net"),
            ("shop.net:9", "http://shop.net:9", "http://shop.net"),
            ("10.0.0.0/8", "http://10.9.9.9", "http://11.0.0.1"),
            ("10.0.0.0/8", "http://[::ffff:10.0.0.1]", "http://ten.net"),
            ("0.0.0.0/0", "http://1.2.3.4", "http://[::1]"),
            ("fd00::/8", "http://[fd12::1]", "http://[fe00::1]"),
            ("::/0", "http://[fd12::1]", "http://1.2.3.4"),
            ("1.2.3.4", "http://1.2.3.4:9", "http://1.2.3.5"),
        ] {
            let hosts = NoProxy::new(entry).unwrap();
            assert!(hosts.matches_url(&HttpUrl::new(inside).unwrap()), "{entry} {inside}");
            if !outside.is_empty() {
                assert!(!hosts.matches_url(&HttpUrl::new(outside).unwrap()), "{entry} {outside}");
            }
        }
        for bad in ["", ".", "a b", "10.0.0.0/33", "http://a", "a:0"] {
            assert!(NoProxy::new(bad).is_err(), "{bad}");
        }
    }
}
