//! Converts the Kafka exporter and receiver: the connection, topics, the group. Fields as of
//! contrib's `configkafka`, 0.12x to 0.15x.

use millrace_crds::v1alpha1::{
    CaSource, CertificateSecret, Compression, EdgeBuffer, EdgeSettings, KafkaAuthentication,
    KafkaTls, PartitionBy, Signal,
};
use millrace_crds::{BootstrapServer, TopicName};

use crate::account::{Fate, Fields, by_name};
use crate::advice;
use crate::components::otlp::quantity_of;
use crate::components::tls::{TlsTargets, account_tls};
use crate::draft::{DeploymentMode, PipelineDraft, checked_name, pool_path};
use crate::service::signal_path;
use crate::tree::Node;
use crate::work::Work;

mod authentication;

/// Longest message of an edge without a setting, and with one, in bytes.
const MESSAGE_BYTES: u64 = 1_000_000;
const MESSAGE_BYTES_MAX: u64 = 8 << 20;

const CA_SECRET: &str = "kafka-ca";
const CERTIFICATE_SECRET: &str = "kafka-client";

const BROKERS: &str = "spec.kafka.bootstrapServers";

/// The Collector's default group, and its default topic of spans; its other topics are Millrace's.
const GROUP_USUAL: &str = "otel-collector";
const SPANS_USUAL: &str = "otlp_spans";

/// Maximum bootstrap brokers.
const BROKERS_MAX: usize = 32;

const CLIENT: [(&str, &str); 8] = [
    ("protocol_version", "versions are negotiated with the broker"),
    ("client_id", advice::CLIENT),
    ("metadata", advice::CLIENT),
    ("conn_idle_timeout", advice::CLIENT),
    ("resolve_canonical_bootstrap_servers_only", advice::CLIENT),
    ("use_leader_epoch", advice::CLIENT),
    ("timeout", advice::CLIENT),
    ("retry_on_failure", advice::QUEUES),
];

const CONSUMER: [(&str, &str); 15] = [
    ("session_timeout", advice::CLIENT),
    ("heartbeat_interval", advice::CLIENT),
    ("autocommit", "offsets are committed once ClickHouse has the records"),
    ("message_marking", "offsets are committed once ClickHouse has the records"),
    ("error_backoff", "rejected inserts are retried"),
    ("min_fetch_size", advice::CLIENT),
    ("default_fetch_size", advice::CLIENT),
    ("max_fetch_size", advice::CLIENT),
    ("max_fetch_wait", advice::CLIENT),
    ("max_partition_fetch_size", advice::CLIENT),
    ("group_rebalance_strategy", "gateways agree on partitions themselves"),
    ("group_instance_id", "each gateway's pod has its own"),
    ("partition_processing", "partitions are read separately"),
    ("telemetry", "a gateway's metrics are on port 9464"),
    ("rebalance_timeout", advice::CLIENT),
];

/// The end of the topics that a component is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Reads,
    Writes,
}

/// Converts the receiver, in pipelines of these signals.
pub(crate) fn convert_receiver(work: &mut Work, node: &Node<'_>, signals: &[Signal]) -> bool {
    let mut fields = work.account.open_block(node, Fate::carried("spec.kafka"));
    convert_connection(work, &mut fields);
    convert_topics(work, &mut fields, signals, End::Reads);
    let to = "spec.gateway.consumerGroup";
    let mut group = Some(GROUP_USUAL.to_owned());
    if let Some(id) = fields.take_field("group_id") {
        group = work.account.require_text(&id, to);
        match group.as_deref().map(str::parse) {
            Some(Ok(name)) => {
                work.draft.gateway.consumer_group = Some(name);
                work.account.carried(&id, to);
            }
            Some(Err(error)) => work.account.unsupported(&id, error.says),
            None => {}
        }
    } else {
        // Its offsets count: with another group a gateway would begin at the oldest message.
        work.draft.gateway.consumer_group = group.and_then(|name| checked_name(&name));
    }
    if let Some(offset) = fields.take_field("initial_offset") {
        match offset.plain_text().as_deref() {
            Some("earliest") => work.account.not_needed(&offset, "a new group begins there"),
            _ => work.account.unsupported(
                &offset,
                "a new group begins at the oldest message: keep the group to keep its offsets",
            ),
        }
    }
    work.account.account_remaining(fields, |name| match name {
        "rack_id" => Fate::unsupported("gateways read from leaders"),
        "header_extraction" => Fate::unsupported("headers of messages are not read"),
        "profiles" => Fate::unsupported("profiles are not stored"),
        name if CONSUMER.iter().any(|(one, _)| *one == name) => {
            by_name(&CONSUMER, advice::UNKNOWN)(name)
        }
        name => by_name(&CLIENT, advice::UNKNOWN)(name),
    });
    true
}

/// Converts the exporter, in pipelines of these signals.
pub(crate) fn convert_exporter(work: &mut Work, node: &Node<'_>, signals: &[Signal]) -> bool {
    let mut fields = work.account.open_block(node, Fate::carried("spec.kafka"));
    convert_connection(work, &mut fields);
    convert_topics(work, &mut fields, signals, End::Writes);
    if let Some(producer) = fields.take_field("producer") {
        convert_producer(work, &producer);
    }
    if let Some(by_id) = fields.take_field("partition_traces_by_id") {
        match by_id.is_true() {
            false => work.account.not_needed(&by_id, "spans of one request stay together"),
            true => {
                let pool = work.draft.otlp_pool();
                if let Some(settings) = otlp_pool(&mut work.draft) {
                    settings.partition_by = PartitionBy::TraceId;
                }
                work.account.carried(&by_id, format!("{}.partitionBy", pool_path(pool)));
            }
        }
    }
    if let Some(queue) = fields.take_field("sending_queue") {
        convert_queue(work, &queue);
    }
    work.account.account_remaining(fields, |name| match name {
        "topic_from_attribute" => Fate::unsupported("a signal has one topic"),
        "include_metadata_keys" => Fate::unsupported("clients' headers are not forwarded"),
        "partition_metrics_by_resource_attributes"
        | "partition_logs_by_resource_attributes"
        | "partition_logs_by_trace_id" => {
            Fate::unsupported("only spans can be partitioned by key (partitionBy: TraceId)")
        }
        "rack_id" | "record_partitioner" => Fate::unsupported("the edge selects partitions"),
        "profiles" => Fate::unsupported("profiles are not stored"),
        "enabled" => Fate::unsupported(advice::UNKNOWN),
        name => by_name(&CLIENT, advice::UNKNOWN)(name),
    });
    true
}

fn otlp_pool(draft: &mut PipelineDraft) -> Option<&mut EdgeSettings> {
    draft.pool_settings(draft.otlp_pool(), draft.mode.of_pool())
}

fn convert_connection(work: &mut Work, fields: &mut Fields<'_>) {
    if let Some(brokers) = fields.take_field("brokers") {
        convert_brokers(work, &brokers);
    }
    let outer = fields.take_field("tls");
    if let Some(auth) = fields.take_field("auth") {
        let mut each = work.account.open_block(&auth, Fate::not_needed("no authentication"));
        let inner = each.take_field("tls");
        for node in outer.iter().chain(&inner) {
            convert_tls(work, node);
        }
        for name in ["sasl", "plain_text"] {
            if let Some(node) = each.take_field(name) {
                authentication::convert_sasl(work, &node);
            }
        }
        work.account.account_remaining(each, |_| {
            Fate::unsupported(
                "authentication is by password (PLAIN, SCRAM), certificate, OAUTHBEARER or AWS IAM: \
                 write kafka.authentication",
            )
        });
    } else if let Some(node) = outer {
        convert_tls(work, &node);
    }
}

fn convert_brokers(work: &mut Work, node: &Node<'_>) {
    let before = work.draft.kafka.bootstrap_servers.clone();
    let mut found: Vec<BootstrapServer> = Vec::new();
    for item in work.account.list_items(node, "it names no broker") {
        let Some(text) = work.account.require_text(&item, BROKERS) else { continue };
        let parsed: Result<Vec<BootstrapServer>, _> =
            text.split(',').map(|one| one.trim().parse()).collect();
        match parsed {
            Ok(servers) if !before.is_empty() && !servers.iter().all(|it| before.contains(it)) => {
                work.account.unsupported(
                    &item,
                    "a pipeline has one Kafka, and another part of the file names others: create a \
                     second pipeline",
                );
            }
            Ok(servers) if found.len() + servers.len() <= BROKERS_MAX => {
                found.extend(servers);
                work.account.carried(&item, BROKERS);
            }
            Ok(_) => work
                .account
                .unsupported(&item, "at most 32 bootstrap brokers: the others are discovered"),
            Err(error) => work.account.fill_in(&item, BROKERS, error.says),
        }
    }
    found.dedup();
    if before.is_empty() {
        work.draft.kafka.bootstrap_servers = found;
    }
}

fn convert_tls(work: &mut Work, node: &Node<'_>) {
    let targets = TlsTargets {
        authority: Some(("spec.kafka.tls.ca", CA_SECRET)),
        certificate: Some(("spec.kafka.authentication.certificateSecret", CERTIFICATE_SECRET)),
        clients: None,
    };
    if node.get("insecure").is_some_and(|it| it.is_true()) {
        let _ = account_tls(work, node, "spec.kafka", TlsTargets::default());
        return;
    }
    let requested = account_tls(work, node, "spec.kafka.tls", targets);
    let now: &mut KafkaTls = work.draft.kafka.tls.get_or_insert_default();
    if requested.authority {
        now.ca = checked_name(CA_SECRET).map(CaSource::of_secret);
    }
    if requested.certificate {
        let secret = checked_name(CERTIFICATE_SECRET).map(CertificateSecret::of_secret);
        work.draft.kafka.authentication = secret.map(KafkaAuthentication::of_certificate);
    }
}

/// Converts topics and encodings: each signal's own, and the older ones for all.
fn convert_topics(work: &mut Work, fields: &mut Fields<'_>, signals: &[Signal], end: End) {
    let shared = fields.take_field("topic");
    let shared_encoding = fields.take_field("encoding");
    for signal in Signal::ALL {
        let Some(node) = fields.take_field(signal.as_str()) else { continue };
        let used = signals.contains(&signal);
        if !used {
            work.account.not_needed(&node, "no pipeline of this signal uses it");
            continue;
        }
        let mut each = work.account.open_block(&node, Fate::carried(signal_path(signal)));
        for name in ["topic", "topics"] {
            if let Some(topic) = each.take_field(name) {
                convert_topic(work, &topic, signal);
            }
        }
        if let Some(node) = each.take_field("encoding") {
            check_encoding(work, &node, end);
        }
        work.account.account_remaining(each, |_| {
            Fate::unsupported("a signal has one topic, with a fixed name")
        });
    }
    if let Some(node) = shared_encoding {
        check_encoding(work, &node, end);
    }
    if let Some(node) = shared {
        match signals {
            [one] => convert_topic(work, &node, *one),
            _ => work.account.unsupported(
                &node,
                "two signals in one topic can't be distinguished: set a topic for each in \
                 signals.NAME.topicName",
            ),
        }
    }
    // Without a separate topic, traces use the Collector's default topic, which has its records.
    let unsaid = |draft: &mut PipelineDraft| {
        draft.signal_settings(Signal::Traces).is_some_and(|traces| traces.topic_name.is_none())
    };
    if signals.contains(&Signal::Traces) && unsaid(&mut work.draft) {
        name_topic(&mut work.draft, Signal::Traces, SPANS_USUAL);
    }
}

fn convert_topic(work: &mut Work, node: &Node<'_>, signal: Signal) {
    let to = format!("{}.topicName", signal_path(signal));
    let names = work.account.list_items(node, "it names no topic");
    for (index, item) in names.iter().enumerate() {
        let Some(text) = work.account.require_text(item, &to) else { continue };
        let one_more = index > 0;
        if text.parse::<TopicName>().is_err() {
            let instead = "name one topic: letters, digits, '.', '_' and '-'; no pattern";
            work.account.unsupported(item, instead);
        } else if one_more || !name_topic(&mut work.draft, signal, &text) {
            let instead = "a signal has exactly one topic: create a second pipeline for it";
            work.account.unsupported(item, instead);
        } else {
            work.account.carried(item, &*to);
        }
    }
}

/// Sets a signal's topic. Returns false if it has another, or another signal has that one.
fn name_topic(draft: &mut PipelineDraft, signal: Signal, name: &str) -> bool {
    let is_used = draft.signals.iter().any(|(other, settings)| {
        let of_other = settings.topic_name.as_ref().map(TopicName::as_str);
        other != signal && of_other.unwrap_or(other.default_topic()) == name
    });
    let Some(settings) = draft.signal_settings(signal) else { return false };
    match &settings.topic_name {
        Some(other) => other.as_str() == name,
        None if is_used => false,
        None => {
            settings.topic_name = name.parse().ok();
            settings.topic_name.is_some()
        }
    }
}

fn check_encoding(work: &mut Work, node: &Node<'_>, end: End) {
    match (node.plain_text().as_deref(), end) {
        (Some("otlp_proto" | "otlp_json" | ""), _) => {
            work.account.not_needed(node, "gateways read OTLP as protobuf and as JSON");
        }
        (_, End::Reads) => work.account.unsupported(
            node,
            "gateways read only OTLP, as protobuf or JSON: keep a Collector that reads this topic, \
             with its OTLP exporter to the edge",
        ),
        (_, End::Writes) => work.account.unsupported(
            node,
            "an edge writes OTLP as protobuf: other readers of the topic must support it",
        ),
    }
}

fn convert_producer(work: &mut Work, node: &Node<'_>) {
    let pool = work.draft.otlp_pool();
    let mut fields = work.account.open_block(node, Fate::not_needed(advice::CLIENT));
    if let Some(written) = fields.take_field("compression") {
        let compression = match written.plain_text().as_deref() {
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
            None => work.account.unsupported(&written, "messages are compressed with zstd or lz4"),
        }
    }
    if let Some(longest) = fields.take_field("max_message_bytes") {
        convert_message_limit(work, &longest, pool);
    }
    work.account.account_remaining(fields, |name| match name {
        "required_acks" => Fate::not_needed("all in-sync replicas must have a record"),
        "flush_max_messages" | "linger" | "compression_params" => Fate::not_needed(advice::CLIENT),
        "allow_auto_topic_creation" => Fate::not_needed("the operator creates topics"),
        _ => Fate::unsupported(advice::UNKNOWN),
    });
}

fn convert_message_limit(work: &mut Work, longest: &Node<'_>, pool: &str) {
    let bytes = longest.plain_text().and_then(|text| text.parse::<u64>().ok());
    match bytes {
        Some(..=MESSAGE_BYTES) => {
            let why = "requests are split into messages of at most 1,000,000 bytes";
            work.account.not_needed(longest, why);
        }
        Some(bytes @ ..=MESSAGE_BYTES_MAX) => {
            if let Some(settings) = otlp_pool(&mut work.draft) {
                settings.producer.max_message_bytes = quantity_of(bytes).parse().ok();
            }
            work.account.carried(longest, format!("{}.producer.maxMessageBytes", pool_path(pool)));
        }
        _ => work.account.unsupported(
            longest,
            "messages have at most 8 MiB (producer.maxMessageBytes): longer requests are split",
        ),
    }
}

/// Converts a queue: one in memory needs no counterpart; one on disk is a buffer.
fn convert_queue(work: &mut Work, node: &Node<'_>) {
    let mut fields = work.account.open_block(node, Fate::not_needed(advice::QUEUES));
    if let Some(storage) = fields.take_field("storage") {
        let pool = work.draft.otlp_pool();
        let on_nodes = work.draft.mode == DeploymentMode::DaemonSet;
        match otlp_pool(&mut work.draft).filter(|_| !on_nodes) {
            Some(settings) => {
                settings.buffer = Some(EdgeBuffer::default());
                work.account.differs(
                    &storage,
                    format!("{}.buffer", pool_path(pool)),
                    "1Gi on the node's disk: see maxBytes and storageClassName",
                );
            }
            None => work.account.unsupported(
                &storage,
                "files on a node need no buffer; a buffer needs a separate pool in mode Deployment",
            ),
        }
    }
    work.account.account_remaining(fields, |_| Fate::not_needed(advice::QUEUES));
}
