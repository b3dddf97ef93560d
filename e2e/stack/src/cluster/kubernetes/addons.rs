//! What is applied to a fresh cluster: its name server. And the images that the stack itself needs.

use crate::cluster::node::CLUSTER_DNS;

/// The image of pod sandboxes, made of our pause program. Its tag is [`crate::versions::PAUSE`].
pub(crate) const PAUSE_IMAGE: &str = "docker.io/millrace/pause:v1";
/// The image of CoreDNS. Its tag is [`crate::versions::COREDNS`].
pub(crate) const COREDNS_IMAGE: &str = "docker.io/millrace/coredns:v1.12.4";

/// The manifest of the cluster's name server.
pub(crate) fn coredns_manifest() -> String {
    include_str!("../../../kubernetes/coredns.yaml")
        .replace("@IMAGE@", COREDNS_IMAGE)
        .replace("@ADDRESS@", &CLUSTER_DNS.to_string())
}

#[cfg(test)]
mod tests {
    use super::{COREDNS_IMAGE, PAUSE_IMAGE, coredns_manifest};
    use crate::versions;

    /// Raising a version without its tag would run the old image.
    #[test]
    fn tags_are_the_versions_that_are_built() {
        assert!(PAUSE_IMAGE.ends_with(&format!(":{}", versions::PAUSE)));
        assert!(COREDNS_IMAGE.ends_with(&format!(":{}", versions::COREDNS)));
        assert!(!coredns_manifest().contains('@'), "a placeholder is left");
    }
}
