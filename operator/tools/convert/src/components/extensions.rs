//! Extensions and connectors: none of them is carried over.

use crate::account::Fate;
use crate::advice;
use crate::service::type_of;

/// Returns the fate of an extension.
pub(crate) fn extension_fate(id: &str) -> Fate {
    match &*type_of(id) {
        "healthcheck" | "healthcheckv2" | "zpages" | "pprof" => Fate::not_needed(advice::HEALTH),
        "memoryballast" => Fate::not_needed(advice::BUILT_IN),
        "filestorage" | "dbstorage" | "redisstorage" => {
            Fate::not_needed("file positions are stored on the node, records in Kafka")
        }
        "opamp" => Fate::unsupported(advice::OPAMP),
        kind if kind.ends_with("observer") => Fate::unsupported(
            "targets found in the cluster: receivers.prometheus.kubernetes; containers: \
             receivers.containers",
        ),
        kind if kind.contains("auth") || kind == "oidc" || kind == "headerssetter" => {
            Fate::unsupported(
                "an edge supports client certificates or no authentication: keep a Collector for \
                 others",
            )
        }
        _ => Fate::unsupported("nothing: a pipeline has no counterpart"),
    }
}

/// Returns the fate of a connector.
pub(crate) fn connector_fate(id: &str) -> Fate {
    match &*type_of(id) {
        "forward" => Fate::not_needed("a signal has one pipeline"),
        _ => Fate::unsupported(format!("{} {}", advice::PROCESSORS, advice::IN_FRONT)),
    }
}

/// Returns the fate of an exporter that is neither ClickHouse's nor Kafka's.
pub(crate) fn exporter_fate(id: &str) -> Fate {
    match &*type_of(id) {
        "debug" | "logging" | "nop" => {
            Fate::not_needed("`kubectl millrace send` follows a record to its row")
        }
        "otlp" | "otlpgrpc" | "otlphttp" => Fate::unsupported(format!(
            "to a Collector that writes to ClickHouse: the edge replaces it, with Kafka in \
             between. To anything else: {}",
            advice::OTHER_EXPORTERS
        )),
        _ => Fate::unsupported(advice::OTHER_EXPORTERS),
    }
}

/// Returns the fate of a setting of `service.telemetry`.
pub(crate) fn telemetry_fate(name: &str) -> Fate {
    match name {
        "metrics" => Fate::not_needed("metrics of each pod are on port 9464 by default"),
        "logs" => Fate::not_needed("pods write logs as JSON by default"),
        "traces" => Fate::unsupported("pods of a pool send no traces of their own work"),
        "resource" => Fate::unsupported("a pod's metrics have no custom attributes: relabel them"),
        _ => Fate::unsupported(advice::UNKNOWN),
    }
}
