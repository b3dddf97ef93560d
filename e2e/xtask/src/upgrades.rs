//! `xtask upgrades`: an earlier commit's charts and images on the local stack, then these, then
//! back, under load. Apart from `xtask test`, since the other commit is built first. The stack must
//! be down before, and is down after. With `--keep` it stays up, for looking.

use anyhow::{Result, bail};
use millrace_stack::Stack;

use crate::build::{self, Binaries, Collectors};
use crate::commit::{self, Built, Wanted};
use crate::{say, shell};

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
    /// Take this tree's binaries of an earlier build.
    #[arg(long)]
    no_build: bool,
    /// Leave the stack up.
    #[arg(long)]
    keep: bool,
}

/// Builds both, brings up the stack, runs the test, and removes the stack.
pub(crate) fn run(options: &Options) -> Result<()> {
    let from = if options.no_build { Binaries::AsTheyAre } else { Binaries::Built };
    let stack = Stack::open()?;
    if stack.status().is_up() {
        bail!("the local stack is up, with what is installed there: `make down` first");
    }
    // What an ended run left.
    stack.down(&say::progress())?;
    let earlier = commit::built(&options.earlier, &WANTED)?;
    let images = build::images(from, Collectors::Default)?;
    let outcome = upgrade(&stack, &earlier, images);
    if !options.keep {
        stack.down(&say::progress())?;
    }
    outcome
}

fn upgrade(stack: &Stack, earlier: &Built, images: Vec<build::Archive>) -> Result<()> {
    // As `e2e/tests/upgrades` asks for them: a pre-release of this version, so an older one.
    let version = format!("{}-earlier", build::VERSION);
    let earlier_images = build::earlier(&earlier.programs, &version)?;
    stack.up(&say::progress())?;
    build::load(stack, earlier_images)?;
    build::load(stack, images)?;
    say::step(&format!("from {} to this tree and back", earlier.commit));
    let test = ["test", "--locked", "--workspace", "--test", "upgrades", "--", "--nocapture"];
    let mut command = shell::command("cargo", &test);
    command.env(CHARTS, earlier.programs.join("charts"));
    shell::run_command(&mut command)
}
