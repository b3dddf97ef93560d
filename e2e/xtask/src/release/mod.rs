//! `xtask release`: everything that users get, in target/releases/VERSION, tried as they would try
//! it. Publishing is the bundle's own script, run against a real registry (docs/internals/releasing.md).
//!
//! It needs package registries and nothing else from outside. What it must not do: push anywhere but
//! to registries that it starts, on loopback, and stops.

mod emulate;
mod evidence;
mod parts;
mod plan;
mod publish;
mod skopeo;
mod trial;

use std::time::Instant;

use anyhow::{Context, Result};
use millrace_stack::binaries::{Binary, build_one};
use millrace_stack::paths::Paths;
use millrace_stack::registry::Registry;
use millrace_stack::{cosign, krew, prerequisites};

use crate::build::Binaries;
use crate::say;
use evidence::provenance::Sources;
use evidence::sign::Signer;
pub(crate) use plan::Options;
use plan::Plan;

/// Makes a release and tries it.
pub(crate) fn run(options: &Options) -> Result<()> {
    let began = Instant::now();
    let plan = Plan::new(options)?;
    let commit = plan.commit.get(..12).unwrap_or(&plan.commit);
    let changed = if plan.dirty { ", with changes that aren't committed" } else { "" };
    say::step(&format!("{} {} of {commit}{changed}", plan.kind(), plan.version));

    if !options.no_build {
        parts::binaries::can_build(&plan)?;
    }
    let (paths, progress) = (Paths::from_env()?, say::progress());
    prerequisites::install(&[("skopeo", &["/usr/bin/skopeo"])], &progress)?;
    let cosign = cosign::build(&paths, &progress)?;
    let helm = build_one(Binary::Helm, &paths, &progress)?;
    let olm_check = millrace_stack::olm::check(&paths, &progress)?;
    let krew = krew::build(&paths, &progress)?;
    parts::changes::write(&plan, &parts::changes::GIT_CLIFF.path()?)?;

    let from = if options.no_build { Binaries::AsTheyAre } else { Binaries::Built };
    let programs = parts::binaries::build(&plan, from)?;
    let images = parts::images::make(&plan, &programs)?;
    let charts = parts::charts::package(&plan, &helm, &images)?;
    parts::plugin::archives(&plan, &programs)?;
    let olm = parts::olm::make(&plan, &helm, &charts, &images)?;

    let scratch = tempfile::tempdir().context("no temporary folder")?;
    let signer = Signer::new(&cosign, scratch.path(), &plan.folder.join("cosign.pub"))?;
    let sources = Sources::of(&plan, &images)?;
    let registry = Registry::start(&scratch.path().join("registry"), &progress)?;
    let address = registry.address();
    let mut published = publish::images(&images, &address)?;
    published.extend(publish::charts(&plan, &helm, &charts, &address)?);
    published.push(publish::olm(&olm, &address)?);
    publish::signatures(&plan, &signer, &address, &images, &published, &sources)?;
    let (_, bundle) = parts::bundle::make(&plan, &signer, &address, &published, scratch.path())?;
    files(&plan, &signer, &sources)?;

    parts::changes::check(&plan)?;
    trial::verify(&signer, &address, &published)?;
    trial::forgeries(&plan, &signer, &address, &published, scratch.path())?;
    let (mirror, to) = trial::mirrored(&signer, &cosign, &bundle, &published, scratch.path())?;
    trial::charts(&plan, &helm, &to, &published, scratch.path())?;
    trial::olm(&olm_check, &olm, &to, scratch.path())?;
    drop(mirror);
    parts::plugin::installed(&plan, &krew, scratch.path())?;
    emulate::run(&plan, &programs, &images, scratch.path())?;
    if !options.quick && !options.no_build {
        evidence::reproduce::twice(scratch.path())?;
    }
    if signer.is_own {
        say::step("signed with a key of this run: set MILLRACE_RELEASE_KEY for one that lasts");
    }
    say::step(&format!("done in {} s", began.elapsed().as_secs()));
    say::line(&plan.folder.display().to_string());
    Ok(())
}

/// What is about all files: notes, provenance, checksums, and their signatures.
fn files(plan: &Plan, signer: &Signer, sources: &Sources) -> Result<()> {
    plan::write(&plan.folder.join(plan::NOTES), plan.notes.file().as_bytes())?;
    let digests = evidence::checksums::of(&plan.folder)?;
    let statement = plan.below("provenance")?.join("files.intoto.json");
    plan::write(&statement, plan::pretty(&sources.statement(&digests))?.as_bytes())?;
    signer.sign_file(&statement)?;
    let digests = evidence::checksums::of(&plan.folder)?;
    evidence::checksums::write(&plan.folder, &digests)?;
    signer.sign_file(&plan.folder.join(evidence::checksums::FILE))
}
