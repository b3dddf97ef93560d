//! `xtask upgrades`: an earlier commit's charts and images on the local stack, then these, then
//! back, under load. Apart from `xtask test`, since the other commit is built first. The stack must
//! be down before, and is down after. With `--keep` it stays up, for looking.

use anyhow::Result;
use millrace_stack::Stack;

use crate::commit::{self, Built, Wanted};
use crate::stack::Alone;
use crate::{build, say, shell};

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

/// What is upgraded from.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The earlier commit or tag.
    #[arg(long, env = "EARLIER", default_value = "HEAD~100")]
    earlier: String,
    #[command(flatten)]
    alone: Alone,
}

/// Builds both, brings up the stack, runs the test, and removes the stack.
pub(crate) fn run(options: &Options) -> Result<()> {
    let Options { earlier, alone } = options;
    alone.run(|| commit::built(earlier, &WANTED), |stack, built| upgrade(stack, &built))
}

fn upgrade(stack: &Stack, earlier: &Built) -> Result<()> {
    // As `e2e/tests/upgrades` asks for them: a pre-release of this version, so an older one.
    let version = format!("{}-earlier", build::VERSION);
    build::load(stack, build::earlier(&earlier.programs, &version)?)?;
    say::step(&format!("from {} to this tree and back", earlier.commit));
    let test = ["test", "--locked", "--workspace", "--test", "upgrades", "--", "--nocapture"];
    let mut command = shell::command("cargo", &test);
    command.env(CHARTS, earlier.programs.join("charts"));
    shell::run_command(&mut command)
}
