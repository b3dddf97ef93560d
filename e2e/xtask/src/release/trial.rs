//! A release tried as its users would: everything checked by the public key alone, the bundle copied
//! into a second, empty registry and checked there, charts pulled and rendered from it, OLM's bundle
//! pulled from it and checked; and what isn't as it was signed must be refused.

use std::path::Path;

use anyhow::{Context, Result, bail};
use millrace_stack::image::{ImageName, ImageSpec, write_index};
use millrace_stack::registry::Registry;
use serde_json::Value;

use super::evidence::checksums;
use super::evidence::sign::{Kind, Signer, refused};
use super::parts::olm::{Bundle, KUBERNETES, NAMESPACE};
use super::plan::{self, Plan};
use super::publish::Published;
use super::skopeo;
use crate::{say, shell};

/// cosign's words for a signature that is not the key's.
const WRONG_KEY: &[&str] = &["invalid signature", "no matching attestations"];

/// Checks signatures and statements of everything in a registry.
pub(crate) fn verify(signer: &Signer, registry: &str, published: &[Published]) -> Result<()> {
    for it in published {
        let reference = it.by_digest(registry);
        signer.verify(&reference)?;
        signer.verify_attestation(Kind::Provenance, &reference)?;
        for (_, digest) in &it.platforms {
            let of = format!("{registry}/{}@{digest}", it.repository);
            signer.verify_attestation(Kind::Bill, &of)?;
        }
        let digest = skopeo::digest_of(&format!("{registry}/{}:{}", it.repository, it.tag))?;
        if digest != it.digest {
            bail!("{}:{} is {digest} in {registry}, not {}", it.repository, it.tag, it.digest);
        }
    }
    say::step(&format!("signatures, provenance and bills of {} verified", published.len()));
    Ok(())
}

/// Another key, another image under a signed tag, a changed byte in a file: none may pass.
pub(crate) fn forgeries(
    plan: &Plan,
    signer: &Signer,
    registry: &str,
    published: &[Published],
    scratch: &Path,
) -> Result<()> {
    let stranger = signer.stranger(scratch)?;
    let first = published.first().context("nothing was published")?;
    let reference = first.by_digest(registry);
    refused("another key", WRONG_KEY, stranger.verify(&reference))?;
    let provenance = stranger.verify_attestation(Kind::Provenance, &reference);
    refused("another key's provenance", WRONG_KEY, provenance)?;

    let sums = plan.folder.join(checksums::FILE);
    signer.verify_file(&sums)?;
    let forged = scratch.join(checksums::FILE);
    let mut bytes = plan::read(&sums)?;
    if let Some(byte) = bytes.first_mut() {
        *byte ^= 1;
    }
    plan::write(&forged, &bytes)?;
    let signature = plan::read(&plan.folder.join(format!("{}.sig", checksums::FILE)))?;
    plan::write(&scratch.join(format!("{}.sig", checksums::FILE)), &signature)?;
    refused("a changed byte of SHA256SUMS", WRONG_KEY, signer.verify_file(&forged))?;

    // Another program under an operator's name: nobody has signed its digest.
    let name = ImageName::new(&format!("millrace/operator:{}-forged", plan.version))?;
    let other = ImageSpec::new(name.clone(), Path::new("/bin/true"))?;
    let other = write_index(&scratch.join("forged.tar"), &name, &[other])?;
    let from = format!("oci-archive:{}", other.archive.display());
    let tag = format!("{registry}/forged/operator:{}", plan.version);
    skopeo::copy(&from, &format!("docker://{tag}"))?;
    refused("an image that nobody signed", &["no signatures found"], signer.verify(&tag))?;
    say::step("another key, a changed byte and an unsigned image were refused");
    Ok(())
}

/// The bundle into an empty registry, by its own script; then checked there. One with a changed byte
/// must not get that far.
pub(crate) fn mirrored(
    signer: &Signer,
    cosign: &Path,
    bundle: &Path,
    published: &[Published],
    scratch: &Path,
) -> Result<(Registry, String)> {
    let folder = scratch.join("unpacked");
    std::fs::create_dir_all(&folder).context("no folder to unpack into")?;
    let (bundle, at) = (bundle.to_string_lossy(), folder.to_string_lossy());
    shell::run("tar", &["-xf", &bundle, "-C", &at])?;
    let inner = std::fs::read_dir(&folder)?.next().context("the bundle is empty")??.path();
    let registry = Registry::start(&scratch.join("mirror"), &say::progress())?;
    let address = registry.address();
    let to = format!("{address}/inside");
    let run = |to: &str| {
        let script = inner.join("mirror.sh");
        let mut command = shell::command("sh", &[&script.to_string_lossy(), to]);
        command.arg("--dest-tls-verify=false").env("MILLRACE_PUBLIC_KEY", &signer.public);
        let path = std::env::var("PATH").unwrap_or_default();
        let tools = cosign.parent().context("cosign has no folder")?;
        command.env("PATH", format!("{}:{path}", tools.display()));
        shell::said("mirror.sh", &command.output().context("mirror.sh could not be started")?)
    };
    let said = run(&to)?;
    say::step(&format!("the bundle is in an empty registry: {} names", said.matches(&to).count()));
    verify(signer, &to, published)?;

    let blob = largest(&inner.join("layout"))?;
    let kept = plan::read(&blob)?;
    let mut changed = kept.clone();
    let middle = changed.len() / 2;
    changed[middle] ^= 1;
    plan::write(&blob, &changed)?;
    let outcome = run(&format!("{address}/changed")).map(drop);
    refused("a bundle with a changed byte", &["a file isn't what was released"], outcome)?;
    plan::write(&blob, &kept)?;
    say::step("a bundle with a changed byte was refused");
    Ok((registry, to))
}

fn largest(folder: &Path) -> Result<std::path::PathBuf> {
    let files = checksums::of(folder)?;
    let size = |name: &String| std::fs::metadata(folder.join(name)).map_or(0, |it| it.len());
    let name = files.keys().max_by_key(|name| size(name)).context("the layout is empty")?;
    Ok(folder.join(name))
}

/// Both charts pulled from a registry and rendered; the operator's names what was signed, by digest.
pub(crate) fn charts(
    plan: &Plan,
    helm: &Path,
    registry: &str,
    published: &[Published],
    scratch: &Path,
) -> Result<()> {
    let helm = helm.to_string_lossy();
    for name in ["millrace-crds", "millrace"] {
        let chart = format!("oci://{registry}/millrace/charts/{name}");
        let from = [&*chart, "--version", plan.version, "--plain-http"];
        let into = scratch.to_string_lossy();
        shell::output(&helm, &[&["pull"][..], &from, &["--destination", &into]].concat())?;
        let operator = format!(
            "image.repository={registry}/millrace/operator,\
             collector.imageRepository={registry}/millrace/collector"
        );
        let set = ["--kube-version", KUBERNETES, "--namespace", NAMESPACE, "--set", &operator];
        let values = if name == "millrace" { &set[..] } else { &set[..2] };
        let rendered = shell::output(&helm, &[&["template", name], &from[..], values].concat())?;
        if name == "millrace-crds" {
            continue;
        }
        for image in published.iter().filter(|it| !it.platforms.is_empty()) {
            let wanted = match image.repository.ends_with("/operator") {
                true => format!("{registry}/{}:{}@{}", image.repository, image.tag, image.digest),
                false => format!("--collector-digest={}={}", image.tag, image.digest),
            };
            if !rendered.contains(&wanted) {
                bail!("the chart from {registry} doesn't render {wanted}");
            }
        }
    }
    say::step("charts pulled by oci:// name each image by its digest");
    Ok(())
}

/// OLM's bundle pulled from a registry and checked by its own checks; without one of its definitions
/// they must refuse it.
pub(crate) fn olm(check: &Path, bundle: &Bundle, registry: &str, scratch: &Path) -> Result<()> {
    let (pulled, files) = (scratch.join("olm-image"), scratch.join("olm"));
    std::fs::create_dir_all(&files).context("no folder for OLM's bundle")?;
    let digest = &bundle.image.digest;
    let from = format!("docker://{registry}/{}@{digest}", bundle.repository);
    skopeo::copy(&from, &format!("dir:{}", pulled.display()))?;
    let manifest: Value = serde_json::from_slice(&plan::read(&pulled.join("manifest.json"))?)
        .context("the manifest is no JSON")?;
    let layer = manifest["layers"][0]["digest"].as_str().context("the image has no layer")?;
    let layer = pulled.join(layer.trim_start_matches("sha256:"));
    let (layer, at) = (layer.to_string_lossy(), files.to_string_lossy());
    shell::run("tar", &["-xzf", &layer, "-C", &at])?;
    let check = check.to_string_lossy();
    let checked = || shell::output(&check, &[&at, KUBERNETES]).map(drop);
    checked().context("OLM's checks refuse the bundle")?;

    let definition = files.join("manifests/edgepools.millrace.dev.customresourcedefinition.yaml");
    std::fs::remove_file(&definition)
        .with_context(|| format!("cannot remove {}", definition.display()))?;
    refused("a bundle without a definition", &["not found in bundle"], checked())?;
    say::step("OLM's checks pass the bundle, and refuse it without one of its definitions");
    Ok(())
}
