//! The parts of a pod that are read. All of them may be missing.

use serde::Deserialize;

/// The parts of a pod's spec that are read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodSpec {
    pub(crate) node_name: String,
    pub(crate) host_network: bool,
    pub(crate) containers: Vec<PodContainer>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodContainer {
    pub(crate) image: String,
}

/// The parts of a pod's status that are read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodStatus {
    pub(crate) phase: String,
    #[serde(rename = "podIP")]
    pub(crate) pod_ip: String,
    #[serde(rename = "podIPs")]
    pub(crate) pod_ips: Vec<Address>,
    #[serde(rename = "hostIP")]
    pub(crate) host_ip: String,
    #[serde(rename = "hostIPs")]
    pub(crate) host_ips: Vec<Address>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Address {
    pub(crate) ip: String,
}
