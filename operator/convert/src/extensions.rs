//! Extensions and connectors: nothing of them is carried over.

use crate::account::Fate;
use crate::service::type_of;
use crate::words;

/// What becomes of an extension.
pub(crate) fn extension(id: &str) -> Fate {
    match &*type_of(id) {
        "healthcheck" | "healthcheckv2" | "zpages" | "pprof" => Fate::not_needed(words::HEALTH),
        "memoryballast" => Fate::not_needed(words::BUILT_IN),
        "filestorage" | "dbstorage" | "redisstorage" => {
            Fate::not_needed("positions of files are kept on the node, records in Kafka")
        }
        "opamp" => Fate::left(words::OPAMP),
        kind if kind.ends_with("observer") => Fate::left(
            "targets found in the cluster: receivers.prometheus.kubernetes; containers: \
             receivers.containers",
        ),
        kind if kind.contains("auth") || kind == "oidc" || kind == "headerssetter" => Fate::left(
            "an edge asks clients for certificates or for nothing: keep a Collector for other \
             log-ins",
        ),
        _ => Fate::left("nothing: no part of a pipeline has it"),
    }
}

/// What becomes of a connector.
pub(crate) fn connector(id: &str) -> Fate {
    match &*type_of(id) {
        "forward" => Fate::not_needed("pipelines of a signal are one"),
        _ => Fate::left(format!("{} {}", words::PROCESSORS, words::IN_FRONT)),
    }
}

/// What becomes of an exporter that is neither ClickHouse's nor Kafka's.
pub(crate) fn exporter(id: &str) -> Fate {
    match &*type_of(id) {
        "debug" | "logging" | "nop" => {
            Fate::not_needed("`kubectl millrace send` follows a record to its row")
        }
        "otlp" | "otlpgrpc" | "otlphttp" => Fate::left(format!(
            "to a Collector that writes to ClickHouse: the edge's place is here, Kafka is between. \
             To anything else: {}",
            words::OTHER_EXPORTERS
        )),
        _ => Fate::left(words::OTHER_EXPORTERS),
    }
}

/// What becomes of a setting of `service.telemetry`.
pub(crate) fn telemetry(name: &str) -> Fate {
    match name {
        "metrics" => Fate::not_needed("metrics of each pod are on port 9464, without being told"),
        "logs" => Fate::not_needed("pods write logs as JSON, without being told"),
        "traces" => Fate::left("pods of a pool send no traces of their own work"),
        "resource" => Fate::left("a pod's metrics have no attributes of yours: relabel them"),
        _ => Fate::left(words::UNKNOWN),
    }
}
