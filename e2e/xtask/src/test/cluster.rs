//! Tests in the local stack's Kubernetes. A stack that wasn't up before is removed again, and its
//! own life cycle is then tested too. What a run left that was ended in the middle is removed
//! first: the cluster would start with that run's objects, and its pods would take the node's
//! processors.

use anyhow::Result;
use millrace_stack::{Stack, audit, chromium};

use super::nextest::{self, Selection};
use super::run_tests;
use super::summary::Summary;
use crate::cluster::install;
use crate::{build, say, shell};

/// Cluster tests wait for pods: five at a time left a fifth of the processors idle.
const SIDE_BY_SIDE: usize = 6;

/// What each change waits for.
pub(super) fn each_change(summary: &mut Summary) -> Result<()> {
    let ignored = &["--run-ignored", "all"];
    let was_up = on_stack(|| {
        let together = run_tests(&Selection::at_a_time("cluster", SIDE_BY_SIDE), summary);
        together.and(run_tests(&Selection::at_a_time("cluster-alone", 1), summary))?;
        // A failed test may not have used the rights that it needs.
        let last = Selection { more: ignored, ..Selection::at_a_time("cluster-last", 1) };
        run_tests(&last, summary)
    })?;
    match was_up {
        true => Ok(()),
        false => {
            let more = ignored;
            run_tests(&Selection { more, ..Selection::at_a_time("life-cycle", 1) }, summary)
        }
    }
}

/// Tests that take minutes each. Where there is a browser, the console is clicked through in it.
pub(crate) fn nightly() -> Result<()> {
    nextest::compile()?;
    build::tested_images()?;
    let mut summary = Summary::default();
    let mut selection = Selection::at_a_time("cluster-nightly", 1);
    match chromium::find() {
        Some(_) => selection.more = &["--run-ignored", "all"],
        None => say::line(&format!("the console is not clicked through: {}", chromium::HINT)),
    }
    let outcome = on_stack(|| run_tests(&selection, &mut summary));
    let tests = nextest::list(&selection)?;
    summary.lines(&tests, "make test-all").iter().for_each(|line| say::line(line));
    say::line(&summary.counts(&tests));
    outcome.map(drop)
}

/// Runs tests with the stack up and the charts installed. Whether it was up before.
fn on_stack(tests: impl FnOnce() -> Result<()>) -> Result<bool> {
    let stack = Stack::open()?;
    let was_up = stack.status().is_up();
    if !was_up {
        stack.down(&say::progress())?;
    }
    stack.up(&say::progress())?;
    audit::clear(stack.paths())?;
    // The stack has built the Helm that renders it.
    shell::run("bash", &["manifests/render", "--check"])?;
    let loaded = build::load(&stack, build::archives_of_tests()?)?;
    install::charts(&stack, &loaded)?;
    let outcome = tests();
    if !was_up {
        stack.down(&say::progress())?;
    }
    outcome.map(|()| was_up)
}
