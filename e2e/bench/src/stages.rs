//! The cost of each stage by itself: the column encoder's own benchmark, run as a program, its JSON
//! lines passed on.

pub(crate) mod lines;

use std::process::Command;

use anyhow::{Context, Result, bail};
use millrace_e2e::binaries;

use crate::case::Size;

/// Runs it and gives its lines, in nanoseconds of CPU time per record on one thread.
pub(crate) fn run(size: Size) -> Result<Vec<String>> {
    let program = binaries::folder().join("examples/columns-bench");
    // Seconds for each stage of each data set: the best of many rounds is kept.
    let seconds = match size {
        Size::Full => "2",
        Size::Quick => "0.5",
    };
    let output = Command::new(&program)
        .args(["--json", "--seconds", seconds])
        .output()
        .with_context(|| format!("{} is not built", program.display()))?;
    if !output.status.success() {
        bail!("columns-bench: {}", String::from_utf8_lossy(&output.stderr));
    }
    let text = String::from_utf8(output.stdout).context("columns-bench printed no text")?;
    Ok(text.lines().filter(|line| line.starts_with('{')).map(str::to_owned).collect())
}
