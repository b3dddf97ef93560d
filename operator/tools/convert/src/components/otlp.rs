//! Converts the OTLP receiver: an edge pool listens on 4317 (gRPC) and 4318 (HTTP) without any
//! setting. Longer requests than by default become its limits.
//!
//! Fields as of the Collector's 0.15x `configgrpc` and `confighttp`.

use millrace_crds::MemoryQuantity;
use millrace_crds::v1alpha1::{
    CaSource, CertificateSecret, EdgeMode, OtlpLimits, ServerTls, TrafficPolicy,
};

use crate::account::{Fate, by_name};
use crate::advice;
use crate::components::tls::{TlsTargets, account_tls};
use crate::draft::{checked_name, pool_path};
use crate::tree::{Node, TextValue};
use crate::work::Work;

/// Longest request that an edge accepts without a setting, and with one, in bytes.
const MESSAGE_BYTES: u64 = 4 << 20;
const BODY_BYTES: u64 = 20 << 20;
const REQUEST_BYTES_MAX: u64 = 128 << 20;

const CERTIFICATE_SECRET: &str = "otlp-server";
const CLIENTS_SECRET: &str = "otlp-clients-ca";

/// A protocol of the receiver.
#[derive(Clone, Copy)]
struct ReceiverProtocol {
    name: &'static str,
    port: &'static str,
    longest: RequestLimit,
}

/// The maximum size of a protocol's requests.
#[derive(Clone, Copy)]
struct RequestLimit {
    /// The receiver's field, and the bytes of its unit.
    field: &'static str,
    unit_bytes: u64,
    /// The edge's field, and its default.
    to: &'static str,
    default_bytes: u64,
    set: fn(&mut OtlpLimits, MemoryQuantity),
}

const PROTOCOLS: [ReceiverProtocol; 2] = [
    ReceiverProtocol {
        name: "grpc",
        port: "4317",
        longest: RequestLimit {
            field: "max_recv_msg_size_mib",
            unit_bytes: 1 << 20,
            to: "grpcMessageBytes",
            default_bytes: MESSAGE_BYTES,
            set: |limits, size| limits.grpc_message_bytes = Some(size),
        },
    },
    ReceiverProtocol {
        name: "http",
        port: "4318",
        longest: RequestLimit {
            field: "max_request_body_size",
            unit_bytes: 1,
            to: "httpBodyBytes",
            default_bytes: BODY_BYTES,
            set: |limits, size| limits.http_body_bytes = Some(size),
        },
    },
];

/// Limits and times for which an edge has its own values.
const FIXED_SETTINGS: [(&str, &str); 15] = [
    ("transport", "it is tcp"),
    ("network", "it is tcp"),
    ("max_concurrent_streams", advice::LISTENER),
    ("read_buffer_size", advice::LISTENER),
    ("write_buffer_size", advice::LISTENER),
    ("keepalive", advice::LISTENER),
    ("keep_alives_enabled", advice::LISTENER),
    ("idle_timeout", advice::LISTENER),
    ("read_timeout", advice::LISTENER),
    ("read_header_timeout", advice::LISTENER),
    ("write_timeout", advice::LISTENER),
    ("compression_algorithms", "uncompressed, gzip and zstd are accepted"),
    ("traces_url_path", "clients send to /v1/traces"),
    ("metrics_url_path", "clients send to /v1/metrics"),
    ("logs_url_path", "clients send to /v1/logs"),
];

/// Converts the receiver.
pub(crate) fn convert_receiver(work: &mut Work, node: &Node<'_>) -> bool {
    let name = work.draft.otlp_pool();
    let mode = work.draft.mode.of_pool();
    let Some(pool) = work.draft.pool_settings(name, mode) else { return false };
    if mode == EdgeMode::DaemonSet {
        // As that operator's Service of a DaemonSet does.
        pool.service.internal_traffic_policy = Some(TrafficPolicy::Local);
    }
    let to = format!("{}.receivers.otlp", pool_path(name));
    let mut fields = work.account.open_block(node, Fate::carried(&*to));
    if let Some(protocols) = fields.take_field("protocols") {
        let certified = PROTOCOLS.iter().any(|protocol| {
            let encryption = protocols.get(protocol.name).and_then(|it| it.get("tls"));
            encryption.as_ref().is_some_and(is_certified)
        });
        let mut each = work.account.open_block(&protocols, Fate::carried(&*to));
        for protocol in PROTOCOLS {
            if let Some(node) = each.take_field(protocol.name) {
                let plain = !node.get("tls").as_ref().is_some_and(is_certified);
                let listener =
                    ListenerPath { pool: name, to: &to, gets_encrypted: certified && plain };
                convert_listener(work, &node, protocol, listener);
            }
        }
        work.account.account_remaining(each, |_| {
            Fate::unsupported("an edge supports OTLP over gRPC and HTTP")
        });
    }
    work.account.account_remaining(fields, |_| Fate::unsupported(advice::UNKNOWN));
    true
}

/// The paths of a listener.
#[derive(Clone, Copy)]
struct ListenerPath<'a> {
    pool: &'a str,
    to: &'a str,
    /// Whether it becomes encrypted because the other one is.
    gets_encrypted: bool,
}

/// Returns whether a block has a certificate: without one it encrypts nothing.
fn is_certified(tls: &Node<'_>) -> bool {
    ["cert_file", "cert_pem"].iter().any(|name| tls.get(name).is_some())
}

fn convert_listener(
    work: &mut Work,
    node: &Node<'_>,
    protocol: ReceiverProtocol,
    listener: ListenerPath<'_>,
) {
    let ListenerPath { pool, to, gets_encrypted } = listener;
    let but = gets_encrypted.then(|| "either both ports are encrypted or neither".to_owned());
    let fate = Fate::Carried { to: to.to_owned(), but };
    let mut fields = work.account.open_block(node, fate.clone());
    if let Some(endpoint) = fields.take_field("endpoint") {
        check_address(work, &endpoint, protocol.port, fate);
    }
    if let Some(encryption) = fields.take_field("tls") {
        convert_tls(work, &encryption, pool, to);
    }
    if let Some(size) = fields.take_field(protocol.longest.field) {
        convert_limit(work, &size, protocol.longest, listener);
    }
    let account = &mut work.account;
    for (name, usual) in [
        ("traces_url_path", "v1/traces"),
        ("metrics_url_path", "v1/metrics"),
        ("logs_url_path", "v1/logs"),
    ] {
        let Some(path) = fields.take_field(name) else { continue };
        let written = path.plain_text();
        match written.as_deref().map(|text| text.trim_start_matches('/')) == Some(usual) {
            true => account.carried(&path, to),
            false => account
                .unsupported(&path, format!("an edge has the standard path: send to /{usual}")),
        }
    }
    account.account_remaining(fields, |name| match name {
        "auth" => Fate::unsupported(
            "an edge supports client certificates (receivers.otlp.tls.clientCa) or no \
             authentication: keep a Collector for others",
        ),
        "cors" => Fate::unsupported("an edge has no CORS: keep a Collector for browsers"),
        "include_metadata" => Fate::unsupported("clients' headers are not read"),
        "response_headers" => Fate::unsupported("responses have no extra headers"),
        name => by_name(&FIXED_SETTINGS, advice::UNKNOWN)(name),
    });
}

fn convert_limit(
    work: &mut Work,
    size: &Node<'_>,
    limit: RequestLimit,
    listener: ListenerPath<'_>,
) {
    let declared = size.plain_text().and_then(|text| text.parse::<u64>().ok());
    let bytes = declared.and_then(|number| number.checked_mul(limit.unit_bytes));
    let quantity = bytes.and_then(|bytes| quantity_of(bytes).parse::<MemoryQuantity>().ok());
    let edges = &mut work.draft.edges;
    let pool = edges.iter_mut().find(|edge| edge.name.as_str() == listener.pool);
    match (bytes, quantity, pool) {
        (Some(bytes), ..) if bytes <= limit.default_bytes => {
            work.account.not_needed(size, advice::LISTENER);
        }
        (Some(..=REQUEST_BYTES_MAX), Some(quantity), Some(pool)) => {
            (limit.set)(&mut pool.settings.receivers.otlp.limits, quantity);
            work.account.carried(size, format!("{}.limits.{}", listener.to, limit.to));
        }
        _ => work.account.unsupported(
            size,
            "an edge accepts requests up to 128 MiB (receivers.otlp.limits): make clients send \
             smaller ones",
        ),
    }
}

/// Returns bytes as a quantity, in MiB if they are a whole number of them.
pub(crate) fn quantity_of(bytes: u64) -> String {
    match bytes.is_multiple_of(1 << 20) {
        true => format!("{}Mi", bytes >> 20),
        false => bytes.to_string(),
    }
}

fn check_address(work: &mut Work, node: &Node<'_>, port: &str, fate: Fate) {
    let account = &mut work.account;
    let Fate::Carried { to, .. } = &fate else { return account.add_entry(node, fate) };
    let to = to.clone();
    // The host is often a variable (the pod's address): only the port counts.
    let written = match node.value.as_str() {
        Some(text) => text.to_owned(),
        None => return account.unsupported(node, "a single value is expected here"),
    };
    let (host, its_port) = written.rsplit_once(':').unwrap_or((&written, ""));
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if its_port.contains('}') || (its_port.is_empty() && node.scalar_text() == TextValue::Variable)
    {
        return account.differs(node, to, format!("an edge always listens on {port}"));
    }
    match (its_port == port, ["localhost", "127.0.0.1", "::1"].contains(&host)) {
        (true, false) => account.add_entry(node, fate),
        (true, true) => account.differs(
            node,
            to,
            "an edge is reached through its Service: point clients at status.endpoint",
        ),
        (false, _) => account.unsupported(
            node,
            format!("an edge listens on {port}: point clients at status.endpoint with that port"),
        ),
    }
}

fn convert_tls(work: &mut Work, node: &Node<'_>, pool: &str, to: &str) {
    let (own, clients) = (format!("{to}.tls.certificateSecret"), format!("{to}.tls.clientCa"));
    let targets = TlsTargets {
        authority: None,
        certificate: Some((&own, CERTIFICATE_SECRET)),
        clients: Some((&clients, CLIENTS_SECRET)),
    };
    let certified = is_certified(node);
    let targets = if certified { targets } else { TlsTargets::default() };
    let target = if certified { format!("{to}.tls") } else { to.to_owned() };
    let requested = account_tls(work, node, &target, targets);
    let pool = work.draft.edges.iter_mut().find(|edge| edge.name.as_str() == pool);
    let (Some(pool), Some(name)) = (pool, checked_name(CERTIFICATE_SECRET)) else { return };
    if !requested.certificate {
        return;
    }
    let before = pool.settings.receivers.otlp.tls.take();
    let mut tls = before.unwrap_or(ServerTls {
        certificate_secret: CertificateSecret::of_secret(name),
        client_ca: None,
    });
    if requested.clients {
        tls.client_ca = checked_name(CLIENTS_SECRET).map(CaSource::of_secret);
    }
    pool.settings.receivers.otlp.tls = Some(tls);
}
