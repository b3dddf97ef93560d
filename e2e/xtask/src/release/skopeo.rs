//! Copies between archives, layouts and registries on loopback, every digest kept.

use anyhow::Result;
use millrace_stack::image::digest;

use crate::shell;

/// Copies an image with all its platforms, or a chart, signature or attestation. Places are skopeo's:
/// `oci-archive:FILE`, `oci:FOLDER:NAME`, `docker://REGISTRY/NAME:TAG`.
pub(crate) fn copy(from: &str, to: &str) -> Result<()> {
    let mut args = vec!["--insecure-policy", "copy", "--quiet", "--all", "--preserve-digests"];
    args.extend(["--src-tls-verify=false", "--dest-tls-verify=false", from, to]);
    shell::output("skopeo", &args).map(drop)
}

/// The digest of what a registry has under a name, computed here.
pub(crate) fn digest_of(reference: &str) -> Result<String> {
    let place = format!("docker://{reference}");
    let manifest = shell::output("skopeo", &["inspect", "--tls-verify=false", "--raw", &place])?;
    Ok(digest(manifest.as_bytes()))
}
