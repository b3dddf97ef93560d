//! Checked addresses of the systems outside: Kafka brokers, ClickHouse endpoints, scraped targets.

use crate::values::text::as_text;

/// An address that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {what}: use {rule}")]
pub struct EndpointError {
    text: String,
    what: &'static str,
    rule: &'static str,
}

/// A Kafka broker to begin with: `host:port`, IPv6 hosts in brackets.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BootstrapServer(String);

impl BootstrapServer {
    /// Checks an address.
    ///
    /// # Errors
    /// When it is not `host:port`.
    pub fn new(text: impl Into<String>) -> Result<Self, EndpointError> {
        with_port(text.into(), "a broker address", "host:port, as in kafka-0.kafka:9092").map(Self)
    }

    /// The address as `host:port`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A target that is scraped: `host:port`, IPv6 hosts in brackets.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TargetAddress(String);

impl TargetAddress {
    /// Checks an address.
    ///
    /// # Errors
    /// When it is not `host:port`.
    pub fn new(text: impl Into<String>) -> Result<Self, EndpointError> {
        let rule = "host:port without a scheme or path, as in node-exporter.monitoring:9100";
        with_port(text.into(), "a target", rule).map(Self)
    }

    /// The address as `host:port`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The host name or address, IPv6 in brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        host_and_port(&self.0).map_or("", |(host, _)| host)
    }

    /// The port.
    #[must_use]
    pub fn port(&self) -> u16 {
        host_and_port(&self.0).map_or(0, |(_, port)| port)
    }
}

impl std::str::FromStr for TargetAddress {
    type Err = EndpointError;
    fn from_str(text: &str) -> Result<Self, EndpointError> {
        Self::new(text)
    }
}

impl std::fmt::Display for TargetAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

as_text!(TargetAddress, "a target");

/// A ClickHouse HTTP endpoint: `http://host:port` or `https://host:port`, with nothing behind it.
///
/// Credentials in it are refused: they would be visible in logs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HttpEndpoint(String);

impl HttpEndpoint {
    /// Checks an endpoint. A slash at its end is dropped.
    ///
    /// # Errors
    /// When it is not `http[s]://host:port`.
    pub fn new(text: impl Into<String>) -> Result<Self, EndpointError> {
        let text = text.into();
        let trimmed = text.strip_suffix('/').unwrap_or(&text);
        let authority =
            trimmed.strip_prefix("http://").or_else(|| trimmed.strip_prefix("https://"));
        if authority.and_then(host_and_port).is_some() {
            return Ok(Self(trimmed.to_owned()));
        }
        // The text could hold a password before an '@': don't repeat it.
        let shown =
            if text.contains('@') { "an address with credentials".to_owned() } else { text };
        Err(EndpointError {
            text: shown,
            what: "a ClickHouse endpoint",
            rule: "http://host:port or https://host:port, with credentials in files",
        })
    }

    /// The endpoint as a URL without a path.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the endpoint is spoken to over TLS.
    #[must_use]
    pub fn is_https(&self) -> bool {
        self.0.starts_with("https://")
    }

    /// The host name or address, IPv6 in brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        host_and_port(self.authority()).map_or("", |(host, _)| host)
    }

    /// The port.
    #[must_use]
    pub fn port(&self) -> u16 {
        host_and_port(self.authority()).map_or(0, |(_, port)| port)
    }

    /// `host:port`.
    #[must_use]
    pub fn authority(&self) -> &str {
        self.0.split_once("://").map_or("", |(_, authority)| authority)
    }
}

/// The text, if it is `host:port`; else the fault that says `what` it isn't and the `rule` for it.
fn with_port(
    text: String,
    what: &'static str,
    rule: &'static str,
) -> Result<String, EndpointError> {
    match host_and_port(&text) {
        Some(_) => Ok(text),
        None => Err(EndpointError { text, what, rule }),
    }
}

/// Splits `host:port`; none when either is missing, the port is 0, or a character is out of place.
pub(crate) fn host_and_port(text: &str) -> Option<(&str, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    let digits = port.bytes().all(|b| b.is_ascii_digit());
    let port: u16 = port.parse().ok().filter(|port| *port != 0 && digits)?;
    let inner = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let good = match inner {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            (1..=253).contains(&host.len())
                && host
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'))
        }
    };
    good.then_some((host, port))
}

impl std::str::FromStr for BootstrapServer {
    type Err = EndpointError;
    fn from_str(text: &str) -> Result<Self, EndpointError> {
        Self::new(text)
    }
}

impl std::fmt::Display for BootstrapServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

as_text!(BootstrapServer, "a broker address");

impl std::str::FromStr for HttpEndpoint {
    type Err = EndpointError;
    fn from_str(text: &str) -> Result<Self, EndpointError> {
        Self::new(text)
    }
}

impl std::fmt::Display for HttpEndpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

as_text!(HttpEndpoint, "a ClickHouse endpoint");

#[cfg(test)]
mod tests {
    use super::{BootstrapServer, HttpEndpoint};

    /// Scenario: addresses good and bad. Guarantee: only `host:port` passes.
    #[test]
    fn a_broker_is_a_host_and_a_port() {
        for good in ["kafka:9092", "10.0.0.1:1", "[::1]:9092", "a-b.c_d:65535"] {
            assert!(BootstrapServer::new(good).is_ok(), "{good}");
        }
        for bad in ["kafka", "kafka:0", "kafka:65536", ":9092", "a b:1", "[::g]:1", "a,b:1", "a:+1"]
        {
            assert!(BootstrapServer::new(bad).is_err(), "{bad}");
        }
    }

    /// Scenario: a password written into the URL. Guarantee: refused, and not repeated.
    #[test]
    fn credentials_in_an_endpoint_are_refused_and_not_shown() {
        let error = HttpEndpoint::new("https://user:hunter2@db:8443").unwrap_err();
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }

    /// Scenario: a well-formed endpoint. Guarantee: its parts are as written.
    #[test]
    fn an_endpoint_gives_its_parts() {
        let endpoint = HttpEndpoint::new("https://clickhouse-0.db:8443/").unwrap();
        assert_eq!(endpoint.as_str(), "https://clickhouse-0.db:8443");
        assert_eq!((endpoint.host(), endpoint.port()), ("clickhouse-0.db", 8443));
        assert!(endpoint.is_https());
        assert!(HttpEndpoint::new("http://db").is_err());
        assert!(HttpEndpoint::new("tcp://db:9000").is_err());
        assert!(HttpEndpoint::new("http://db:8123/path").is_err());
    }
}
