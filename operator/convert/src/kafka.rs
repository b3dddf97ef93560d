//! The Kafka exporter and receiver: the connection, topics, the group. Fields as of contrib's
//! `configkafka`, 0.12x to 0.15x.

use millrace_crds::v1alpha1::{
    CaRef, Compression, EdgeBuffer, EdgeSettings, KafkaSasl, KafkaTls, PartitionBy, SaslMechanism,
    SecretRef, Signal,
};
use millrace_crds::{BootstrapServer, TopicName};

use crate::account::{Fate, Fields, by_name};
use crate::draft::{Draft, Mode, credentials, fixed, pool_path};
use crate::service::signal_path;
use crate::tls::{Places, tls};
use crate::tree::Node;
use crate::words;
use crate::work::Work;

const USER_SECRET: &str = "kafka-user";
const CA_SECRET: &str = "kafka-ca";
const CERTIFICATE_SECRET: &str = "kafka-client";

const BROKERS: &str = "spec.kafka.bootstrapServers";
const SASL: &str = "spec.kafka.sasl";
const CREDENTIALS: &str = "spec.kafka.sasl.credentialsSecretRef";

/// The Collector's own group, and its own topic of spans; its other topics are ours.
const GROUP_USUAL: &str = "otel-collector";
const SPANS_USUAL: &str = "otlp_spans";

/// Most bootstrap brokers.
const BROKERS_MAX: usize = 32;

const CLIENT: [(&str, &str); 8] = [
    ("protocol_version", "versions are agreed upon with the broker"),
    ("client_id", words::CLIENT),
    ("metadata", words::CLIENT),
    ("conn_idle_timeout", words::CLIENT),
    ("resolve_canonical_bootstrap_servers_only", words::CLIENT),
    ("use_leader_epoch", words::CLIENT),
    ("timeout", words::CLIENT),
    ("retry_on_failure", words::QUEUES),
];

const CONSUMER: [(&str, &str); 15] = [
    ("session_timeout", words::CLIENT),
    ("heartbeat_interval", words::CLIENT),
    ("autocommit", "offsets are committed once ClickHouse has the records"),
    ("message_marking", "offsets are committed once ClickHouse has the records"),
    ("error_backoff", "what ClickHouse refuses for now is sent again"),
    ("min_fetch_size", words::CLIENT),
    ("default_fetch_size", words::CLIENT),
    ("max_fetch_size", words::CLIENT),
    ("max_fetch_wait", words::CLIENT),
    ("max_partition_fetch_size", words::CLIENT),
    ("group_rebalance_strategy", "gateways agree on partitions themselves"),
    ("group_instance_id", "each gateway's pod has its own"),
    ("partition_processing", "partitions are read by themselves"),
    ("telemetry", "a gateway's metrics are on port 9464"),
    ("rebalance_timeout", words::CLIENT),
];

/// Which end of the topics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Reads,
    Writes,
}

/// Converts the receiver, in pipelines of these signals.
pub(crate) fn receiver(work: &mut Work, node: &Node<'_>, signals: &[Signal]) -> bool {
    let mut fields = work.account.open(node, Fate::carried("spec.kafka"));
    connection(work, &mut fields);
    topics(work, &mut fields, signals, End::Reads);
    let to = "spec.gateway.consumerGroup";
    let mut group = Some(GROUP_USUAL.to_owned());
    if let Some(id) = fields.take("group_id") {
        group = work.account.text(&id, to);
        match group.as_deref().map(str::parse) {
            Some(Ok(name)) => {
                work.draft.gateway.consumer_group = Some(name);
                work.account.carried(&id, to);
            }
            Some(Err(error)) => work.account.left(&id, error.says),
            None => {}
        }
    } else {
        // Its offsets count: with a group of its own a gateway would begin at the oldest message.
        work.draft.gateway.consumer_group = group.and_then(|name| fixed(&name));
    }
    if let Some(offset) = fields.take("initial_offset") {
        match offset.said().as_deref() {
            Some("earliest") => work.account.not_needed(&offset, "a new group begins there"),
            _ => work.account.left(
                &offset,
                "a new group begins at the oldest message: keep the group, whose offsets count",
            ),
        }
    }
    work.account.rest(fields, |name| match name {
        "rack_id" => Fate::left("gateways read from leaders"),
        "header_extraction" => Fate::left("headers of messages are not read"),
        "profiles" => Fate::left("profiles are not stored"),
        name if CONSUMER.iter().any(|(one, _)| *one == name) => {
            by_name(&CONSUMER, words::UNKNOWN)(name)
        }
        name => by_name(&CLIENT, words::UNKNOWN)(name),
    });
    true
}

/// Converts the exporter, in pipelines of these signals.
pub(crate) fn exporter(work: &mut Work, node: &Node<'_>, signals: &[Signal]) -> bool {
    let mut fields = work.account.open(node, Fate::carried("spec.kafka"));
    connection(work, &mut fields);
    topics(work, &mut fields, signals, End::Writes);
    if let Some(producer) = fields.take("producer") {
        sending(work, &producer);
    }
    if let Some(by_id) = fields.take("partition_traces_by_id") {
        match by_id.is_true() {
            false => work.account.not_needed(&by_id, "spans that came together stay together"),
            true => {
                let pool = work.draft.otlp_pool();
                if let Some(settings) = otlp_pool(&mut work.draft) {
                    settings.partition_by = PartitionBy::TraceId;
                }
                work.account.carried(&by_id, format!("{}.partitionBy", pool_path(pool)));
            }
        }
    }
    if let Some(queue) = fields.take("sending_queue") {
        buffer(work, &queue);
    }
    work.account.rest(fields, |name| match name {
        "topic_from_attribute" => Fate::left("a signal has one topic"),
        "include_metadata_keys" => Fate::left("clients' headers are not sent on"),
        "partition_metrics_by_resource_attributes"
        | "partition_logs_by_resource_attributes"
        | "partition_logs_by_trace_id" => {
            Fate::left("spans alone can be sorted (partitionBy: TraceId)")
        }
        "rack_id" | "record_partitioner" => Fate::left("partitions are chosen by the edge"),
        "profiles" => Fate::left("profiles are not stored"),
        "enabled" => Fate::left(words::UNKNOWN),
        name => by_name(&CLIENT, words::UNKNOWN)(name),
    });
    true
}

fn otlp_pool(draft: &mut Draft) -> Option<&mut EdgeSettings> {
    draft.pool(draft.otlp_pool(), draft.mode.of_pool())
}

fn connection(work: &mut Work, fields: &mut Fields<'_>) {
    if let Some(brokers) = fields.take("brokers") {
        servers(work, &brokers);
    }
    let outer = fields.take("tls");
    if let Some(auth) = fields.take("auth") {
        let mut each = work.account.open(&auth, Fate::not_needed("nobody signs in"));
        let inner = each.take("tls");
        for node in outer.iter().chain(&inner) {
            encryption(work, node);
        }
        for name in ["sasl", "plain_text"] {
            if let Some(node) = each.take(name) {
                sign_in(work, &node);
            }
        }
        work.account.rest(each, |_| {
            Fate::left(
                "signing in is by SASL (PLAIN, SCRAM-SHA-256, SCRAM-SHA-512) or a certificate",
            )
        });
    } else if let Some(node) = outer {
        encryption(work, &node);
    }
}

fn servers(work: &mut Work, node: &Node<'_>) {
    let before = work.draft.kafka.bootstrap_servers.clone();
    let mut found: Vec<BootstrapServer> = Vec::new();
    for item in work.account.items(node, "it names no broker") {
        let Some(text) = work.account.text(&item, BROKERS) else { continue };
        let parsed: Result<Vec<BootstrapServer>, _> =
            text.split(',').map(|one| one.trim().parse()).collect();
        match parsed {
            Ok(servers) if !before.is_empty() && !servers.iter().all(|it| before.contains(it)) => {
                work.account.left(
                    &item,
                    "a pipeline has one Kafka, and another part of the file names others: make a \
                     second pipeline",
                );
            }
            Ok(servers) if found.len() + servers.len() <= BROKERS_MAX => {
                found.extend(servers);
                work.account.carried(&item, BROKERS);
            }
            Ok(_) => work.account.left(&item, "32 brokers are enough to find the others by"),
            Err(error) => work.account.fill_in(&item, BROKERS, error.says),
        }
    }
    found.dedup();
    if before.is_empty() {
        work.draft.kafka.bootstrap_servers = found;
    }
}

fn encryption(work: &mut Work, node: &Node<'_>) {
    let places = Places {
        authority: Some(("spec.kafka.tls.caSecretRef", CA_SECRET)),
        certificate: Some(("spec.kafka.tls.clientCertificateSecretRef", CERTIFICATE_SECRET)),
        clients: None,
    };
    if node.get("insecure").is_some_and(|it| it.is_true()) {
        let _ = tls(work, node, "spec.kafka", Places::default());
        return;
    }
    let asked = tls(work, node, "spec.kafka.tls", places);
    let now: &mut KafkaTls = work.draft.kafka.tls.get_or_insert_default();
    if asked.authority {
        now.ca_secret_ref = fixed(CA_SECRET).map(|name| CaRef { name, key: None });
    }
    if asked.certificate {
        let name = fixed(CERTIFICATE_SECRET);
        now.client_certificate_secret_ref = name.map(|name| SecretRef { name });
    }
}

fn sign_in(work: &mut Work, node: &Node<'_>) {
    let is_plain = node.get("mechanism").is_none();
    let mechanism = match node.get("mechanism").and_then(|it| it.said()).as_deref() {
        None if is_plain => Some(SaslMechanism::Plain),
        Some("PLAIN") => Some(SaslMechanism::Plain),
        Some("SCRAM-SHA-256") => Some(SaslMechanism::ScramSha256),
        Some("SCRAM-SHA-512") => Some(SaslMechanism::ScramSha512),
        _ => None,
    };
    let Some(mechanism) = mechanism else {
        return work.account.left(
            node,
            "the mechanisms are PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512: make such a user, or use a \
             client certificate",
        );
    };
    work.draft.kafka.sasl = credentials(USER_SECRET)
        .map(|credentials_secret_ref| KafkaSasl { mechanism, credentials_secret_ref });
    let mut fields = work.account.open(node, Fate::carried(SASL));
    let what = format!(
        "create the Secret {USER_SECRET} in the pipeline's namespace: keys username and password"
    );
    let mut asked = false;
    for name in ["username", "password"] {
        if let Some(field) = fields.take(name) {
            asked = true;
            work.account.fill_in(&field, CREDENTIALS, &*what);
        }
    }
    if !asked {
        work.account.missing(CREDENTIALS, &*what);
    }
    if let Some(field) = fields.take("mechanism") {
        work.account.carried(&field, format!("{SASL}.mechanism"));
    }
    work.account.rest(fields, |name| match name {
        "version" => Fate::not_needed("versions are agreed upon with the broker"),
        _ => Fate::left("it is of another mechanism"),
    });
}

/// Topics and encodings: each signal's own, and the older ones for all.
fn topics(work: &mut Work, fields: &mut Fields<'_>, signals: &[Signal], end: End) {
    let shared = fields.take("topic");
    let shared_encoding = fields.take("encoding");
    for signal in Signal::ALL {
        let Some(node) = fields.take(signal.as_str()) else { continue };
        let used = signals.contains(&signal);
        if !used {
            work.account.not_needed(&node, "no pipeline of this signal uses it");
            continue;
        }
        let mut each = work.account.open(&node, Fate::carried(signal_path(signal)));
        for name in ["topic", "topics"] {
            if let Some(topic) = each.take(name) {
                topic_name(work, &topic, signal);
            }
        }
        if let Some(node) = each.take("encoding") {
            encoding(work, &node, end);
        }
        work.account.rest(each, |_| Fate::left("a signal has one topic, which is named"));
    }
    if let Some(node) = shared_encoding {
        encoding(work, &node, end);
    }
    if let Some(node) = shared {
        match signals {
            [one] => topic_name(work, &node, *one),
            _ => work.account.left(
                &node,
                "two signals in one topic could not be told apart: name a topic for each in \
                 signals.NAME.topicName",
            ),
        }
    }
    // What it says nothing of is where the Collector's records are.
    let unsaid = |draft: &mut Draft| {
        draft.signal(Signal::Traces).is_some_and(|traces| traces.topic_name.is_none())
    };
    if signals.contains(&Signal::Traces) && unsaid(&mut work.draft) {
        name_topic(&mut work.draft, Signal::Traces, SPANS_USUAL);
    }
}

fn topic_name(work: &mut Work, node: &Node<'_>, signal: Signal) {
    let to = format!("{}.topicName", signal_path(signal));
    let names = work.account.items(node, "it names no topic");
    for (place, item) in names.iter().enumerate() {
        let Some(text) = work.account.text(item, &to) else { continue };
        let one_more = place > 0;
        if text.parse::<TopicName>().is_err() {
            let instead = "name one topic: letters, digits, '.', '_' and '-'; no pattern";
            work.account.left(item, instead);
        } else if one_more || !name_topic(&mut work.draft, signal, &text) {
            let instead = "a signal has one topic, of its own: make a second pipeline for it";
            work.account.left(item, instead);
        } else {
            work.account.carried(item, &*to);
        }
    }
}

/// Names a signal's topic. False if it has another, or another signal has that.
fn name_topic(draft: &mut Draft, signal: Signal, name: &str) -> bool {
    let taken = draft.signals.iter().any(|(other, settings)| {
        let of_other = settings.topic_name.as_ref().map(TopicName::as_str);
        other != signal && of_other.unwrap_or(other.default_topic()) == name
    });
    let Some(settings) = draft.signal(signal) else { return false };
    match &settings.topic_name {
        Some(other) => other.as_str() == name,
        None if taken => false,
        None => {
            settings.topic_name = name.parse().ok();
            settings.topic_name.is_some()
        }
    }
}

fn encoding(work: &mut Work, node: &Node<'_>, end: End) {
    match (node.said().as_deref(), end) {
        (Some("otlp_proto" | "otlp_json" | ""), _) => {
            work.account.not_needed(node, "gateways read OTLP as protobuf and as JSON");
        }
        (_, End::Reads) => work.account.left(
            node,
            "gateways read OTLP alone, as protobuf or JSON: keep a Collector that reads this topic, \
             with its OTLP exporter to the edge",
        ),
        (_, End::Writes) => work.account.left(
            node,
            "an edge writes OTLP as protobuf: other readers of the topic must read that",
        ),
    }
}

fn sending(work: &mut Work, node: &Node<'_>) {
    let pool = work.draft.otlp_pool();
    let mut fields = work.account.open(node, Fate::not_needed(words::CLIENT));
    if let Some(written) = fields.take("compression") {
        let compression = match written.said().as_deref() {
            Some("zstd") => Some(Compression::Zstd),
            Some("lz4") => Some(Compression::Lz4),
            _ => None,
        };
        match compression {
            Some(compression) => {
                if let Some(settings) = otlp_pool(&mut work.draft) {
                    settings.compression = compression;
                }
                let to = format!("{}.compression", pool_path(pool));
                work.account.carried(&written, to);
            }
            None => work.account.left(&written, "messages are compressed with zstd, or with lz4"),
        }
    }
    work.account.rest(fields, |name| match name {
        "required_acks" => Fate::not_needed("all in-sync replicas must have a record"),
        "max_message_bytes" => {
            Fate::not_needed("requests are cut into messages of 1,000,000 bytes")
        }
        "flush_max_messages" | "linger" | "compression_params" => Fate::not_needed(words::CLIENT),
        "allow_auto_topic_creation" => Fate::not_needed("the operator makes topics"),
        _ => Fate::left(words::UNKNOWN),
    });
}

/// A queue in memory is nothing to carry over; one on disk is a buffer.
fn buffer(work: &mut Work, node: &Node<'_>) {
    let mut fields = work.account.open(node, Fate::not_needed(words::QUEUES));
    if let Some(storage) = fields.take("storage") {
        let pool = work.draft.otlp_pool();
        let on_nodes = work.draft.mode == Mode::DaemonSet;
        match otlp_pool(&mut work.draft).filter(|_| !on_nodes) {
            Some(settings) => {
                settings.buffer = Some(EdgeBuffer::default());
                work.account.differs(
                    &storage,
                    format!("{}.buffer", pool_path(pool)),
                    "1Gi on the node's disk: see maxBytes and storageClassName",
                );
            }
            None => work.account.left(
                &storage,
                "what is read on a node is kept there; a buffer needs a pool of its own, in mode \
                 Deployment",
            ),
        }
    }
    work.account.rest(fields, |_| Fate::not_needed(words::QUEUES));
}
