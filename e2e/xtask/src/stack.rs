//! The local stack by itself: up, down, status.

use anyhow::Result;
use millrace_stack::Stack;

use crate::say;

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
