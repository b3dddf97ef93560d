//! `xtask argocd`: Argo CD, then Flux, sync our charts and pipelines from a local repository, in a
//! cluster of their own, and tests look at what they do. Apart from `xtask test`, since both are
//! built from their Go modules. The stack must be down before, and is down after: the tests delete what they install.
//! With `--keep` it stays up, for looking: `cargo test -p millrace-e2e --test gitops` runs again then.

use anyhow::{Result, bail};
use millrace_stack::Stack;
use millrace_stack::argocd::ArgoCd;
use millrace_stack::flux::Flux;

use crate::build::{self, Binaries, Collectors};
use crate::{say, shell};

/// What is otherwise than usual.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Take the binaries of an earlier build.
    #[arg(long)]
    no_build: bool,
    /// Leave the stack up, with Argo CD and Flux in it.
    #[arg(long)]
    keep: bool,
}

/// Brings up what the tests need, runs them, and removes it.
pub(crate) fn run(options: &Options) -> Result<()> {
    let from = if options.no_build { Binaries::AsTheyAre } else { Binaries::Built };
    let stack = Stack::open()?;
    if stack.status().is_up() {
        bail!(
            "the local stack is up: Argo CD would fight over what is installed; `make down` first"
        );
    }
    // What an ended run left.
    stack.down(&say::progress())?;
    let images = build::images(from, Collectors::Default)?;
    let outcome = sync(&stack, images);
    if !options.keep {
        stack.down(&say::progress())?;
    }
    outcome
}

fn sync(stack: &Stack, images: Vec<build::Archive>) -> Result<()> {
    stack.up(&say::progress())?;
    build::load(stack, images)?;
    ArgoCd::of(stack).start(&say::progress())?;
    Flux::of(stack).start(&say::progress())?;
    let test = ["test", "--locked", "--workspace", "--test", "gitops", "--"];
    shell::run("cargo", &[&test[..], &["--test-threads=1", "--nocapture"]].concat())
}
