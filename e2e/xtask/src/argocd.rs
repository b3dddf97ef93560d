//! `xtask argocd`: Argo CD, then Flux, sync our charts and pipelines from a local repository, in a
//! cluster of their own, and tests look at what they do. Apart from `xtask test`, since both are
//! built from their Go modules. The stack must be down before, and is down after: the tests delete
//! what they install. With `--keep` it stays up, for looking: `cargo test -p millrace-e2e --test
//! gitops` runs again then.

use anyhow::Result;
use millrace_stack::Stack;
use millrace_stack::argocd::ArgoCd;
use millrace_stack::flux::Flux;

use crate::stack::Alone;
use crate::{say, shell};

/// Brings up what the tests need, runs them, and removes it.
pub(crate) fn run(options: Alone) -> Result<()> {
    options.run(|| Ok(()), |stack, ()| sync(stack))
}

fn sync(stack: &Stack) -> Result<()> {
    ArgoCd::of(stack).start(&say::progress())?;
    Flux::of(stack).start(&say::progress())?;
    let test = ["test", "--locked", "--workspace", "--test", "gitops", "--"];
    shell::run("cargo", &[&test[..], &["--test-threads=1", "--nocapture"]].concat())
}
