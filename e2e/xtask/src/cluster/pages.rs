//! `xtask pages`: commands of pages that need a cluster, typed as the pages have them
//! (`e2e/tests/pages_cluster`). The stack must be down before, since the first page brings it up, and
//! is down after.

use anyhow::{Result, ensure};
use millrace_stack::Stack;

use crate::{build, say, test};

/// Builds what `make demo` doesn't, types the pages, and removes the stack.
pub(crate) fn run() -> Result<()> {
    let stack = Stack::open()?;
    ensure!(
        !stack.status().is_up(),
        "the local stack is up, and the first page brings it up: `make down` first"
    );
    build::plugin()?;
    stack.install(&say::progress())?;
    let outcome = test::run_module("pages_cluster", None, &[]);
    stack.down(&say::progress())?;
    outcome
}
