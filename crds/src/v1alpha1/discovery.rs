//! Which targets an edge pool finds in its cluster: by monitors of prometheus-operator's kinds, and
//! by annotations.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use super::rules;
use super::scrape_rules::RelabelRule;

/// Targets that are found in the cluster. The operator looks for them, and needs the rights for it:
/// discovery.enabled in its chart.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = discovery_rules)]
pub struct KubernetesDiscovery {
    /// ServiceMonitors (monitoring.coreos.com/v1) to follow. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_monitors: Option<MonitorSelection>,
    /// PodMonitors (monitoring.coreos.com/v1) to follow. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_monitors: Option<MonitorSelection>,
    /// Probes (monitoring.coreos.com/v1) to follow. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probes: Option<MonitorSelection>,
    /// ScrapeConfigs (monitoring.coreos.com/v1alpha1) to follow. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scrape_configs: Option<MonitorSelection>,
    /// Pods and Services to scrape that have the annotation prometheus.io/scrape: "true". Default:
    /// none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<AnnotatedSelection>,
    /// The time from a target's scrape to its next one where a monitor names none, 1 to 3,600
    /// seconds.
    #[serde(default = "default_interval_seconds")]
    #[schemars(range(min = 1, max = 3_600))]
    pub interval_seconds: u32,
}

/// Which monitors are followed. An empty block takes all of the pool's own namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MonitorSelection {
    /// Their labels. Default: any.
    #[serde(default, skip_serializing_if = "LabelSelector::is_empty")]
    pub selector: LabelSelector,
    /// Labels of their namespaces; an empty selector means all namespaces. Default: the pool's own
    /// namespace alone. Only pools in namespaces that discovery.acrossNamespaces of the operator's
    /// chart names may write it, or scrape what is in other namespaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
}

/// Which annotated pods and Services are scraped. An empty block takes all of the pool's own
/// namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnnotatedSelection {
    /// Their labels. Default: any.
    #[serde(default, skip_serializing_if = "LabelSelector::is_empty")]
    pub selector: LabelSelector,
    /// Labels of their namespaces, as in serviceMonitors. Default: the pool's own namespace alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// Rules for these targets, applied after those that the annotations stand for, at most 32.
    /// Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub relabel: Vec<RelabelRule>,
}

/// Labels that objects must have, as Kubernetes' label selectors. An empty one selects all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LabelSelector {
    /// Labels with these values, at most 16. Default: none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(transform = rules::map::<16, 63>)]
    pub match_labels: BTreeMap<String, String>,
    /// Further requirements, at most 16; all of them must hold. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub match_expressions: Vec<LabelRequirement>,
}

impl LabelSelector {
    fn is_empty(&self) -> bool {
        self.match_labels.is_empty() && self.match_expressions.is_empty()
    }
}

/// What one label must be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = requirement_rules)]
pub struct LabelRequirement {
    /// The label.
    #[schemars(length(min = 1, max = 317))]
    pub key: String,
    /// What its value must be.
    pub operator: LabelOperator,
    /// The values of In and NotIn, at most 32. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(max = 63)))]
    pub values: Vec<String>,
}

/// What a label's value must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LabelOperator {
    /// One of the values.
    In,
    /// None of the values, or not there.
    NotIn,
    /// Any: the label must be there.
    Exists,
    /// The label must not be there.
    DoesNotExist,
}

/// Prometheus' default under prometheus-operator.
fn default_interval_seconds() -> u32 {
    30
}

fn discovery_rules(schema: &mut Schema) {
    rules::rule(
        schema,
        "has(self.serviceMonitors) || has(self.podMonitors) || has(self.probes) \
         || has(self.scrapeConfigs) || has(self.annotations)",
        "nothing is looked for: write serviceMonitors, podMonitors, probes, scrapeConfigs or \
         annotations; {} takes all of the pool's namespace",
    );
}

fn requirement_rules(schema: &mut Schema) {
    rules::rule(
        schema,
        "self.operator in ['In', 'NotIn'] == (has(self.values) && size(self.values) > 0)",
        "In and NotIn need values, Exists and DoesNotExist have none",
    );
}
