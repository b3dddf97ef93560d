//! Where pods of a pool send their own telemetry.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::pods::yes;
use crate::names::OtlpEndpoint;
use crate::v1alpha1::connections::authentication::{CaSource, CertificateSecret};
use crate::v1alpha1::connections::secrets::SecretKeyRef;
use crate::v1alpha1::rules;

/// Telemetry of the pods themselves.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OwnTelemetry {
    /// Sends the pods' own traces (a sample of inserts, or of messages to Kafka) and logs by OTLP
    /// over HTTP. Default: not sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub otlp: Option<OwnOtlp>,
}

/// The destination of the pods' own traces and logs, and their sampling.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OwnOtlp {
    /// OTLP server, http://host:4318 or https://host:4318. It may be an edge pool: pods create no
    /// traces about this telemetry.
    pub endpoint: OtlpEndpoint,
    /// Request headers, at most 16, for example authorization. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 16),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub headers: Vec<SecretHeader>,
    /// TLS settings for an https endpoint. Default: trusts the system's CAs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<OwnTls>,
    /// Maximum traces per second and pod, 0 to 100.
    #[serde(default = "traces_per_second")]
    #[schemars(range(min = 0, max = 100))]
    pub traces_per_second: u32,
    /// Percentage of traces to sample, 1 to 100.
    #[serde(default = "traces_percent")]
    #[schemars(range(min = 1, max = 100))]
    pub traces_percent: u32,
    /// Whether logs are sent too.
    #[serde(default = "yes")]
    pub logs: bool,
    /// Resource attributes, at most 16, for example deployment.environment.name. They override the
    /// defaults service.name (millrace-collector), service.namespace (the pool's namespace),
    /// service.instance.id (the pod) and millrace.pool.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(transform = rules::map::<16, 256>)]
    pub attributes: BTreeMap<String, String>,
}

const fn traces_per_second() -> u32 {
    1
}

const fn traces_percent() -> u32 {
    100
}

/// A header whose value is in a Secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretHeader {
    /// Header name, in lower case.
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z0-9-]+$"))]
    pub name: String,
    /// Secret key with the header's value.
    pub value_secret: SecretKeyRef,
}

/// TLS to the OTLP server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OwnTls {
    /// CA of the server's certificate. Default: the system's CAs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<CaSource>,
    /// Secret with the client certificate. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate_secret: Option<CertificateSecret>,
}
