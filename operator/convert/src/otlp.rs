//! The OTLP receiver: an edge pool listens on 4317 (gRPC) and 4318 (HTTP), without being told.
//!
//! Fields as of the Collector's 0.15x `configgrpc` and `confighttp`.

use millrace_crds::v1alpha1::{EdgeMode, SecretRef, ServerTls, TrafficPolicy};

use crate::account::{Fate, by_name};
use crate::draft::{fixed, pool_path};
use crate::tls::{Places, tls};
use crate::tree::{Node, Text};
use crate::words;
use crate::work::Work;

/// The longest gRPC message, in MiB, and HTTP body, in bytes, that an edge takes.
const MESSAGE_MIB_MAX: u64 = 4;
const BODY_BYTES_MAX: u64 = 20 << 20;

const CERTIFICATE_SECRET: &str = "otlp-server";
const CLIENTS_SECRET: &str = "otlp-clients-ca";

/// A protocol of the receiver.
#[derive(Clone, Copy)]
struct Protocol {
    name: &'static str,
    port: &'static str,
    /// Its field of the longest message, and how long that may be.
    longest: (&'static str, u64),
}

const PROTOCOLS: [Protocol; 2] = [
    Protocol { name: "grpc", port: "4317", longest: ("max_recv_msg_size_mib", MESSAGE_MIB_MAX) },
    Protocol { name: "http", port: "4318", longest: ("max_request_body_size", BODY_BYTES_MAX) },
];

/// Limits and times, which an edge has its own of.
const OWN: [(&str, &str); 15] = [
    ("transport", "it is tcp"),
    ("network", "it is tcp"),
    ("max_concurrent_streams", words::LISTENER),
    ("read_buffer_size", words::LISTENER),
    ("write_buffer_size", words::LISTENER),
    ("keepalive", words::LISTENER),
    ("keep_alives_enabled", words::LISTENER),
    ("idle_timeout", words::LISTENER),
    ("read_timeout", words::LISTENER),
    ("read_header_timeout", words::LISTENER),
    ("write_timeout", words::LISTENER),
    ("compression_algorithms", "plain, gzip and zstd are taken"),
    ("traces_url_path", "clients send to /v1/traces"),
    ("metrics_url_path", "clients send to /v1/metrics"),
    ("logs_url_path", "clients send to /v1/logs"),
];

/// Converts it.
pub(crate) fn receiver(work: &mut Work, node: &Node<'_>) -> bool {
    let name = work.draft.otlp_pool();
    let mode = work.draft.mode.of_pool();
    let Some(pool) = work.draft.pool(name, mode) else { return false };
    if mode == EdgeMode::DaemonSet {
        // As that operator's Service of a DaemonSet.
        pool.service.internal_traffic_policy = Some(TrafficPolicy::Local);
    }
    let to = format!("{}.receivers.otlp", pool_path(name));
    let mut fields = work.account.open(node, Fate::carried(&*to));
    if let Some(protocols) = fields.take("protocols") {
        let certified = PROTOCOLS.iter().any(|protocol| {
            let encryption = protocols.get(protocol.name).and_then(|it| it.get("tls"));
            encryption.as_ref().is_some_and(is_certified)
        });
        let mut each = work.account.open(&protocols, Fate::carried(&*to));
        for protocol in PROTOCOLS {
            if let Some(node) = each.take(protocol.name) {
                let plain = !node.get("tls").as_ref().is_some_and(is_certified);
                let place = Place { pool: name, to: &to, gets_encrypted: certified && plain };
                listener(work, &node, protocol, place);
            }
        }
        work.account.rest(each, |_| Fate::left("an edge speaks OTLP over gRPC and HTTP"));
    }
    work.account.rest(fields, |_| Fate::left(words::UNKNOWN));
    true
}

/// Where a listener is.
#[derive(Clone, Copy)]
struct Place<'a> {
    pool: &'a str,
    to: &'a str,
    /// Whether it is encrypted since the other one is.
    gets_encrypted: bool,
}

/// Whether a block has a certificate: without one it encrypts nothing.
fn is_certified(tls: &Node<'_>) -> bool {
    ["cert_file", "cert_pem"].iter().any(|name| tls.get(name).is_some())
}

fn listener(work: &mut Work, node: &Node<'_>, protocol: Protocol, place: Place<'_>) {
    let Place { pool, to, gets_encrypted } = place;
    let but = gets_encrypted.then(|| "both ports are encrypted, or none".to_owned());
    let whole = Fate::Carried { to: to.to_owned(), but };
    let mut fields = work.account.open(node, whole.clone());
    if let Some(endpoint) = fields.take("endpoint") {
        address(work, &endpoint, protocol.port, whole);
    }
    if let Some(encryption) = fields.take("tls") {
        encrypt(work, &encryption, pool, to);
    }
    let (name, longest) = protocol.longest;
    if let Some(size) = fields.take(name) {
        let asked = size.said().and_then(|text| text.parse::<u64>().ok());
        match asked {
            Some(asked) if asked <= longest => work.account.not_needed(&size, words::LISTENER),
            _ => work.account.left(
                &size,
                "an edge takes gRPC messages of 4 MiB and HTTP bodies of 20 MiB: have clients send \
                 smaller ones",
            ),
        }
    }
    let account = &mut work.account;
    for (name, usual) in [
        ("traces_url_path", "v1/traces"),
        ("metrics_url_path", "v1/metrics"),
        ("logs_url_path", "v1/logs"),
    ] {
        let Some(path) = fields.take(name) else { continue };
        let said = path.said();
        match said.as_deref().map(|text| text.trim_start_matches('/')) == Some(usual) {
            true => account.carried(&path, to),
            false => account.left(&path, format!("an edge has the usual path: send to /{usual}")),
        }
    }
    account.rest(fields, |name| match name {
        "auth" => Fate::left(
            "an edge asks clients for certificates (receivers.otlp.tls.clientCaSecretRef) or for \
             nothing: keep a Collector for other log-ins",
        ),
        "cors" => {
            Fate::left("an edge answers no browser of other origins: keep a Collector for them")
        }
        "include_metadata" => Fate::left("nothing reads clients' headers"),
        "response_headers" => Fate::left("answers have no further headers"),
        name => by_name(&OWN, words::UNKNOWN)(name),
    });
}

fn address(work: &mut Work, node: &Node<'_>, port: &str, whole: Fate) {
    let account = &mut work.account;
    let Fate::Carried { to, .. } = &whole else { return account.put(node, whole) };
    let to = to.clone();
    // The host is often a variable (the pod's address): only the port counts.
    let written = match node.value.as_str() {
        Some(text) => text.to_owned(),
        None => return account.left(node, "a single value is expected here"),
    };
    let (host, its_port) = written.rsplit_once(':').unwrap_or((&written, ""));
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if its_port.contains('}') || (its_port.is_empty() && node.text() == Text::Variable) {
        return account.differs(node, to, format!("an edge listens on {port}, whatever it says"));
    }
    match (its_port == port, ["localhost", "127.0.0.1", "::1"].contains(&host)) {
        (true, false) => account.put(node, whole),
        (true, true) => account.differs(
            node,
            to,
            "an edge is reached through its Service: point clients at status.endpoint",
        ),
        (false, _) => account.left(
            node,
            format!("an edge listens on {port}: point clients at status.endpoint with that port"),
        ),
    }
}

fn encrypt(work: &mut Work, node: &Node<'_>, pool: &str, to: &str) {
    let (own, clients) =
        (format!("{to}.tls.certificateSecretRef"), format!("{to}.tls.clientCaSecretRef"));
    let places = Places {
        authority: None,
        certificate: Some((&own, CERTIFICATE_SECRET)),
        clients: Some((&clients, CLIENTS_SECRET)),
    };
    let certified = is_certified(node);
    let places = if certified { places } else { Places::default() };
    let target = if certified { format!("{to}.tls") } else { to.to_owned() };
    let asked = tls(work, node, &target, places);
    let pool = work.draft.edges.iter_mut().find(|edge| edge.name.as_str() == pool);
    let (Some(pool), Some(name)) = (pool, fixed(CERTIFICATE_SECRET)) else { return };
    if !asked.certificate {
        return;
    }
    let before = pool.settings.receivers.otlp.tls.take();
    let mut tls = before.unwrap_or(ServerTls {
        certificate_secret_ref: SecretRef { name },
        client_ca_secret_ref: None,
    });
    if asked.clients {
        tls.client_ca_secret_ref = fixed(CLIENTS_SECRET).map(|name| SecretRef { name });
    }
    pool.settings.receivers.otlp.tls = Some(tls);
}
