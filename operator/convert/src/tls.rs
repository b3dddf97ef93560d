//! Encryption of listeners and clients: certificates and keys become references to Secrets, which
//! have to be made by hand.

use crate::account::Fate;
use crate::tree::Node;
use crate::work::Work;

/// Where what a block says goes; none where there is no such field.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Places<'a> {
    /// The authority of the other side: field and Secret.
    pub(crate) authority: Option<(&'a str, &'a str)>,
    /// The own certificate and key.
    pub(crate) certificate: Option<(&'a str, &'a str)>,
    /// The authority of clients.
    pub(crate) clients: Option<(&'a str, &'a str)>,
}

/// What a block asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    /// Whether the connection is encrypted.
    pub(crate) encrypted: bool,
    pub(crate) authority: bool,
    pub(crate) certificate: bool,
    pub(crate) clients: bool,
}

/// What a file of the block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Authority,
    Certificate,
    Clients,
}

const FILES: [(&str, Kind); 7] = [
    ("ca_file", Kind::Authority),
    ("ca_pem", Kind::Authority),
    ("cert_file", Kind::Certificate),
    ("cert_pem", Kind::Certificate),
    ("key_file", Kind::Certificate),
    ("key_pem", Kind::Certificate),
    ("client_ca_file", Kind::Clients),
];

impl Kind {
    /// The Secret that has to be made.
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

/// Accounts for a `tls` block of the Collector's, and says what it asks for. `to` is the pipeline's
/// block.
pub(crate) fn tls(work: &mut Work, node: &Node<'_>, to: &str, places: Places<'_>) -> Asked {
    let account = &mut work.account;
    let mut asked = Asked { encrypted: true, ..Asked::default() };
    let mut fields = account.open(node, Fate::carried(to));
    if let Some(insecure) = fields.take("insecure") {
        asked.encrypted = !insecure.is_true();
        match asked.encrypted {
            true => account.carried(&insecure, to),
            false => account.not_needed(&insecure, "without tls nothing is encrypted"),
        }
    }
    if let Some(skip) = fields.take("insecure_skip_verify") {
        match skip.is_true() {
            false => account.not_needed(&skip, "certificates are always checked"),
            true => account.left(
                &skip,
                "certificates are always checked: create a Secret with the authority that signed \
                 them, and name it",
            ),
        }
    }
    for (name, kind) in FILES {
        let Some(field) = fields.take(name) else { continue };
        let (place, is_asked) = match kind {
            Kind::Authority => (places.authority, &mut asked.authority),
            Kind::Certificate => (places.certificate, &mut asked.certificate),
            Kind::Clients => (places.clients, &mut asked.clients),
        };
        match place {
            Some((to, secret)) => {
                *is_asked = true;
                account.fill_in(&field, to, kind.to_make(secret));
            }
            None => account.left(&field, "no field of a pipeline takes it"),
        }
    }
    for name in ["min_version", "max_version"] {
        let Some(field) = fields.take(name) else { continue };
        match field.said().as_deref() {
            Some("1.2") if name == "min_version" => account.not_needed(&field, "it is 1.2"),
            Some("1.3" | "") if name == "max_version" => account.not_needed(&field, "it is 1.3"),
            _ => account.left(&field, "TLS 1.2 and 1.3 are spoken"),
        }
    }
    account.rest(fields, |name| match name {
        "reload_interval" | "client_ca_file_reload" => {
            Fate::not_needed("a Secret's new content rolls the pods")
        }
        "include_system_ca_certs_pool" => Fate::left(
            "without an authority of your own the system's are trusted, with it no other",
        ),
        "server_name_override" => Fate::left("the certificate must have the name that is called"),
        _ => Fate::left("cipher suites, curves and key stores are the program's own"),
    });
    asked
}
