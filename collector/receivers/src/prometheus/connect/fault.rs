//! Why a server couldn't be asked, in words that say what to change.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use http::StatusCode;
use millrace_config::{HttpUrl, SecretError, SecretFile, UrlError};

use super::REDIRECTS_MAX;

/// Why a request came to nothing.
#[derive(Debug, thiserror::Error)]
pub(in super::super) enum ConnectError {
    #[error("the name {host} can't be resolved: {source}")]
    Resolve { host: String, source: Arc<io::Error> },
    #[error(
        "the address {address} of {host} is a loopback, link-local or unusable one: name another \
         host, or set receivers.prometheus.allowLocalAddresses"
    )]
    Local { host: String, address: IpAddr },
    #[error("{address} can't be connected to: {source}")]
    Connect { address: SocketAddr, source: io::Error },
    #[error("TLS with {host} failed: {reason}")]
    Tls { host: String, reason: String },
    #[error(transparent)]
    File(#[from] Arc<FileFault>),
    #[error(transparent)]
    Token(#[from] Arc<TokenFault>),
    #[error("the proxy {proxy} answered {status} when it was asked to connect to {host}{hint}")]
    Proxy { proxy: String, status: StatusCode, host: String, hint: &'static str },
    #[error("its answer can't be read: {0}{cause}", cause = cause(.0))]
    Http(#[from] hyper::Error),
    #[error("the request can't be made: {0}")]
    Request(#[from] http::Error),
    #[error("it answered {status}{hint}")]
    Status { status: StatusCode, hint: &'static str },
    #[error("it redirects without saying where")]
    NoLocation,
    #[error("it redirects to what can't be asked: {0}")]
    Location(UrlError),
    #[error("it redirects from https to http, which is not followed")]
    Unencrypted,
    #[error("it redirects more than {REDIRECTS_MAX} times")]
    Redirects,
}

/// A file of the settings that can't be used. Its content is never told.
#[derive(Debug, thiserror::Error)]
pub(in super::super) enum FileFault {
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error("{file} holds no usable {what} in PEM: {reason}")]
    Pem { file: SecretFile, what: &'static str, reason: String },
    #[error("{0} has characters that no header may have: write one line of text")]
    NoHeader(SecretFile),
    #[error("{0} has a colon, which no user name may have")]
    Colon(SecretFile),
    #[error("certificate and key of tls can't be used: {0}")]
    Unusable(#[from] rustls::Error),
    #[error("no authority of this system can be read: give tls.caFile")]
    NoAuthorities,
    #[error("reading files was broken off")]
    BrokenOff,
}

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
#[error("no token from {url}: {reason}")]
pub(in super::super) struct TokenFault {
    pub(super) url: HttpUrl,
    pub(super) reason: String,
}

/// What is behind a fault of HTTP. A server that refuses our certificate says so after the
/// handshake, with TLS 1.3.
fn cause(error: &hyper::Error) -> String {
    let Some(cause) = std::error::Error::source(error) else { return String::new() };
    match cause.downcast_ref::<io::Error>() {
        Some(io) if io.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()) => {
            format!(": {}", tls_reason(io))
        }
        _ => format!(": {cause}"),
    }
}

/// Why a handshake failed.
pub(super) fn tls_reason(error: &io::Error) -> String {
    use rustls::{AlertDescription, CertificateError, Error};
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    match inner {
        // The second is an authority that has the name of one that is trusted, and not its key.
        Some(Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        )) => {
            "its certificate is signed by an authority that isn't trusted: give tls.caFile".into()
        }
        Some(Error::InvalidCertificate(CertificateError::NotValidForNameContext {
            expected,
            presented,
        })) => {
            let shown = presented.iter().take(NAMES_SHOWN).map(|name| bare_name(name));
            let names = shown.collect::<Vec<_>>().join(", ");
            let more = if presented.len() > NAMES_SHOWN { ", ..." } else { "" };
            let expected = expected.to_str();
            format!(
                "its certificate is not for {expected} but for [{names}{more}]: ask it by such a \
                 name, or set tls.serverName"
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
        Some(Error::InvalidMessage(_)) => "it doesn't speak TLS: is the scheme http?".into(),
        Some(other) => other.to_string(),
        None if error.kind() == io::ErrorKind::UnexpectedEof => {
            "it closed the connection during the handshake".into()
        }
        None => error.to_string(),
    }
}

/// A name out of `DnsName("name")`.
fn bare_name(name: &str) -> &str {
    name.split('"').nth(1).unwrap_or(name)
}

/// Most names of a certificate that are shown.
const NAMES_SHOWN: usize = 8;

/// What a server says of our certificate.
fn certificate_refused(alert: &rustls::AlertDescription) -> String {
    format!("it refuses our certificate ({alert:?}): see tls.certFile and tls.keyFile")
}
