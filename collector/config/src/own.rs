//! The section of the collector's own traces and logs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::secret::{ClientTls, SecretFile};
use crate::section::section;
use crate::url::HttpUrl;

section! {
    /// What the process says of itself to others.
    pub struct OwnTelemetry {
        /// Own traces and logs by OTLP. Absent: none.
        pub otlp: Option<OwnOtlp> = None,
    }
}

/// Where the collector's own traces and logs are sent by OTLP over HTTP: a trace for each insert
/// (gateway) or message to Kafka (edge), and the lines of its log.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OwnOtlp {
    /// The server, `http://host:4318` or `https://`; `/v1/traces` and `/v1/logs` are appended.
    pub endpoint: HttpUrl,
    /// Headers of its requests, by name: the files with their values, which are read for each
    /// request. 16 at most.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, SecretFile>,
    /// TLS towards `https://`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<ClientTls>,
    /// Traces kept in a second at most, 0 to 100: what tracing costs has a bound at any load.
    #[serde(default = "traces_per_second", skip_serializing_if = "is_traces_per_second")]
    #[cfg_attr(feature = "json-schema", schemars(extend("default" = 1)))]
    pub traces_per_second: u32,
    /// Of 100 traces, how many are kept at most, 1 to 100.
    #[serde(default = "traces_percent", skip_serializing_if = "is_traces_percent")]
    #[cfg_attr(feature = "json-schema", schemars(extend("default" = 100)))]
    pub traces_percent: u8,
    /// Whether the lines of the log are sent too.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    #[cfg_attr(feature = "json-schema", schemars(extend("default" = true)))]
    pub logs: bool,
    /// Attributes of the resource; 32 at most. Without them `service.name` is millrace-collector,
    /// `service.version` its version and `service.instance.id` the host's name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
}

const fn traces_per_second() -> u32 {
    1
}

const fn is_traces_per_second(number: &u32) -> bool {
    *number == traces_per_second()
}

const fn traces_percent() -> u8 {
    100
}

const fn is_traces_percent(number: &u8) -> bool {
    *number == traces_percent()
}

const fn yes() -> bool {
    true
}

const fn is_yes(is: &bool) -> bool {
    *is
}
