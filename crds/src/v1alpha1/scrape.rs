//! Targets that an edge pool scrapes.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use super::discovery::KubernetesDiscovery;
use super::pods::yes;
use super::rules;
use super::scrape_access::{
    ScrapeAuthorization, ScrapeBasicAuth, ScrapeOAuth2, ScrapeProxy, ScrapeScheme, ScrapeTls,
    login_rules, params,
};
use super::scrape_rules::{RelabelRule, ScrapeHttpList};
use crate::amounts::MemoryQuantity;

/// Targets that are scraped over HTTP, in Prometheus' formats.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = receiver_rules)]
pub struct PrometheusReceiver {
    /// Jobs of a Prometheus file: its scrape_configs, as YAML text. What isn't taken is refused
    /// with its line. Default: none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 65_536))]
    pub scrape_configs: String,
    /// What is scraped, by service: at most 32 jobs, with 10,000 targets in all. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub jobs: Vec<ScrapeJob>,
    /// Targets that are found in the cluster, by monitors of prometheus-operator's kinds and by
    /// annotations. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<KubernetesDiscovery>,
    /// Let targets, token servers, proxies and what redirects point to have loopback and link-local
    /// addresses. Whoever may write a list of targets then reaches a pod's own ports, and the
    /// cloud's metadata service of its node. If false, such a target is down.
    #[serde(default)]
    pub allow_local_addresses: bool,
    /// How targets are shared out among the pool's pods. Default: by their samples, without a cap.
    #[serde(default, skip_serializing_if = "SharingSettings::is_usual")]
    pub sharing: SharingSettings,
}

/// How targets are shared out among pods.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SharingSettings {
    /// The cap: most samples per second that one pod is given, 1 to 1,000,000,000. The status says
    /// how many pods that takes. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub pod_samples_per_second_max: Option<u32>,
    /// What becomes of new targets when all pods are at the cap: Scrape (all the same, evenly) or
    /// LeaveOut (they wait, and have no `up`).
    #[serde(default)]
    pub at_cap: AtCap,
}

impl SharingSettings {
    /// Whether nothing is asked for.
    pub fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}

/// What becomes of new targets when all pods are at the cap.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AtCap {
    /// They are scraped.
    #[default]
    Scrape,
    /// They are left out until there is room.
    LeaveOut,
}

/// Targets of one service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = job_rules)]
pub struct ScrapeJob {
    /// The service's name: service.name of all its metrics.
    #[schemars(length(min = 1, max = 256))]
    pub name: String,
    /// The targets, at most 250, as host:port without a scheme or path, IPv6 in brackets. Loopback
    /// and link-local addresses are refused unless allowLocalAddresses. Default: none; http lists
    /// then name them.
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
    /// Servers that answer with lists of targets, at most 4. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 4),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["url"])
    )]
    pub http: Vec<ScrapeHttpList>,
    /// The time from a target's scrape to its next one, 1 to 3,600 seconds.
    #[serde(default = "default_interval_seconds")]
    #[schemars(range(min = 1, max = 3_600))]
    pub interval_seconds: u32,
    /// The time for a scrape, in seconds: at most the interval.
    #[serde(default = "default_timeout_seconds")]
    #[schemars(range(min = 1, max = 3_600))]
    pub timeout_seconds: u32,
    /// The path, with a query if there is one. Default: /metrics.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1_024), regex(pattern = r"^/[!-\x22$-~]*$"))]
    pub path: Option<String>,
    /// Speak http or https with targets.
    #[serde(default, skip_serializing_if = "ScrapeScheme::is_http")]
    pub scheme: ScrapeScheme,
    /// Further parameters of the query: at most 16 names with 8 values each. Default: none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(transform = params)]
    pub params: BTreeMap<String, Vec<String>>,
    /// Encryption towards https targets. Default: the system's authorities are trusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<ScrapeTls>,
    /// An authorization header. Of it, basicAuth and oauth2 one at most. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authorization: Option<ScrapeAuthorization>,
    /// A user name and password. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub basic_auth: Option<ScrapeBasicAuth>,
    /// A token by OAuth 2.0's client credentials. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oauth2: Option<ScrapeOAuth2>,
    /// The proxy that targets are asked through. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy: Option<ScrapeProxy>,
    /// Follow redirects, at most 10: without authorization where the server is another one, never
    /// from https to http.
    #[serde(default)]
    pub follow_redirects: bool,
    /// Rules for targets, applied in order to their labels before they are scraped: Prometheus'
    /// relabel_configs, at most 32. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub relabel: Vec<RelabelRule>,
    /// Rules for samples, applied in order to each: Prometheus' metric_relabel_configs, at most 32.
    /// Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub metric_relabel: Vec<RelabelRule>,
    /// Ask targets for the protobuf format, which alone has native histograms.
    #[serde(default)]
    pub native_histograms: bool,
    /// Labels of all points, at most 16. Not job, instance, or names that begin with two
    /// underscores. Default: none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(transform = rules::map::<16, 256>)]
    pub labels: BTreeMap<String, String>,
    /// Where a scraped label has the name of one of `labels`, or is job or instance: keep the
    /// scraped one. If false, the target's is kept, and the scraped one becomes exported_NAME.
    #[serde(default)]
    pub honor_labels: bool,
    /// Keep times in a target's answer. If false, its points have the scrape's time.
    #[serde(default = "yes")]
    pub honor_timestamps: bool,
    /// What a target may send. A scrape over a limit fails.
    #[serde(default, skip_serializing_if = "ScrapeLimits::is_usual")]
    pub limits: ScrapeLimits,
}

/// What a target may send in a scrape.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = limit_rules)]
pub struct ScrapeLimits {
    /// The longest body, after decompression, 1Ki to 4Gi. It is never held whole. Default: 256Mi.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_bytes: Option<MemoryQuantity>,
    /// Most samples, 1 to 10,000,000. Default: 1,000,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000_000))]
    pub samples: Option<u32>,
    /// Most labels of a sample, 1 to 128. Default: 64.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 128))]
    pub labels: Option<u32>,
}

impl ScrapeLimits {
    /// Whether nothing is asked for.
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

/// Prometheus' own.
fn default_interval_seconds() -> u32 {
    60
}

/// Likewise.
fn default_timeout_seconds() -> u32 {
    10
}

fn limit_rules(schema: &mut Schema) {
    rules::rule(
        schema,
        "!has(self.bodyBytes) || !isQuantity(self.bodyBytes) \
         || (quantity(self.bodyBytes).compareTo(quantity('1Ki')) >= 0 \
         && quantity(self.bodyBytes).compareTo(quantity('4Gi')) <= 0)",
        "bodyBytes is from 1Ki to 4Gi: write such an amount, for example 512Mi",
    );
}

fn receiver_rules(schema: &mut Schema) {
    rules::rule(
        schema,
        "(has(self.jobs) && size(self.jobs) > 0) \
         || (has(self.scrapeConfigs) && size(self.scrapeConfigs) > 0) || has(self.kubernetes)",
        "nothing is scraped: write jobs, scrapeConfigs, or kubernetes",
    );
}

fn job_rules(schema: &mut Schema) {
    login_rules(schema);
    rules::rule(
        schema,
        "(has(self.targets) && size(self.targets) > 0) || (has(self.http) && size(self.http) > 0)",
        "no target is given: write targets, or http with a server that lists them",
    );
    rules::rule(
        schema,
        "(has(self.timeoutSeconds) ? self.timeoutSeconds : 10) \
         <= (has(self.intervalSeconds) ? self.intervalSeconds : 60)",
        "a scrape must end before the next one: write timeoutSeconds of at most intervalSeconds",
    );
}
