//! Scrape targets of an edge pool.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use super::discovery::KubernetesDiscovery;
use super::scrape_access::{
    ScrapeAuthorization, ScrapeBasicAuth, ScrapeOAuth2, ScrapeProxy, ScrapeScheme, ScrapeTls,
    login_rules, params,
};
use super::scrape_rules::{RelabelRule, ScrapeHttpList};
use crate::amounts::MemoryQuantity;
use crate::v1alpha1::pools::pods::yes;
use crate::v1alpha1::rules;

/// Prometheus scrape targets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = receiver_rules)]
pub struct PrometheusReceiver {
    /// The scrape_configs of a Prometheus file, as YAML text. Unsupported settings are rejected
    /// with their line number. Default: none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 65_536))]
    pub scrape_configs: String,
    /// Scrape jobs, one per service: at most 32, with 10,000 targets in total. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub jobs: Vec<ScrapeJob>,
    /// Discovery in the cluster by annotations and by monitors (kinds of the Prometheus operator).
    /// Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<KubernetesDiscovery>,
    /// Allow loopback and link-local addresses of targets, token servers, proxies and redirects.
    /// Whoever can write a target list can then reach a pod's own ports and the cloud's metadata
    /// service. If false, such a target is down.
    #[serde(default)]
    pub allow_local_addresses: bool,
    /// Assignment of targets to pods. Default: balanced by samples, without a maximum.
    #[serde(default, skip_serializing_if = "TargetAssignment::is_usual")]
    pub assignment: TargetAssignment,
}

/// Assignment of targets to pods.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TargetAssignment {
    /// Capacity of a pod, in samples per second, 1 to 1,000,000,000. status.targets.neededPods has
    /// the number of pods that the load needs. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub max_samples_per_second_per_pod: Option<u32>,
    /// What happens to new targets when all pods are at their capacity: Scrape (scraped anyway,
    /// spread evenly) or Wait (for a pod with capacity, without `up`).
    #[serde(default)]
    pub overflow_policy: OverflowPolicy,
}

impl TargetAssignment {
    /// Whether all settings are defaults.
    pub fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}

/// What happens to new targets when all pods are at their capacity.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OverflowPolicy {
    /// They are scraped.
    #[default]
    Scrape,
    /// They wait until a pod has capacity.
    Wait,
}

/// Targets of one service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = job_rules)]
pub struct ScrapeJob {
    /// Name of the job: service.name of its metrics.
    #[schemars(length(min = 1, max = 256))]
    pub name: String,
    /// Targets as host:port without scheme or path, IPv6 in brackets, at most 250. Loopback and
    /// link-local addresses need allowLocalAddresses. Default: none; http then lists them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 250),
        inner(
            length(max = 261),
            regex(pattern = r"^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}$")
        ),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub targets: Vec<String>,
    /// Servers that return target lists (http_sd), at most 4. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 4),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["url"])
    )]
    pub http: Vec<ScrapeHttpList>,
    /// Scrape interval, 1 to 3,600 seconds.
    #[serde(default = "default_interval_seconds")]
    #[schemars(range(min = 1, max = 3_600))]
    pub interval_seconds: u32,
    /// Scrape timeout, 1 to 3,600 seconds and at most intervalSeconds.
    #[serde(default = "default_timeout_seconds")]
    #[schemars(range(min = 1, max = 3_600))]
    pub timeout_seconds: u32,
    /// HTTP path, optionally with a query. Default: /metrics.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1_024), regex(pattern = r"^/[!-\x22$-~]*$"))]
    pub path: Option<String>,
    /// Protocol: http or https. Default: http.
    #[serde(default, skip_serializing_if = "ScrapeScheme::is_http")]
    pub scheme: ScrapeScheme,
    /// Query parameters: at most 16 names with 8 values each. Default: none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(transform = params)]
    pub params: BTreeMap<String, Vec<String>>,
    /// TLS settings for https targets. Default: trusts the system's CAs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<ScrapeTls>,
    /// Authorization header. At most one of authorization, basicAuth and oauth2. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authorization: Option<ScrapeAuthorization>,
    /// HTTP basic authentication. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub basic_auth: Option<ScrapeBasicAuth>,
    /// OAuth 2.0 client credentials. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oauth2: Option<ScrapeOAuth2>,
    /// HTTP proxy to the targets. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy: Option<ScrapeProxy>,
    /// Follow at most 10 redirects, without credentials to another server, and never from https to
    /// http.
    #[serde(default)]
    pub follow_redirects: bool,
    /// Relabeling of targets before the scrape, as Prometheus' relabel_configs; at most 32 rules.
    /// Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub relabel: Vec<RelabelRule>,
    /// Relabeling of samples, as Prometheus' metric_relabel_configs; at most 32 rules. Default:
    /// none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub metric_relabel: Vec<RelabelRule>,
    /// Request the protobuf format, the only one with native histograms.
    #[serde(default)]
    pub native_histograms: bool,
    /// Labels of all samples, at most 16; not job, instance, or names that begin with two
    /// underscores. Default: none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(transform = rules::map::<16, 256>)]
    pub labels: BTreeMap<String, String>,
    /// Prefer scraped labels to the target's if both have the same name. If false, the scraped
    /// label becomes exported_NAME.
    #[serde(default)]
    pub honor_labels: bool,
    /// Use timestamps of scraped samples. If false, samples have the time of the scrape.
    #[serde(default = "yes")]
    pub honor_timestamps: bool,
    /// Limits of a scrape; a scrape over a limit fails.
    #[serde(default, skip_serializing_if = "ScrapeLimits::is_usual")]
    pub limits: ScrapeLimits,
}

/// Limits of a scrape.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = limit_rules)]
pub struct ScrapeLimits {
    /// Maximum body size after decompression, 1Ki to 4Gi. Default: 256Mi.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_bytes: Option<MemoryQuantity>,
    /// Maximum number of samples, 1 to 10,000,000. Default: 1,000,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000_000))]
    pub samples: Option<u32>,
    /// Maximum number of labels of a sample, 1 to 128. Default: 64.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 128))]
    pub labels: Option<u32>,
}

impl ScrapeLimits {
    /// Whether all settings are defaults.
    pub fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for ScrapeJob {
    fn default() -> Self {
        Self {
            name: String::new(),
            targets: Vec::new(),
            http: Vec::new(),
            interval_seconds: default_interval_seconds(),
            timeout_seconds: default_timeout_seconds(),
            path: None,
            scheme: ScrapeScheme::default(),
            params: BTreeMap::new(),
            tls: None,
            authorization: None,
            basic_auth: None,
            oauth2: None,
            proxy: None,
            follow_redirects: false,
            relabel: Vec::new(),
            metric_relabel: Vec::new(),
            native_histograms: false,
            labels: BTreeMap::new(),
            honor_labels: false,
            honor_timestamps: yes(),
            limits: ScrapeLimits::default(),
        }
    }
}

/// Prometheus' default.
fn default_interval_seconds() -> u32 {
    60
}

/// Prometheus' default.
fn default_timeout_seconds() -> u32 {
    10
}

fn limit_rules(schema: &mut Schema) {
    rules::add_rule(
        schema,
        "!has(self.bodyBytes) || !isQuantity(self.bodyBytes) \
         || (quantity(self.bodyBytes).compareTo(quantity('1Ki')) >= 0 \
         && quantity(self.bodyBytes).compareTo(quantity('4Gi')) <= 0)",
        "bodyBytes must be from 1Ki to 4Gi: write for example 512Mi",
    );
}

fn receiver_rules(schema: &mut Schema) {
    rules::add_rule(
        schema,
        "(has(self.jobs) && size(self.jobs) > 0) \
         || (has(self.scrapeConfigs) && size(self.scrapeConfigs) > 0) || has(self.kubernetes)",
        "the receiver has no targets: write jobs, scrapeConfigs or kubernetes",
    );
}

fn job_rules(schema: &mut Schema) {
    login_rules(schema);
    rules::add_rule(
        schema,
        "(has(self.targets) && size(self.targets) > 0) || (has(self.http) && size(self.http) > 0)",
        "the job has no targets: write targets, or http with a server that lists them",
    );
    rules::add_rule(
        schema,
        "(has(self.timeoutSeconds) ? self.timeoutSeconds : 10) \
         <= (has(self.intervalSeconds) ? self.intervalSeconds : 60)",
        "a scrape must end before the next one: write timeoutSeconds of at most intervalSeconds",
    );
}
