//! Converts a pod to what identifies it and the attributes that its records get. Pure.

use std::net::IpAddr;

use millrace_processing::enrich::{
    AttributeValue, POD_NAME, POD_NAMESPACE, POD_UID, PodAttributes, PodMetadataConfig,
};

use crate::api::event::Object;
use crate::metadata::SelectedAttributes;
use crate::pod::Address;

/// The attributes of the only container's image.
const IMAGE_NAME: &str = "container.image.name";
const IMAGE_TAGS: &str = "container.image.tags";
const NODE_NAME: &str = "k8s.node.name";

/// The most addresses of a pod that are read: two with dual stack.
const ADDRESSES_MAX: usize = 4;

/// What identifies a pod, and the attributes that its records get.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PodIdentity {
    pub(crate) uid: String,
    /// Namespace and name, as [`name_key`] joins them.
    pub(crate) name_key: String,
    pub(crate) addresses: Vec<IpAddr>,
    /// Its addresses are those of its node.
    pub(crate) is_on_host_network: bool,
    /// Its deletion has begun: another pod may get its address before it is gone.
    pub(crate) is_terminating: bool,
    /// Its containers have ended: it has no address any more.
    pub(crate) has_ended: bool,
    pub(crate) attributes: PodAttributes,
}

/// Returns the key of a pod's name. Neither part can contain a slash.
pub(crate) fn name_key(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

impl PodIdentity {
    /// Converts a pod. Also returns the number of attributes that exceed the limit.
    pub(crate) fn from_pod(pod: &Object, config: &PodMetadataConfig) -> (Self, u64) {
        let Object { metadata, spec, status, .. } = pod;
        let ips = |first: &str, all: &[Address]| {
            let texts = std::iter::once(first).chain(all.iter().map(|one| one.ip.as_str()));
            let mut ips: Vec<IpAddr> = Vec::new();
            for ip in texts.filter_map(|text| text.parse::<IpAddr>().ok()) {
                let ip = ip.to_canonical();
                if !ips.contains(&ip) && ips.len() < ADDRESSES_MAX {
                    ips.push(ip);
                }
            }
            ips
        };
        let addresses = ips(&status.pod_ip, &status.pod_ips);
        let hosts = ips(&status.host_ip, &status.host_ips);
        let is_on_host_network =
            spec.host_network || addresses.iter().any(|address| hosts.contains(address));
        let mut selected = SelectedAttributes::default();
        selected.put(POD_NAMESPACE, &metadata.namespace);
        selected.put(POD_NAME, &metadata.name);
        selected.put(POD_UID, &metadata.uid);
        if !spec.node_name.is_empty() {
            selected.put(NODE_NAME, &spec.node_name);
        }
        metadata.select(&mut selected, &config.labels, &config.annotations);
        let mut tag = None;
        if let [container] = spec.containers.as_slice()
            && !container.image.is_empty()
        {
            let (name, image_tag) = split_image(&container.image);
            selected.put(IMAGE_NAME, name);
            tag = image_tag;
        }
        let SelectedAttributes { attributes, omitted, .. } = selected;
        let mut encoded: Vec<(&str, AttributeValue<'_>)> =
            attributes.iter().map(|(name, value)| (&**name, AttributeValue::Text(value))).collect();
        encoded.extend(tag.map(|tag| (IMAGE_TAGS, AttributeValue::OneText(tag))));
        let identity = Self {
            uid: metadata.uid.clone(),
            name_key: name_key(&metadata.namespace, &metadata.name),
            addresses,
            is_on_host_network,
            is_terminating: metadata.deletion_timestamp.is_some(),
            has_ended: matches!(&*status.phase, "Succeeded" | "Failed"),
            attributes: PodAttributes::encode(&encoded),
        };
        (identity, omitted)
    }
}

/// Splits an image into its name and tag. A digest is no tag.
fn split_image(image: &str) -> (&str, Option<&str>) {
    let image = image.split_once('@').map_or(image, |(name, _)| name);
    match image.rsplit_once(':') {
        // A colon before a slash precedes a registry's port.
        Some((name, tag)) if !tag.contains('/') && !tag.is_empty() => (name, Some(tag)),
        _ => (image, None),
    }
}

#[cfg(test)]
mod tests;
