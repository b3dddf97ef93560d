//! `xtask argocd`: Argo CD, then Flux, sync our charts and pipelines from a local repository, in a
//! cluster of their own, and tests look at what they do. Apart from `xtask test-all`, since both are
//! built from their Go modules. The stack must be down before, and is down after: the tests delete
//! what they install. With `--keep` it stays up, for looking: `make test ONLY=gitops::` runs again
//! then.

use anyhow::Result;
use millrace_stack::Stack;
use millrace_stack::argocd::ArgoCd;
use millrace_stack::flux::Flux;

use crate::cluster::stack::Alone;
use crate::{say, test};

/// Which tests run, and on what.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Only tests whose name contains this.
    #[arg(long)]
    only: Option<String>,
    #[command(flatten)]
    alone: Alone,
}

/// Brings up what the tests need, runs them, and removes it.
pub(crate) fn run(options: &Options) -> Result<()> {
    let only = options.only.as_deref();
    options.alone.run(|| Ok(()), |stack, ()| sync(stack, only))
}

fn sync(stack: &Stack, only: Option<&str>) -> Result<()> {
    ArgoCd::of(stack).start(&say::progress())?;
    Flux::of(stack).start(&say::progress())?;
    test::run_module("gitops", only, &[])
}
