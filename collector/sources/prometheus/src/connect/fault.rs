//! The reasons why a request failed, with messages that state what to change.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use http::StatusCode;
use millrace_config::{HttpUrl, SecretError, SecretFile, UrlError};

use super::REDIRECTS_MAX;

/// The reason why a request failed.
#[derive(Debug, thiserror::Error)]
pub(in super::super) enum ConnectError {
    #[error("cannot resolve the name {host}: {source}")]
    Resolve { host: String, source: Arc<io::Error> },
    #[error(
        "the address {address} of {host} is loopback, link-local or unusable: use another host, or \
         set receivers.prometheus.allowLocalAddresses"
    )]
    Local { host: String, address: IpAddr },
    #[error("cannot connect to {address}: {source}")]
    Connect { address: SocketAddr, source: io::Error },
    #[error("TLS with {host} failed: {reason}")]
    Tls { host: String, reason: String },
    #[error(transparent)]
    File(#[from] Arc<FileFault>),
    #[error(transparent)]
    Token(#[from] Arc<TokenFault>),
    #[error("the proxy {proxy} answered {status} to CONNECT {host}{hint}")]
    Proxy { proxy: String, status: StatusCode, host: String, hint: &'static str },
    #[error("cannot read the answer: {0}{cause}", cause = cause(.0))]
    Http(#[from] hyper::Error),
    #[error("cannot build the request: {0}")]
    Request(#[from] http::Error),
    #[error("it answered {status}{hint}")]
    Status { status: StatusCode, hint: &'static str },
    #[error("it redirects without a location")]
    NoLocation,
    #[error("it redirects to an invalid URL: {0}")]
    Location(UrlError),
    #[error("it redirects from https to http, which is not followed")]
    Unencrypted,
    #[error("it redirects more than {REDIRECTS_MAX} times")]
    Redirects,
}

/// A file of the settings that can't be used. Its content is never shown.
#[derive(Debug, thiserror::Error)]
pub(in super::super) enum FileFault {
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error("{file} contains no valid {what} in PEM: {reason}")]
    Pem { file: SecretFile, what: &'static str, reason: String },
    #[error("{0} has characters that are not allowed in a header: use one line of text")]
    NoHeader(SecretFile),
    #[error("{0} has a colon, which is not allowed in a user name")]
    Colon(SecretFile),
    #[error("the certificate and key of tls are invalid: {0}")]
    Unusable(#[from] rustls::Error),
    #[error("cannot read any CA certificate of this system: set tls.caFile")]
    NoAuthorities,
    #[error("reading files was aborted")]
    BrokenOff,
}

/// The reason why no token was issued.
#[derive(Debug, thiserror::Error)]
#[error("no token from {url}: {reason}")]
pub(in super::super) struct TokenFault {
    pub(super) url: HttpUrl,
    pub(super) reason: String,
}

/// Returns the cause of an HTTP error. With TLS 1.3 a server that refuses our certificate reports
/// it after the handshake.
fn cause(error: &hyper::Error) -> String {
    let Some(cause) = std::error::Error::source(error) else { return String::new() };
    match cause.downcast_ref::<io::Error>() {
        Some(io) if io.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()) => {
            format!(": {}", tls_reason(io))
        }
        _ => format!(": {cause}"),
    }
}

/// Returns the reason why a handshake failed.
pub(super) fn tls_reason(error: &io::Error) -> String {
    use rustls::{AlertDescription, CertificateError, Error};
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    match inner {
        // `BadSignature`: an authority has the name of a trusted one, but not its key.
        Some(Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        )) => "its certificate is signed by a CA that is not trusted: set tls.caFile".into(),
        Some(Error::InvalidCertificate(CertificateError::NotValidForNameContext {
            expected,
            presented,
        })) => {
            let shown = presented.iter().take(NAMES_SHOWN).map(|name| bare_name(name));
            let names = shown.collect::<Vec<_>>().join(", ");
            let more = if presented.len() > NAMES_SHOWN { ", ..." } else { "" };
            let expected = expected.to_str();
            format!(
                "its certificate is not for {expected} but for [{names}{more}]: use one of these \
                 names, or set tls.serverName"
            )
        }
        Some(Error::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. },
        )) => "its certificate has expired".into(),
        Some(Error::InvalidCertificate(
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. },
        )) => "its certificate is not valid yet".into(),
        Some(Error::AlertReceived(
            alert @ (AlertDescription::CertificateRequired
            | AlertDescription::BadCertificate
            | AlertDescription::UnknownCA
            | AlertDescription::CertificateExpired),
        )) => certificate_refused(alert),
        Some(Error::InvalidMessage(_)) => {
            "it doesn't speak TLS: check whether scheme must be http".into()
        }
        Some(other) => other.to_string(),
        None if error.kind() == io::ErrorKind::UnexpectedEof => {
            "it closed the connection during the handshake".into()
        }
        None => error.to_string(),
    }
}

/// Returns the name in `DnsName("name")`.
fn bare_name(name: &str) -> &str {
    name.split('"').nth(1).unwrap_or(name)
}

/// The most names of a certificate that are shown.
const NAMES_SHOWN: usize = 8;

/// Formats a server's refusal of our certificate.
fn certificate_refused(alert: &rustls::AlertDescription) -> String {
    format!("it refused the client certificate ({alert:?}): check tls.certFile and tls.keyFile")
}
