//! What to do about parts without a counterpart. docs/coming-from.md says the same; a test compares
//! both.

/// Of receivers that there are no counterparts for.
pub(crate) const OTHER_RECEIVERS: &str =
    "nothing: keep a Collector for them, with its OTLP exporter to the edge";
/// Of processors.
pub(crate) const PROCESSORS: &str = "nothing: keep a Collector";
/// Where such a Collector stands.
pub(crate) const IN_FRONT: &str =
    "in front of the edge: its OTLP exporter sends to `status.endpoint`";
/// Of exporters.
pub(crate) const OTHER_EXPORTERS: &str =
    "nothing: other consumers read the Kafka topics, which hold OTLP";
/// Of queues and repetitions.
pub(crate) const QUEUES: &str = "Kafka; before it a buffer on disk, off by default";
/// Of extensions that tell how a process is.
pub(crate) const HEALTH: &str = "`/readyz`, `/livez`, `/` on port 9464; no profiler";
/// Of attributes of pods.
pub(crate) const POD_ATTRIBUTES: &str = "for log files only. OTLP records have what the client \
     sends: set `OTEL_RESOURCE_ATTRIBUTES` from the pod's fields, or keep a Collector";
/// Of what limits memory and makes batches.
pub(crate) const BUILT_IN: &str = "built in: docs/operations.md#memory";
/// Of a Collector beside its application.
pub(crate) const SIDECAR: &str = "nothing: applications send to the edge's Service";
/// Of sizing.
pub(crate) const AUTOSCALER: &str = "gateways: by need; edges: your own HPA on the EdgePool";
/// Of remote control.
pub(crate) const OPAMP: &str = "nothing";
/// Of a target allocator.
pub(crate) const ALLOCATOR: &str = "targets are shared out among a pool's pods";

/// All that docs/coming-from.md has.
#[cfg(test)]
pub(crate) const OF_THE_PAGE: [&str; 12] = [
    OTHER_RECEIVERS,
    PROCESSORS,
    IN_FRONT,
    OTHER_EXPORTERS,
    QUEUES,
    HEALTH,
    POD_ATTRIBUTES,
    "built in: memory",
    SIDECAR,
    AUTOSCALER,
    OPAMP,
    ALLOCATOR,
];

/// Of a block's fields that this tool has not heard of.
pub(crate) const UNKNOWN: &str = "no field of a pipeline says this";
/// Of limits and times of a listener.
pub(crate) const LISTENER: &str = "the edge's limits of size, number and time are its own";
/// Of settings of a client that Millrace's has its own of.
pub(crate) const CLIENT: &str = "Millrace's clients have settings of their own";
