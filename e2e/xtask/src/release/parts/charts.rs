//! The charts of a release: with the digests of its images in their values, packaged by Helm.
//!
//! Helm writes the time of day into archives, so each is packed anew without.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use millrace_stack::image::{Layer, gzip};

use super::images::Image;
use crate::release::plan::{self, Plan};
use crate::{say, shell};

/// The lines of values.yaml that a release fills in.
const OPERATOR_DIGEST: &str = "  digest: \"\"\n";
const COLLECTOR_DIGESTS: &str = "  digests: {}\n";
/// A chart of ours has under a megabyte.
const CHART_BYTES: u64 = 64 << 20;

/// A packaged chart.
#[derive(Debug)]
pub(crate) struct Chart {
    pub(crate) name: &'static str,
    pub(crate) archive: PathBuf,
}

/// Packages both.
pub(crate) fn package(plan: &Plan, helm: &Path, images: &[Image]) -> Result<Vec<Chart>> {
    let scratch = tempfile::tempdir().context("no temporary folder")?;
    let folder = plan.below("charts")?;
    let mut charts = Vec::new();
    for name in ["millrace-crds", "millrace"] {
        let copy = scratch.path().join(name);
        copy_tree(&shell::root().join("charts").join(name), &copy)?;
        if name == "millrace" {
            let values = copy.join("values.yaml");
            let text = String::from_utf8(plan::read(&values)?).context("values.yaml is no text")?;
            plan::write(&values, stamped(&text, images)?.as_bytes())?;
        }
        let (helm, copy) = (helm.to_string_lossy(), copy.to_string_lossy());
        shell::output(&helm, &["lint", "--quiet", &copy])?;
        let destination = scratch.path().to_string_lossy();
        shell::output(&helm, &["package", &copy, "--destination", &destination])?;
        let file = format!("{name}-{}.tgz", plan.version);
        let archive = folder.join(&file);
        plan::write(&archive, &repacked(&plan::read(&scratch.path().join(&file))?)?)?;
        say::step(&format!("chart {file}"));
        charts.push(Chart { name, archive });
    }
    Ok(charts)
}

fn stamped(values: &str, images: &[Image]) -> Result<String> {
    let mut operator = None;
    let mut collectors = BTreeMap::new();
    for image in images {
        if image.repository.ends_with("/operator") {
            operator = Some(image.index.digest.clone());
        } else {
            collectors.insert(image.tag.clone(), image.index.digest.clone());
        }
    }
    let operator = operator.context("a release has an image of the operator")?;
    stamp(values, &operator, &collectors)
}

/// The values with the digests in them.
fn stamp(values: &str, operator: &str, collectors: &BTreeMap<String, String>) -> Result<String> {
    for line in [OPERATOR_DIGEST, COLLECTOR_DIGESTS] {
        if values.matches(line).count() != 1 {
            bail!("charts/millrace/values.yaml has to have the line {:?} once", line.trim_end());
        }
    }
    let entries: String =
        collectors.iter().map(|(tag, digest)| format!("    {tag}: {digest}\n")).collect();
    Ok(values
        .replace(OPERATOR_DIGEST, &format!("  digest: {operator}\n"))
        .replace(COLLECTOR_DIGESTS, &format!("  digests:\n{entries}")))
}

fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    let copying = || format!("cannot copy {}", from.display());
    fs::create_dir_all(to).with_context(copying)?;
    for entry in fs::read_dir(from).with_context(copying)? {
        let entry = entry.with_context(copying)?;
        let target = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy_tree(&entry.path(), &target)?,
            false => fs::copy(entry.path(), &target).map(drop).with_context(copying)?,
        }
    }
    Ok(())
}

/// The same files in an archive without times and owners. Helm's archives are compressed by gzip,
/// which the system's program undoes.
fn repacked(archive: &[u8]) -> Result<Vec<u8>> {
    let scratch = tempfile::tempdir().context("no temporary folder")?;
    let packed = scratch.path().join("chart.tar.gz");
    plan::write(&packed, archive)?;
    shell::output("gzip", &["--decompress", &packed.to_string_lossy()])?;
    let plain = plan::read(&scratch.path().join("chart.tar"))?;
    let mut tar = tar::Archive::new(plain.as_slice());
    let mut layer = Layer::new();
    for entry in tar.entries().context("Helm's archive is no tar")? {
        let entry = entry.context("Helm's archive is no tar")?;
        let path = entry.path().context("Helm's archive is no tar")?.to_string_lossy().into_owned();
        let mut bytes = Vec::new();
        entry.take(CHART_BYTES).read_to_end(&mut bytes).context("Helm's archive is no tar")?;
        layer.file(&path, 0o644, &bytes);
    }
    Ok(gzip(&layer.finish()?)?)
}

#[cfg(test)]
mod tests {
    use super::{BTreeMap, stamp};

    /// Scenario: the chart's own values. Guarantee: both kinds of digests get into them, and nothing
    /// else changes; values without a place for them are refused.
    #[test]
    fn the_charts_values_have_a_place_for_digests() {
        let values =
            std::fs::read_to_string(crate::shell::root().join("charts/millrace/values.yaml"));
        let values = values.unwrap();
        let collectors = BTreeMap::from([("0.1.0-system".to_owned(), "sha256:02".to_owned())]);
        let stamped = stamp(&values, "sha256:01", &collectors).unwrap();
        assert!(stamped.contains("\n  digest: sha256:01\n"));
        assert!(stamped.contains("\n  digests:\n    0.1.0-system: sha256:02\n"));
        assert_eq!(stamped.lines().count(), values.lines().count() + 1);
        assert!(stamp("a: 1\n", "sha256:01", &collectors).is_err());
    }
}
