//! Which targets an edge pool finds in its cluster: by monitors of prometheus-operator's kinds, and
//! by annotations.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use super::scrape_rules::RelabelRule;
use crate::v1alpha1::rules;

/// Scrape targets that the operator discovers in the cluster; requires discovery.enabled in its
/// chart.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = discovery_rules)]
pub struct KubernetesDiscovery {
    /// ServiceMonitors (monitoring.coreos.com/v1) to select. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_monitors: Option<MonitorSelection>,
    /// PodMonitors (monitoring.coreos.com/v1) to select. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_monitors: Option<MonitorSelection>,
    /// Probes (monitoring.coreos.com/v1) to select. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probes: Option<MonitorSelection>,
    /// ScrapeConfigs (monitoring.coreos.com/v1alpha1) to select. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scrape_configs: Option<MonitorSelection>,
    /// Pods and Services with the annotation prometheus.io/scrape: "true" to select. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<AnnotatedSelection>,
    /// Scrape interval of monitors that set none, 1 to 3,600 seconds.
    #[serde(default = "default_interval_seconds")]
    #[schemars(range(min = 1, max = 3_600))]
    pub interval_seconds: u32,
}

/// Selects monitors. An empty block selects all in the pool's own namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MonitorSelection {
    /// Label selector of the objects. Default: any labels.
    #[serde(default, skip_serializing_if = "LabelSelector::is_empty")]
    pub selector: LabelSelector,
    /// Label selector of the objects' namespaces; an empty one selects all. Only pools in
    /// namespaces listed in discovery.acrossNamespaces of the operator's chart may set it or scrape
    /// other namespaces. Default: only the pool's own namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
}

/// Selects annotated pods and Services. An empty block selects all in the pool's own namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnnotatedSelection {
    /// Label selector of the objects. Default: any labels.
    #[serde(default, skip_serializing_if = "LabelSelector::is_empty")]
    pub selector: LabelSelector,
    /// Label selector of the namespaces of these Pods and Services, as in serviceMonitors. Default:
    /// only the pool's own namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// Relabeling rules for these targets, applied after those of the annotations, at most 32.
    /// Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub relabel: Vec<RelabelRule>,
}

/// A Kubernetes label selector. An empty one selects all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LabelSelector {
    /// Required labels with their values, at most 16. Default: none.
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

/// A requirement on one label.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = requirement_rules)]
pub struct LabelRequirement {
    /// Name of the label.
    #[schemars(length(min = 1, max = 317))]
    pub key: String,
    /// In, NotIn, Exists or DoesNotExist.
    pub operator: LabelOperator,
    /// The values of In and NotIn, at most 32. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(max = 63)))]
    pub values: Vec<String>,
}

/// The condition on a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LabelOperator {
    /// One of the values.
    In,
    /// None of the values, or absent.
    NotIn,
    /// The label exists.
    Exists,
    /// The label is absent.
    DoesNotExist,
}

/// Prometheus' default under prometheus-operator.
fn default_interval_seconds() -> u32 {
    30
}

fn discovery_rules(schema: &mut Schema) {
    rules::add_rule(
        schema,
        "has(self.serviceMonitors) || has(self.podMonitors) || has(self.probes) \
         || has(self.scrapeConfigs) || has(self.annotations)",
        "the block selects nothing: write serviceMonitors, podMonitors, probes, scrapeConfigs or \
         annotations; {} selects all of the pool's namespace",
    );
}

fn requirement_rules(schema: &mut Schema) {
    rules::add_rule(
        schema,
        "self.operator in ['In', 'NotIn'] == (has(self.values) && size(self.values) > 0)",
        "In and NotIn need values; Exists and DoesNotExist must have none",
    );
}
