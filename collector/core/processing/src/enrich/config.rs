//! The settings of an `enrich` step.

use serde::{Deserialize, Serialize};

/// The longest list of labels or annotations.
pub(crate) const NAMES_MAX: usize = 64;

/// The settings of an `enrich` step. It applies to records of OTLP clients.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EnrichConfig {
    /// Metadata of the pod that sent the records, as resource attributes.
    pub pod_metadata: PodMetadataConfig,
}

/// Metadata of the pod that sent the records.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PodMetadataConfig {
    /// How the pod is found: the first entry whose values are known decides. The default is
    /// `Connection`.
    pub association: Vec<PodAssociation>,
    /// Labels that become attributes (`k8s.pod.label.NAME`): names, or prefixes that end in `*`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// Annotations that become attributes (`k8s.pod.annotation.NAME`), in the same form.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub annotations: Vec<String>,
    /// Labels of the pod's namespace that become attributes (`k8s.namespace.label.NAME`), in the
    /// same form.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub namespace_labels: Vec<String>,
    /// What happens to attributes that clients sent under the same names.
    pub on_conflict: OnConflict,
    /// The pods that are watched. `Node` needs the node's name in `NODE_NAME`.
    pub scope: PodScope,
}

impl Default for PodMetadataConfig {
    fn default() -> Self {
        Self {
            association: vec![PodAssociation::Connection],
            labels: Vec::new(),
            annotations: Vec::new(),
            namespace_labels: Vec::new(),
            on_conflict: OnConflict::default(),
            scope: PodScope::default(),
        }
    }
}

/// How a pod is found.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PodAssociation {
    /// By the address of the client's connection. Forwarded headers are not used.
    Connection,
    /// By the attribute `k8s.pod.uid`.
    PodUid,
    /// By the attribute `k8s.pod.ip`.
    PodIp,
    /// By the attributes `k8s.namespace.name` and `k8s.pod.name`.
    PodName,
}

impl PodAssociation {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Connection => "Connection",
            Self::PodUid => "PodUid",
            Self::PodIp => "PodIp",
            Self::PodName => "PodName",
        }
    }
}

/// What happens to attributes that clients sent under the names of metadata.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnConflict {
    /// The cluster's values replace them.
    #[default]
    Overwrite,
    /// They stay.
    Keep,
}

/// The pods that are watched.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PodScope {
    /// The pods of this collector's node.
    Node,
    /// All pods of the cluster.
    #[default]
    Cluster,
}

impl PodMetadataConfig {
    /// Returns each fault with its field.
    pub(crate) fn find_faults(&self) -> Vec<(String, String)> {
        let mut faults = Vec::new();
        if self.association.is_empty() {
            faults.push(("association".to_owned(), "write at least one association".to_owned()));
        }
        for (index, association) in self.association.iter().enumerate() {
            if self.association[..index].contains(association) {
                let message = format!("{} is listed before", association.as_str());
                faults.push((format!("association[{index}]"), message));
            }
        }
        for (list, names) in [
            ("labels", &self.labels),
            ("annotations", &self.annotations),
            ("namespaceLabels", &self.namespace_labels),
        ] {
            if names.len() > NAMES_MAX {
                faults.push((list.to_owned(), format!("more than {NAMES_MAX} names")));
            }
            for (index, name) in names.iter().enumerate() {
                let fixed = name.strip_suffix('*').unwrap_or(name);
                if name.is_empty() || fixed.contains('*') {
                    let message = "write a name, or a prefix that ends in `*`".to_owned();
                    faults.push((format!("{list}[{index}]"), message));
                }
            }
        }
        faults
    }
}
