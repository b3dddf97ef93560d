//! Encryption of listeners and clients: certificates and keys become references to Secrets, which
//! the user has to create.

use crate::account::Fate;
use crate::tree::Node;
use crate::work::Work;

/// The pipeline's fields for a block's files; `None` where there is no such field.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TlsTargets<'a> {
    /// The CA of the other side: field and Secret.
    pub(crate) authority: Option<(&'a str, &'a str)>,
    /// The own certificate and key.
    pub(crate) certificate: Option<(&'a str, &'a str)>,
    /// The CA of clients.
    pub(crate) clients: Option<(&'a str, &'a str)>,
}

/// The settings that a block requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestedTls {
    /// Whether the connection is encrypted.
    pub(crate) encrypted: bool,
    pub(crate) authority: bool,
    pub(crate) certificate: bool,
    pub(crate) clients: bool,
}

/// The kind of a block's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TlsFileKind {
    Authority,
    Certificate,
    Clients,
}

const FILES: [(&str, TlsFileKind); 7] = [
    ("ca_file", TlsFileKind::Authority),
    ("ca_pem", TlsFileKind::Authority),
    ("cert_file", TlsFileKind::Certificate),
    ("cert_pem", TlsFileKind::Certificate),
    ("key_file", TlsFileKind::Certificate),
    ("key_pem", TlsFileKind::Certificate),
    ("client_ca_file", TlsFileKind::Clients),
];

impl TlsFileKind {
    /// Describes the Secret that has to be created.
    fn to_make(self, secret: &str) -> String {
        match self {
            Self::Authority | Self::Clients => format!(
                "create the Secret {secret} in the pipeline's namespace: the certificates as ca.crt"
            ),
            Self::Certificate => format!(
                "create the Secret {secret} of type kubernetes.io/tls: keys tls.crt and tls.key"
            ),
        }
    }
}

/// Accounts for a `tls` block of the Collector's, and returns what it requests. `to` is the
/// pipeline's block.
pub(crate) fn account_tls(
    work: &mut Work,
    node: &Node<'_>,
    to: &str,
    targets: TlsTargets<'_>,
) -> RequestedTls {
    let account = &mut work.account;
    let mut requested = RequestedTls { encrypted: true, ..RequestedTls::default() };
    let mut fields = account.open_block(node, Fate::carried(to));
    if let Some(insecure) = fields.take_field("insecure") {
        requested.encrypted = !insecure.is_true();
        match requested.encrypted {
            true => account.carried(&insecure, to),
            false => account.not_needed(&insecure, "there is no encryption without tls"),
        }
    }
    if let Some(skip) = fields.take_field("insecure_skip_verify") {
        match skip.is_true() {
            false => account.not_needed(&skip, "certificates are always verified"),
            true => account.unsupported(
                &skip,
                "certificates are always verified: create a Secret with the authority that signed \
                 them, and name it",
            ),
        }
    }
    for (name, kind) in FILES {
        let Some(field) = fields.take_field(name) else { continue };
        let (target, is_requested) = match kind {
            TlsFileKind::Authority => (targets.authority, &mut requested.authority),
            TlsFileKind::Certificate => (targets.certificate, &mut requested.certificate),
            TlsFileKind::Clients => (targets.clients, &mut requested.clients),
        };
        match target {
            Some((to, secret)) => {
                *is_requested = true;
                account.fill_in(&field, to, kind.to_make(secret));
            }
            None => account.unsupported(&field, "a pipeline has no such field"),
        }
    }
    for name in ["min_version", "max_version"] {
        let Some(field) = fields.take_field(name) else { continue };
        match field.plain_text().as_deref() {
            Some("1.2") if name == "min_version" => account.not_needed(&field, "it is 1.2"),
            Some("1.3" | "") if name == "max_version" => account.not_needed(&field, "it is 1.3"),
            _ => account.unsupported(&field, "TLS 1.2 and 1.3 are supported"),
        }
    }
    account.account_remaining(fields, |name| match name {
        "reload_interval" | "client_ca_file_reload" => {
            Fate::not_needed("a changed Secret replaces the pods")
        }
        "include_system_ca_certs_pool" => Fate::unsupported(
            "the system's authorities are trusted only without your own authority",
        ),
        "server_name_override" => {
            Fate::unsupported("the certificate must contain the host name of the endpoint")
        }
        _ => Fate::unsupported("cipher suites, curves and key stores are fixed"),
    });
    requested
}
