//! The section of the collector's own traces and logs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::document::check::Checker;
use crate::document::section::section;
use crate::values::secret::{ClientTls, SecretFile};
use crate::values::url::HttpUrl;

/// Most headers of requests with own traces and logs, whose files are read for each, and most
/// attributes, which each of them carries.
const OWN_HEADERS_MAX: usize = 16;
const OWN_ATTRIBUTES_MAX: usize = 32;

section! {
    /// Telemetry of the process itself.
    pub struct OwnTelemetry {
        /// Export of the process's own traces and logs by OTLP; none when absent.
        pub otlp: Option<OwnOtlp> = None,
    }
}

/// Export of the collector's own traces and logs by OTLP over HTTP: a trace for each insert
/// (gateway) or message to Kafka (edge), and its log lines.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OwnOtlp {
    /// URL of the server, `http://host:4318` or `https://`; `/v1/traces` and `/v1/logs` are
    /// appended.
    pub endpoint: HttpUrl,
    /// Headers of the requests: names, and files with the values, which are read for each request.
    /// At most 16.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, SecretFile>,
    /// TLS for `https://`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<ClientTls>,
    /// Maximum number of traces sampled per second, 0 to 100. It bounds the cost of tracing at any
    /// load.
    #[serde(default = "traces_per_second", skip_serializing_if = "is_traces_per_second")]
    #[cfg_attr(feature = "json-schema", schemars(extend("default" = 1)))]
    pub traces_per_second: u32,
    /// Maximum share of traces that are sampled, in percent, 1 to 100.
    #[serde(default = "traces_percent", skip_serializing_if = "is_traces_percent")]
    #[cfg_attr(feature = "json-schema", schemars(extend("default" = 100)))]
    pub traces_percent: u8,
    /// Whether log lines are exported too.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    #[cfg_attr(feature = "json-schema", schemars(extend("default" = true)))]
    pub logs: bool,
    /// Resource attributes; at most 32. The defaults are millrace-collector for `service.name`, its
    /// version for `service.version` and the host name for `service.instance.id`.
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

impl Checker<'_> {
    pub(crate) fn check_own_telemetry(&mut self, own: Option<&OwnOtlp>) {
        let Some(own) = own else { return };
        let OwnOtlp {
            endpoint: _,
            headers,
            tls,
            traces_per_second,
            traces_percent,
            logs: _,
            attributes,
        } = own;
        self.check_client_tls("telemetry.otlp.tls", tls.as_ref());
        self.check_range("telemetry.otlp.tracesPerSecond", *traces_per_second, 0..=100);
        self.check_range("telemetry.otlp.tracesPercent", *traces_percent, 1..=100);
        for (field, entries, most) in [
            ("headers", headers.len(), OWN_HEADERS_MAX),
            ("attributes", attributes.len(), OWN_ATTRIBUTES_MAX),
        ] {
            if entries > most {
                let message = format!("{entries} entries: use at most {most}");
                self.add_problem(&format!("telemetry.otlp.{field}"), message);
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod arbitrary {
    use super::OwnOtlp;
    use crate::document::round_trip::parsed;
    use crate::values::secret::arbitrary::{client_tls, file};
    use crate::values::url::HttpUrl;
    use proptest::option;
    use proptest::prelude::{Strategy, any};

    pub(crate) fn own() -> impl Strategy<Value = OwnOtlp> {
        let endpoint =
            parsed::<HttpUrl>("https?://[a-z][a-z0-9.-]{0,10}(:[1-9][0-9]{0,3})?(/[a-z]{1,9})?");
        let headers = proptest::collection::btree_map("[ -~]{0,6}", file(), 0..3);
        let attributes = proptest::collection::btree_map("[ -~]{0,6}", "[ -~é]{0,6}", 0..3);
        let rest = (option::of(client_tls()), any::<(u32, u8, bool)>());
        (endpoint, headers, attributes, rest).prop_map(
            |(endpoint, headers, attributes, (tls, (traces_per_second, traces_percent, logs)))| {
                OwnOtlp {
                    endpoint,
                    headers,
                    tls,
                    traces_per_second,
                    traces_percent,
                    logs,
                    attributes,
                }
            },
        )
    }
}
