//! Runs other programs in the workspace's root, loudly: a failing one names itself.

use std::path::PathBuf;
use std::process::{Command, Output};

use anyhow::{Context, Result, bail};

/// The workspace's root folder.
pub(crate) fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).map(PathBuf::from).unwrap_or(here)
}

/// What `cargo run` tells this program of its own package. A cargo below it must not pass that on:
/// build scripts (ring's) take another value for a change, and all that depends on them would be
/// compiled again each time somebody calls cargo directly in between.
const OWN_PACKAGE: [&str; 2] = ["CARGO_PKG_", "CARGO_MANIFEST_"];

/// A command that runs in the root.
pub(crate) fn command(program: &str, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(args).current_dir(root());
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if OWN_PACKAGE.iter().any(|prefix| text.starts_with(prefix)) {
            command.env_remove(&name);
        }
    }
    command
}

/// Run to the end, output passed through.
pub(crate) fn run(program: &str, args: &[&str]) -> Result<()> {
    run_command(&mut command(program, args))
}

/// Run a prepared command to the end, output passed through.
pub(crate) fn run_command(command: &mut Command) -> Result<()> {
    let shown = format!("{command:?}").replace('"', "");
    let status = command.status().with_context(|| format!("`{shown}` could not be started"))?;
    if !status.success() {
        bail!("`{shown}` failed ({status})");
    }
    Ok(())
}

/// Run to the end and take its standard output.
pub(crate) fn output(program: &str, args: &[&str]) -> Result<String> {
    let mut command = command(program, args);
    let shown = format!("{command:?}").replace('"', "");
    let output = command.output().with_context(|| format!("`{shown}` could not be started"))?;
    if !output.status.success() {
        bail!("`{shown}` failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{shown}` printed no UTF-8"))
}

/// What a program said, when it succeeded.
pub(crate) fn said(program: &str, output: &Output) -> Result<String> {
    if !output.status.success() {
        bail!("{program} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
