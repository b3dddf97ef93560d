//! From archives into a registry: images and OLM's bundle by skopeo, charts by Helm, signatures and
//! attestations by cosign.

use std::path::Path;

use anyhow::{Context, Result};

use super::evidence::provenance::Sources;
use super::evidence::sbom;
use super::evidence::sign::{Kind, Signer};
use super::parts::charts::Chart;
use super::parts::images::Image;
use super::parts::olm::Bundle;
use super::plan::{self, Plan};
use super::skopeo;
use crate::{say, shell};

/// Where charts are in the registry.
const CHARTS: &str = "millrace/charts";

/// Something in a registry that users pull.
#[derive(Debug, Clone)]
pub(crate) struct Published {
    /// Without the registry.
    pub(crate) repository: String,
    pub(crate) tag: String,
    pub(crate) digest: String,
    /// Digests of the platforms' images, by architecture; none of a chart or OLM's bundle.
    pub(crate) platforms: Vec<(&'static str, String)>,
}

impl Published {
    /// By digest, in a registry.
    pub(crate) fn by_digest(&self, registry: &str) -> String {
        format!("{registry}/{}@{}", self.repository, self.digest)
    }
}

/// Pushes images, and gives what they are there.
pub(crate) fn images(images: &[Image], registry: &str) -> Result<Vec<Published>> {
    images
        .iter()
        .map(|image| {
            push(&image.index.archive, &format!("{}:{}", image.repository, image.tag), registry)?;
            let digests = image.index.images.iter();
            Ok(Published {
                repository: image.repository.clone(),
                tag: image.tag.clone(),
                digest: image.index.digest.clone(),
                platforms: digests
                    .map(|(it, digest)| (it.architecture(), digest.clone()))
                    .collect(),
            })
        })
        .collect()
}

/// Pushes OLM's bundle, and gives what it is there.
pub(crate) fn olm(bundle: &Bundle, registry: &str) -> Result<Published> {
    let Bundle { repository, tag, image } = bundle;
    push(&image.archive, &format!("{repository}:{tag}"), registry)?;
    Ok(Published {
        repository: repository.clone(),
        tag: tag.clone(),
        digest: image.digest.clone(),
        platforms: Vec::new(),
    })
}

fn push(archive: &Path, name: &str, registry: &str) -> Result<()> {
    say::step(&format!("pushing {name}"));
    let from = format!("oci-archive:{}", archive.display());
    skopeo::copy(&from, &format!("docker://{registry}/{name}"))
}

/// Pushes charts, and gives what they are there.
pub(crate) fn charts(
    plan: &Plan,
    helm: &Path,
    charts: &[Chart],
    registry: &str,
) -> Result<Vec<Published>> {
    let to = format!("oci://{registry}/{CHARTS}");
    charts
        .iter()
        .map(|chart| {
            let archive = chart.archive.to_string_lossy();
            say::step(&format!("pushing the chart {}", chart.name));
            let mut command =
                shell::command(&helm.to_string_lossy(), &["push", &archive, &to, "--plain-http"]);
            let output = command.output().context("helm could not be started")?;
            // Helm says it on standard error.
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            let said = shell::said("helm push", &output)? + &text;
            Ok(Published {
                repository: format!("{CHARTS}/{}", chart.name),
                tag: plan.version.to_owned(),
                digest: pushed(&said).context("helm push told no digest")?,
                platforms: Vec::new(),
            })
        })
        .collect()
}

/// The digest that Helm says.
fn pushed(said: &str) -> Option<String> {
    said.lines().find_map(|line| line.strip_prefix("Digest: ")).map(|it| it.trim().to_owned())
}

/// Signs everything that was pushed, and attaches bills of materials and provenance.
pub(crate) fn signatures(
    plan: &Plan,
    signer: &Signer,
    registry: &str,
    images: &[Image],
    published: &[Published],
    sources: &Sources,
) -> Result<()> {
    let provenance = plan.below("provenance")?.join("predicate.json");
    plan::write(&provenance, plan::pretty(&sources.predicate())?.as_bytes())?;
    for it in published {
        say::step(&format!("signing {}:{}", it.repository, it.tag));
        let reference = it.by_digest(registry);
        signer.sign(&reference, &format!("{}/{}", plan.registry, it.repository))?;
        signer.attest(Kind::Provenance, &reference, &provenance)?;
    }
    for image in images {
        for ((platform, spec), (_, digest)) in image.specs.iter().zip(&image.index.images) {
            let of = (image.crate_name, image.features);
            let bill = sbom::of(plan, of, *platform, Some(spec))?;
            let name = format!("{}-{}.cdx.json", image.file_name(), platform.architecture());
            let path = plan.below("sbom")?.join(name);
            sbom::write(&path, &bill)?;
            let reference = format!("{registry}/{}@{digest}", image.repository);
            signer.attest(Kind::Bill, &reference, &path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::pushed;

    /// Scenario: what Helm prints after a push. Guarantee: its digest.
    #[test]
    fn a_pushed_chart_has_a_digest() {
        let said = "Pushed: 127.0.0.1:5000/millrace/charts/millrace:0.1.0\nDigest: sha256:0a\n";
        assert_eq!(pushed(said).as_deref(), Some("sha256:0a"));
        assert_eq!(pushed("Error: no\n"), None);
    }
}
