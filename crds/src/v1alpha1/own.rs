//! Where pods of a pool send what they say of themselves.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::connection::{CaRef, SecretRef};
use super::pods::yes;
use super::rules;
use crate::names::{OtlpEndpoint, SecretKey, SecretName};

/// What pods say of themselves to others.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OwnTelemetry {
    /// Sends the pods' own traces (a sample of inserts, or of messages to Kafka) and log lines by
    /// OTLP over HTTP. Default: nothing is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub otlp: Option<OwnOtlp>,
}

/// Where own traces and logs go, and how much of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OwnOtlp {
    /// The server, http://host:4318 or https://host:4318. It may be a pool of Millrace: what is sent
    /// is marked, and what carries it makes no traces of it.
    pub endpoint: OtlpEndpoint,
    /// Headers of the requests, at most 16, for example authorization. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 16),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub headers: Vec<SecretHeader>,
    /// Settings for an https:// endpoint. Default: the system's authorities are trusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<OwnTls>,
    /// Traces that a pod keeps in a second at most, 0 to 100. Default: 1.
    #[serde(default = "traces_per_second")]
    #[schemars(range(min = 0, max = 100))]
    pub traces_per_second: u32,
    /// Of 100 traces, how many are kept at most, 1 to 100. Default: 100.
    #[serde(default = "traces_percent")]
    #[schemars(range(min = 1, max = 100))]
    pub traces_percent: u32,
    /// Whether the lines of the log are sent too. Default: true.
    #[serde(default = "yes")]
    pub logs: bool,
    /// Attributes of the resource, at most 16, for example deployment.environment.name. Default:
    /// service.name (millrace-collector), service.namespace (the pool's namespace),
    /// service.instance.id (the pod) and millrace.pool, each of which may be given here instead.
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
    /// The header's name, in lower case.
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z0-9-]+$"))]
    pub name: String,
    /// Where its value is.
    pub secret_key_ref: SecretKeyRef,
}

/// A key of a Secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretKeyRef {
    /// Name of the Secret. A change of its content rolls the pods that use it.
    pub name: SecretName,
    /// The key.
    pub key: SecretKey,
}

/// Encryption towards the server of own traces and logs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OwnTls {
    /// The authority that signed the server's certificate. Default: the system's authorities.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_secret_ref: Option<CaRef>,
    /// A Secret of type kubernetes.io/tls (keys tls.crt and tls.key) to show to the server.
    /// Default: no client certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_certificate_secret_ref: Option<SecretRef>,
}
