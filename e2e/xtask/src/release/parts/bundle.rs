//! One file for networks without a way out: images, charts, signatures and attestations as an OCI
//! layout, bills of materials, checksums, and a script that copies all of it into a registry.
//!
//! What is in it is read from the registry that the release was pushed to, so it has what users pull.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use millrace_stack::http;
use serde_json::Value;

use crate::release::evidence::checksums;
use crate::release::evidence::sign::Signer;
use crate::release::plan::{self, CHANGES_FILE, Plan};
use crate::release::publish::Published;
use crate::release::skopeo;
use crate::{say, shell};

const SCRIPT: &str = include_str!("mirror.sh");
const ASK_TIMEOUT: Duration = Duration::from_secs(30);

/// A tag of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Tagged {
    repository: String,
    tag: String,
}

impl Tagged {
    /// Its name in the layout, where slashes and colons mean other things.
    fn name(&self) -> String {
        format!("{}_{}", self.repository.replace('/', "_"), self.tag)
    }
}

/// Makes the bundle; its folder and its file.
pub(crate) fn make(
    plan: &Plan,
    signer: &Signer,
    registry: &str,
    published: &[Published],
    scratch: &Path,
) -> Result<(PathBuf, PathBuf)> {
    let name = format!("millrace-{}-bundle", plan.version);
    let folder = scratch.join(&name);
    std::fs::create_dir_all(&folder).context("no folder for the bundle")?;
    let mut contents = String::new();
    for it in tags(registry, published)? {
        let reference = format!("{registry}/{}:{}", it.repository, it.tag);
        let to = format!("oci:{}:{}", folder.join("layout").display(), it.name());
        skopeo::copy(&format!("docker://{reference}"), &to)?;
        let digest = skopeo::digest_of(&reference)?;
        contents += &format!("{} {} {digest} {}\n", it.repository, it.tag, it.name());
    }
    plan::write(&folder.join("CONTENTS"), contents.as_bytes())?;
    let script = folder.join("mirror.sh");
    plan::write(&script, SCRIPT.replace("@VERSION@", plan.version).as_bytes())?;
    shell::run("chmod", &["755", &script.to_string_lossy()])?;
    plan::write(&folder.join(plan::NOTES), plan.notes.file().as_bytes())?;
    std::fs::copy(plan.folder.join(CHANGES_FILE), folder.join(CHANGES_FILE))
        .with_context(|| format!("cannot copy {}", CHANGES_FILE))?;
    let sbom = plan.folder.join("sbom").to_string_lossy().into_owned();
    shell::run("cp", &["-r", &sbom, &folder.to_string_lossy()])?;
    std::fs::copy(&signer.public, folder.join("cosign.pub")).context("cannot copy the key")?;
    let digests = checksums::of(&folder)?;
    checksums::write(&folder, &digests)?;
    signer.sign_file(&folder.join(checksums::FILE))?;
    let file = plan.folder.join(format!("{name}.tar"));
    let (into, at) = (file.to_string_lossy(), scratch.to_string_lossy());
    let mtime = format!("--mtime=@{}", plan.epoch_seconds);
    let same = ["--sort=name", "--owner=0", "--group=0", "--numeric-owner", &mtime];
    shell::run("tar", &[&same[..], &["-cf", &into, "-C", &at, &name]].concat())?;
    let bytes = std::fs::metadata(&file).context("no bundle")?.len();
    say::step(&format!("bundle {name}.tar: {:.1} MB", bytes as f64 / 1e6));
    Ok((folder, file))
}

/// Every tag in the repositories of a release: cosign keeps signatures under tags of their own.
fn tags(registry: &str, published: &[Published]) -> Result<Vec<Tagged>> {
    let address: SocketAddr = registry.parse().context("the registry's address")?;
    let mut repositories: Vec<&str> = published.iter().map(|it| &*it.repository).collect();
    repositories.sort_unstable();
    repositories.dedup();
    let mut found = Vec::new();
    for repository in repositories {
        let path = format!("/v2/{repository}/tags/list");
        let answer = http::ask(address, "GET", &path, &[], &[], ASK_TIMEOUT)
            .with_context(|| format!("the registry doesn't list {repository}"))?;
        if answer.status != 200 {
            bail!("the registry answers {} to {path}: {}", answer.status, answer.text());
        }
        let list: Value = serde_json::from_slice(&answer.body).context("the list is no JSON")?;
        let tags = list["tags"].as_array().into_iter().flatten();
        let mut tags: Vec<&str> = tags.filter_map(Value::as_str).collect();
        tags.sort_unstable();
        let repository = repository.to_owned();
        found.extend(
            tags.into_iter()
                .map(|tag| Tagged { repository: repository.clone(), tag: tag.to_owned() }),
        );
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;
    use std::process::Command;

    use super::{SCRIPT, Tagged, checksums};

    /// Scenario: a signature's tag. Guarantee: its name in a layout has neither slash nor colon, and
    /// the script says the version where it has a place for it.
    #[test]
    fn names_in_a_layout_are_plain() {
        let tagged = Tagged { repository: "a/b".into(), tag: "sha256-0a.sig".into() };
        assert_eq!(tagged.name(), "a_b_sha256-0a.sig");
        assert!(SCRIPT.contains("--version @VERSION@"));
    }

    /// A bundle of one name, and programs that only write down what they are called with.
    fn stage(folder: &Path) -> std::path::PathBuf {
        let (bundle, programs) = (folder.join("bundle"), folder.join("programs"));
        for made in [&bundle, &programs] {
            std::fs::create_dir_all(made).unwrap();
        }
        std::fs::write(bundle.join("CONTENTS"), "a/b 1 sha256:0a a_b_1\n").unwrap();
        checksums::write(&bundle, &checksums::of(&bundle).unwrap()).unwrap();
        std::fs::write(bundle.join("mirror.sh"), SCRIPT).unwrap();
        for name in ["skopeo", "cosign"] {
            let program = programs.join(name);
            let log = folder.join("called");
            let text = format!("#!/bin/sh\necho {name} \"$@\" >>'{}'\n", log.display());
            std::fs::write(&program, text).unwrap();
            std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        }
        bundle
    }

    fn mirror(folder: &Path) -> (bool, String) {
        let path = format!("{}:{}", folder.join("programs").display(), env!("PATH"));
        let mut command = Command::new("sh");
        command.args(["bundle/mirror.sh", "registry.example/team", "--some-option"]);
        command.current_dir(folder).env("PATH", path).env("MILLRACE_PUBLIC_KEY", "cosign.pub");
        let done = command.output().unwrap().status.success();
        (done, std::fs::read_to_string(folder.join("called")).unwrap_or_default())
    }

    /// Scenario: the script with a key named relative to where it is called, then with a changed
    /// byte. Guarantee: the caller's key is taken, not the bundle's of the same name; options reach
    /// skopeo; and nothing is sent of a changed bundle.
    #[test]
    fn the_script_checks_first_and_with_the_callers_key() {
        let folder = tempfile::tempdir().unwrap();
        let bundle = stage(folder.path());
        let (done, called) = mirror(folder.path());
        assert!(done, "{called}");
        let key = format!("--key {}", folder.path().join("cosign.pub").display());
        assert!(called.contains(&key), "{called}");
        let sent = "--some-option oci:layout:a_b_1 docker://registry.example/team/a/b:1";
        assert!(called.contains(sent), "{called}");

        std::fs::remove_file(folder.path().join("called")).unwrap();
        std::fs::write(bundle.join("CONTENTS"), "a/b 2 sha256:0a a_b_1\n").unwrap();
        let (done, called) = mirror(folder.path());
        assert!(!done && !called.contains("skopeo"), "{called}");
    }
}
