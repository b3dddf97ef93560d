//! The local stack by itself: up, down, status; and new, for a task that has it alone.

use anyhow::{Result, ensure};
use millrace_stack::Stack;

use crate::build::{self, Archive, Binaries, Collectors};
use crate::say;

/// Options of a task that has the stack alone.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Alone {
    /// Take the binaries of an earlier build.
    #[arg(long)]
    no_build: bool,
    /// Leave the stack up, with what is installed there.
    #[arg(long)]
    keep: bool,
}

/// Start it, or go on from wherever it is.
pub(crate) fn up() -> Result<()> {
    let stack = Stack::open()?;
    stack.up(&say::progress())?;
    say::line(&stack.summary());
    Ok(())
}

/// Remove it.
pub(crate) fn down() -> Result<()> {
    Ok(Stack::open()?.down(&say::progress())?)
}

/// What runs.
pub(crate) fn status() -> Result<()> {
    say::line(&Stack::open()?.status().to_string());
    Ok(())
}

impl Alone {
    /// Does what `prepare` does, builds the images, brings up a new stack with the images, does
    /// `work` on it, and removes it. One that is up is refused: what is installed there would
    /// disturb the work.
    pub(crate) fn run<T>(
        self,
        prepare: impl FnOnce() -> Result<T>,
        work: impl FnOnce(&Stack, T) -> Result<()>,
    ) -> Result<()> {
        let from = if self.no_build { Binaries::AsTheyAre } else { Binaries::Built };
        let stack = Stack::open()?;
        ensure!(
            !stack.status().is_up(),
            "the local stack is up, with what is installed there: `make down` first"
        );
        // What an ended run left.
        stack.down(&say::progress())?;
        let prepared = prepare()?;
        let images = build::images(from, Collectors::Default)?;
        let outcome = on_new(&stack, images, |stack| work(stack, prepared));
        if !self.keep {
            stack.down(&say::progress())?;
        }
        outcome
    }
}

fn on_new(
    stack: &Stack,
    images: Vec<Archive>,
    work: impl FnOnce(&Stack) -> Result<()>,
) -> Result<()> {
    stack.up(&say::progress())?;
    build::load(stack, images)?;
    work(stack)
}
