//! `xtask upgrades`: each earlier release's charts and images on the local stack, or a commit's, then
//! these, then back, under load. Apart from `xtask test-all`, since the others are built first. The stack
//! must be down before, and is down after. With `--keep` it stays up, for looking.

use anyhow::Result;
use millrace_stack::Stack;

use crate::build::commit::{self, Built, Wanted};
use crate::cluster::stack::Alone;
use crate::{build, say, test};

/// What is installed of a commit.
const WANTED: Wanted = Wanted {
    folder: "upgrades",
    packages: &[
        &["-p", "millrace-operator"],
        &["-p", "millrace-collector", "--no-default-features", "--features", "system"],
    ],
    programs: &["millrace-operator", "millrace-collector"],
    folders: &["charts"],
};

/// What the test reads: where the earlier charts are.
const CHARTS: &str = "MILLRACE_EARLIER_CHARTS";

/// From where, while there is no release: about two days of work.
const NO_RELEASE: &str = "HEAD~100";

/// What is upgraded from.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Earlier commits or tags, with commas between; by itself each release before this version.
    #[arg(long, env = "EARLIER", value_delimiter = ',')]
    earlier: Vec<String>,
    #[command(flatten)]
    alone: Alone,
}

/// From each in turn: builds both, brings up the stack, runs the test, and removes the stack.
pub(crate) fn run(options: &Options) -> Result<()> {
    let all = chosen(&options.earlier, commit::releases()?);
    for (place, earlier) in all.iter().enumerate() {
        say::step(&format!("{} of {}: from {earlier}", place + 1, all.len()));
        let build = || commit::built(earlier, &WANTED);
        options.alone.run(build, |stack, built| upgrade(stack, &built))?;
    }
    Ok(())
}

/// What was asked for; else the releases; else a commit.
fn chosen(asked: &[String], releases: Vec<String>) -> Vec<String> {
    let asked: Vec<String> = asked.iter().filter(|name| !name.is_empty()).cloned().collect();
    match (asked.is_empty(), releases.is_empty()) {
        (false, _) => asked,
        (true, false) => releases,
        (true, true) => vec![NO_RELEASE.to_owned()],
    }
}

fn upgrade(stack: &Stack, earlier: &Built) -> Result<()> {
    // As `e2e/tests/upgrades` asks for them: a pre-release of this version, so an older one.
    let version = format!("{}-earlier", build::VERSION);
    build::load(stack, build::earlier(&earlier.programs, &version)?)?;
    say::step(&format!("from {} to this tree and back", earlier.commit));
    let charts = earlier.programs.join("charts");
    test::run_module("upgrades", None, &[(CHARTS, &charts.to_string_lossy())])
}

#[cfg(test)]
mod tests {
    use super::{NO_RELEASE, chosen};

    /// Scenario: commits asked for, releases that exist, neither. Guarantee: what was asked for, then
    /// every release, then the commit that stands for one.
    #[test]
    fn every_release_is_upgraded_from_unless_others_are_asked_for() {
        let releases = || vec!["v0.1.0".to_owned(), "v0.2.0".to_owned()];
        assert_eq!(chosen(&["a".to_owned(), String::new()], releases()), ["a"]);
        assert_eq!(chosen(&[String::new()], releases()), releases());
        assert_eq!(chosen(&[], Vec::new()), [NO_RELEASE]);
    }
}
