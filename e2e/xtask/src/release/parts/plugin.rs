//! `kubectl-millrace` as users of kubectl get it: an archive for each platform, and Krew's manifest, by
//! which the real Krew installs it.

use std::path::Path;

use anyhow::{Context, Result, bail};
use millrace_stack::image::{ImageName, ImageSpec, Layer, Platform, digest, gzip};
use serde_json::{Value, json};

use super::binaries::Programs;
use crate::release::evidence::sign::refused;
use crate::release::plan::{self, Plan};
use crate::{say, shell};

const PROGRAM: &str = "kubectl-millrace";
/// The folder of the archives in the release.
const FOLDER: &str = "plugin";
/// Krew's manifest in it.
const MANIFEST: &str = "millrace.yaml";
/// Where archives are downloaded from; whoever publishes a release replaces it.
const ADDRESS: &str = "https://millrace.dev/releases";

/// An archive that was made.
#[derive(Debug)]
struct Archive {
    platform: Platform,
    name: String,
    digest: String,
}

/// Makes the archives and the manifest.
pub(crate) fn archives(plan: &Plan, programs: &[Programs]) -> Result<()> {
    let folder = plan.below(FOLDER)?;
    let license = plan::read(&shell::root().join("LICENSE"))?;
    let mut made = Vec::new();
    for of in programs {
        let named = ImageName::new(&format!("millrace/plugin:{}", plan.version))?;
        let spec = ImageSpec::new(named, &of.plugin)?.stripped();
        let spec = match &of.root {
            Some(root) => spec.foreign(of.platform, root),
            None => spec,
        };
        let name = archive_name(plan.version, of.platform);
        let path = folder.join(&name);
        let mut tar = Layer::new();
        tar.file(PROGRAM, 0o755, &spec.program(&path)?);
        tar.file("LICENSE", 0o644, &license);
        let bytes = gzip(&tar.finish()?)?;
        plan::write(&path, &bytes)?;
        say::step(&format!("{name}: {:.1} MB", bytes.len() as f64 / 1e6));
        made.push(Archive { platform: of.platform, name, digest: digest(&bytes) });
    }
    let manifest = serde_json::to_string_pretty(&manifest(plan.version, &made))
        .context("Krew's manifest is no JSON")?;
    // YAML holds JSON.
    plan::write(&folder.join(MANIFEST), format!("{manifest}\n").as_bytes())
}

fn archive_name(version: &str, platform: Platform) -> String {
    format!("{PROGRAM}-{version}-linux-{}.tar.gz", platform.architecture())
}

/// This machine's archive installed by Krew; with a changed byte Krew must refuse it.
pub(crate) fn installed(plan: &Plan, krew: &Path, scratch: &Path) -> Result<()> {
    let host = Platform::host().context("no archive is made for this machine")?;
    let (folder, root) = (plan.folder.join(FOLDER), scratch.join("krew"));
    let install = |archive: &Path| {
        let mut command = shell::command(&krew.to_string_lossy(), &["install", "--manifest"]);
        command.arg(folder.join(MANIFEST)).arg("--archive").arg(archive);
        command.env("KREW_ROOT", &root).env("KREW_NO_UPGRADE_CHECK", "1");
        shell::said("krew", &command.output().context("Krew could not be started")?).map(drop)
    };
    let archive = folder.join(archive_name(plan.version, host));
    let mut changed = plan::read(&archive)?;
    let middle = changed.len() / 2;
    changed[middle] ^= 1;
    let forged = scratch.join("forged-plugin.tar.gz");
    plan::write(&forged, &changed)?;
    refused("a plugin with a changed byte", &["checksum does not match"], install(&forged))?;
    install(&archive)?;
    let program = root.join("bin").join(PROGRAM);
    let said = shell::output(&program.to_string_lossy(), &["--version"])?;
    if !said.contains(plan.version) {
        bail!("what Krew installed says {said:?}, not {}", plan.version);
    }
    say::step(&format!("Krew installs {}, and refuses a changed byte", said.trim()));
    Ok(())
}

fn manifest(version: &str, archives: &[Archive]) -> Value {
    let platforms: Vec<Value> = archives
        .iter()
        .map(|archive| {
            json!({
                "selector": {"matchLabels": {
                    "os": "linux", "arch": archive.platform.architecture(),
                }},
                "uri": format!("{ADDRESS}/v{version}/{FOLDER}/{}", archive.name),
                "sha256": archive.digest.trim_start_matches("sha256:"),
                "files": [{"from": PROGRAM, "to": "."}, {"from": "LICENSE", "to": "."}],
                "bin": PROGRAM,
            })
        })
        .collect();
    json!({
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "millrace"},
        "spec": {
            "version": format!("v{version}"),
            "homepage": "https://millrace.dev",
            "shortDescription": "See and steer telemetry pipelines of Millrace",
            "description": "Shows the path of records from clients to tables with rates, lag and \
                losses, what is wrong and what to do; plans changes, follows rollouts, reads dead \
                letters, and gathers what support needs. Works with your own rights.",
            "platforms": platforms,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::{Archive, Platform, manifest};

    /// Scenario: archives for two platforms. Guarantee: Krew finds each by its architecture, with a
    /// plain checksum, under a version that begins with v.
    #[test]
    fn krew_finds_the_archive_of_each_platform() {
        let archives = Platform::ALL.map(|platform| Archive {
            platform,
            name: format!("a-{}.tar.gz", platform.architecture()),
            digest: "sha256:0c".into(),
        });
        let manifest = manifest("0.1.0", &archives);
        assert_eq!(manifest["spec"]["version"], "v0.1.0");
        let second = &manifest["spec"]["platforms"][1];
        assert_eq!(second["selector"]["matchLabels"]["arch"], "arm64");
        assert_eq!(second["sha256"], "0c");
        assert!(second["uri"].as_str().unwrap().ends_with("/v0.1.0/plugin/a-arm64.tar.gz"));
    }
}
