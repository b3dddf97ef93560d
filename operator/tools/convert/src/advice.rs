//! Texts for parts without a counterpart. docs/coming-from.md has the same; a test compares both.

/// For receivers without a counterpart.
pub(crate) const OTHER_RECEIVERS: &str =
    "nothing: keep a Collector for them, with its OTLP exporter to the edge";
/// For processors.
pub(crate) const PROCESSORS: &str = "nothing: keep a Collector";
/// Where such a Collector runs.
pub(crate) const IN_FRONT: &str =
    "in front of the edge: its OTLP exporter sends to `status.endpoint`";
/// For exporters.
pub(crate) const OTHER_EXPORTERS: &str =
    "nothing: other consumers read the Kafka topics, which hold OTLP";
/// For queues and retries.
pub(crate) const QUEUES: &str = "Kafka; before it a buffer on disk, off by default";
/// For extensions that report a process's health.
pub(crate) const HEALTH: &str = "`/readyz`, `/livez`, `/` on port 9464; no profiler";
/// For attributes of pods.
pub(crate) const POD_ATTRIBUTES: &str =
    "for OTLP clients and log files only: relabel scraped targets";
/// For labels and annotations that can't be listed.
pub(crate) const POD_KEYS: &str =
    "list labels and annotations of pods, by name or by a prefix that ends in *";
/// For labels and annotations beyond the maximum.
pub(crate) const POD_KEYS_FULL: &str = "at most 64 can be listed: write a prefix with *";
/// For memory limits and batching.
pub(crate) const BUILT_IN: &str = "built in: memory";
/// For a Collector that runs as a sidecar.
pub(crate) const SIDECAR: &str = "nothing: applications send to the edge's Service";
/// For sizing.
pub(crate) const AUTOSCALER: &str = "gateways: automatic; edges: your own HPA on the EdgePool";
/// For remote control.
pub(crate) const OPAMP: &str = "nothing";
/// For a target allocator.
pub(crate) const ALLOCATOR: &str = "targets are distributed among a pool's pods";

/// All texts that docs/coming-from.md has.
#[cfg(test)]
pub(crate) const OF_THE_PAGE: [&str; 12] = [
    OTHER_RECEIVERS,
    PROCESSORS,
    IN_FRONT,
    OTHER_EXPORTERS,
    QUEUES,
    HEALTH,
    POD_ATTRIBUTES,
    BUILT_IN,
    SIDECAR,
    AUTOSCALER,
    OPAMP,
    ALLOCATOR,
];

/// For a block's fields that this tool doesn't know.
pub(crate) const UNKNOWN: &str = "a pipeline has no such field";
/// For limits and times of a listener.
pub(crate) const LISTENER: &str = "edges have their own limits";
/// For client settings for which Millrace's client has its own values.
pub(crate) const CLIENT: &str = "Millrace's clients have their own settings";
