//! The destination of a load, its protocol and its compression.

use std::fmt;

use clap::ValueEnum;
use http::Uri;
use http::uri::PathAndQuery;
use millrace_wire::Signal;

/// Protocol of OTLP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, ValueEnum)]
pub enum OtlpProtocol {
    /// OTLP/gRPC, usually port 4317.
    #[default]
    Grpc,
    /// OTLP/HTTP with protobuf bodies, usually port 4318.
    Http,
}

/// Compression of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, ValueEnum)]
pub enum RequestCompression {
    /// No compression.
    #[default]
    None,
    /// gzip at its fastest level: a load generator must not be slower than what it loads.
    Gzip,
    /// zstd level 1.
    Zstd,
}

impl RequestCompression {
    /// Returns the name in `grpc-encoding` and `Content-Encoding`; `None` without compression.
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
#[error("{0:?} is not an OTLP endpoint: use http://host:4317 (gRPC) or http://host:4318 (HTTP)")]
pub struct TargetError(String);

/// An OTLP endpoint: `http://host:4317`, `https://host:4318`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadTarget {
    /// Scheme and authority.
    base: Uri,
    protocol: OtlpProtocol,
}

impl LoadTarget {
    /// Checks an address and creates a target.
    ///
    /// # Errors
    /// The address is not `http://` or `https://` with a host and no path, or has no port.
    pub fn new(text: &str, protocol: OtlpProtocol) -> Result<Self, TargetError> {
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

    /// Returns the protocol.
    #[must_use]
    pub fn protocol(&self) -> OtlpProtocol {
        self.protocol
    }

    /// Returns the full address of a signal's export call.
    pub(crate) fn export_uri(&self, signal: Signal) -> Uri {
        let path = match (self.protocol, signal) {
            (OtlpProtocol::Grpc, Signal::Traces) => {
                "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
            }
            (OtlpProtocol::Grpc, Signal::Logs) => {
                "/opentelemetry.proto.collector.logs.v1.LogsService/Export"
            }
            (OtlpProtocol::Grpc, Signal::Metrics) => {
                "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
            }
            (OtlpProtocol::Http, Signal::Traces) => "/v1/traces",
            (OtlpProtocol::Http, Signal::Logs) => "/v1/logs",
            (OtlpProtocol::Http, Signal::Metrics) => "/v1/metrics",
        };
        let mut parts = self.base.clone().into_parts();
        parts.path_and_query = Some(PathAndQuery::from_static(path));
        // Scheme and authority exist, so the parts fit.
        Uri::from_parts(parts).unwrap_or_else(|_| self.base.clone())
    }
}

impl fmt::Display for LoadTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: complete and incomplete addresses. Guarantee: only complete ones pass.
    #[test]
    fn targets_are_checked() {
        let target = LoadTarget::new("http://edge:4318", OtlpProtocol::Http).unwrap();
        assert_eq!(target.to_string(), "http://edge:4318/");
        assert_eq!(target.export_uri(Signal::Logs), "http://edge:4318/v1/logs");
        assert!(LoadTarget::new("https://[::1]:4317/", OtlpProtocol::Grpc).is_ok());
        for bad in [
            "",
            "edge:4317",
            "http://edge",
            "http://edge:0",
            "http://edge:4318/v1/traces",
            "ftp://edge:1",
            "http://u:secret@edge:4317",
        ] {
            let message = LoadTarget::new(bad, OtlpProtocol::Grpc).unwrap_err().to_string();
            assert!(!message.contains("secret"), "{message}");
        }
    }
}
