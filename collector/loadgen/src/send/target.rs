//! Where the load goes, and how it is packed.

use std::fmt;

use clap::ValueEnum;
use http::Uri;
use http::uri::PathAndQuery;
use millrace_wire::Signal;

/// How OTLP is spoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, ValueEnum)]
pub enum Protocol {
    /// OTLP/gRPC, usually port 4317.
    #[default]
    Grpc,
    /// OTLP/HTTP with protobuf bodies, usually port 4318.
    Http,
}

/// How requests are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, ValueEnum)]
pub enum Compression {
    /// Sent as they are.
    #[default]
    None,
    /// gzip at its fastest level: a load generator must not be slower than what it loads.
    Gzip,
    /// zstd level 1.
    Zstd,
}

impl Compression {
    /// The name in `grpc-encoding` and `Content-Encoding`; `None` when nothing is said.
    pub(crate) fn encoding(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Gzip => Some("gzip"),
            Self::Zstd => Some("zstd"),
        }
    }
}

/// A text names no target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no OTLP endpoint: write http://host:4317 (gRPC) or http://host:4318 (HTTP)")]
pub struct TargetError(String);

/// An OTLP endpoint: `http://host:4317`, `https://host:4318`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Scheme and authority.
    base: Uri,
    protocol: Protocol,
}

impl Target {
    /// Checks an address.
    ///
    /// # Errors
    /// The address is not `http://` or `https://` with a host and no path, or has no port.
    pub fn new(text: &str, protocol: Protocol) -> Result<Self, TargetError> {
        let refused = || TargetError(text.to_owned());
        let base: Uri = text.parse().map_err(|_| refused())?;
        let is_web = matches!(base.scheme_str(), Some("http" | "https"));
        let is_bare = base.path() == "/" && base.query().is_none();
        let authority = base.authority().filter(|a| a.port_u16().is_some_and(|port| port > 0));
        let (true, true, Some(authority)) = (is_web, is_bare, authority) else {
            return Err(refused());
        };
        if authority.as_str().contains('@') {
            return Err(TargetError("(an address with '@')".to_owned()));
        }
        let scheme = base.scheme_str().unwrap_or("http");
        let bare = Uri::builder().scheme(scheme).authority(authority.clone()).path_and_query("/");
        Ok(Self { base: bare.build().map_err(|_| refused())?, protocol })
    }

    /// How OTLP is spoken there.
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// The full address of a signal's export call.
    pub(crate) fn uri(&self, signal: Signal) -> Uri {
        let path = match (self.protocol, signal) {
            (Protocol::Grpc, Signal::Traces) => {
                "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
            }
            (Protocol::Grpc, Signal::Logs) => {
                "/opentelemetry.proto.collector.logs.v1.LogsService/Export"
            }
            (Protocol::Grpc, Signal::Metrics) => {
                "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
            }
            (Protocol::Http, Signal::Traces) => "/v1/traces",
            (Protocol::Http, Signal::Logs) => "/v1/logs",
            (Protocol::Http, Signal::Metrics) => "/v1/metrics",
        };
        let mut parts = self.base.clone().into_parts();
        parts.path_and_query = Some(PathAndQuery::from_static(path));
        // Scheme and authority are there, so the parts fit.
        Uri::from_parts(parts).unwrap_or_else(|_| self.base.clone())
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: addresses with and without what they need. Guarantee: only whole ones pass.
    #[test]
    fn targets_are_checked() {
        let target = Target::new("http://edge:4318", Protocol::Http).unwrap();
        assert_eq!(target.to_string(), "http://edge:4318/");
        assert_eq!(target.uri(Signal::Logs), "http://edge:4318/v1/logs");
        assert!(Target::new("https://[::1]:4317/", Protocol::Grpc).is_ok());
        for bad in [
            "",
            "edge:4317",
            "http://edge",
            "http://edge:0",
            "http://edge:4318/v1/traces",
            "ftp://edge:1",
            "http://u:secret@edge:4317",
        ] {
            let message = Target::new(bad, Protocol::Grpc).unwrap_err().to_string();
            assert!(!message.contains("secret"), "{message}");
        }
    }
}
