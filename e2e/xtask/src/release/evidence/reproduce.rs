//! Whether a build is the same elsewhere: one program from the committed source in another folder,
//! with a target folder of its own, byte for byte.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use millrace_stack::image::digest;

use crate::build::flags::Folders;
use crate::release::plan;
use crate::{build, say, shell};

/// What is built twice: small, and with C code in it (LZ4, ring).
const CRATE: &str = "millrace-ddl";
const PROGRAM: &str = "clickhouse-ddl";

/// Builds it here and in `scratch`, and compares.
pub(crate) fn twice(scratch: &Path) -> Result<()> {
    let began = Instant::now();
    let elsewhere = scratch.join("another-folder");
    std::fs::create_dir_all(&elsewhere).context("no other folder")?;
    let archive = scratch.join("source.tar");
    let (file, folder) = (archive.to_string_lossy(), elsewhere.to_string_lossy());
    shell::run("git", &["archive", "--format=tar", "--output", &file, "HEAD"])?;
    shell::run("tar", &["-xf", &file, "-C", &folder])?;
    let here = built(&shell::root(), &build::target())?;
    let there = built(&elsewhere, &elsewhere.join("other-target"))?;
    if here != there {
        bail!("{PROGRAM} differs between two folders: {here} and {there}");
    }
    let seconds = began.elapsed().as_secs();
    say::step(&format!("{PROGRAM} built in two folders is {here} ({seconds} s)"));
    Ok(())
}

fn built(source: &Path, target: &Path) -> Result<String> {
    let mut command = shell::command("cargo", &["build", "--release", "--locked", "-p", CRATE]);
    command.current_dir(source);
    Folders::new(target).apply(&mut command);
    shell::run_command(&mut command)?;
    Ok(digest(&plan::read(&target.join("release").join(PROGRAM))?))
}
