//! `xtask check`: what must hold of the tree before anything is tested. It changes nothing.

mod text;
mod walls;

use anyhow::{Result, bail};

use crate::{say, shell};

/// Structure rules, formatting, lints, dependency policy.
pub(crate) fn run() -> Result<()> {
    structure()?;
    say::step("rustfmt");
    shell::run("cargo", &["fmt", "--all", "--check"])?;
    say::step("clippy");
    let clippy = [
        "clippy",
        "--workspace",
        "--all-targets",
        "--locked",
        "--",
        "-D",
        "warnings",
    ];
    shell::run("cargo", &clippy)?;
    say::step("cargo deny (licences, bans, sources)");
    shell::run(
        "cargo",
        &["deny", "--locked", "check", "licenses", "bans", "sources"],
    )
}

/// Structure rules alone.
pub(crate) fn structure() -> Result<()> {
    say::step("structure: crate walls, file heads and lengths, forbidden text");
    let mut broken = walls::broken_rules()?;
    broken.extend(text::broken_rules()?);
    if broken.is_empty() {
        return Ok(());
    }
    for rule in &broken {
        say::error(rule);
    }
    bail!("{} structure rules broken", broken.len())
}
