//! `xtask test`: every layer in order, the cheap ones first. Test output passes through as it
//! comes; the last lines say how long each phase took and sum up what the runners counted. A phase
//! that fails ends the run.
//!
//! Nothing is built beside tests: tried at the lowest priority, it made two of them fail that wait
//! for brokers by the second. Unit tests in two runs side by side took 441 instead of some 600 s, and
//! two of them failed that raced; both are mended, others may be left.

use std::io::{BufRead, BufReader};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use millrace_stack::{Stack, chromium};
use serde_json::Value;

use crate::build::{self, Binaries, Collectors};
use crate::tally::{Began, Tally};
use crate::{alerts, chaos, check, first_try, install, keeper_faults, say, shell};

/// The stack's test of its own life cycle: it needs root and the stack down.
const LIFECYCLE: &str = "lifecycle";

/// Tests of the benchmarks and of `keeper-bench` that run release binaries, or an engine.
const WITH_BINARIES: [&str; 3] = ["quick", "suite_stored", "real_inserts"];

/// The e2e files for a cluster.
const CLUSTER: &str = "cluster";
const CLUSTER_ALONE: &str = "cluster_alone";
const CLUSTER_NIGHTLY: &str = "cluster_nightly";
/// The same, with Argo CD in it (`xtask argocd`).
const GITOPS: &str = "gitops";
/// What `xtask upgrades` runs.
const UPGRADES: &str = "upgrades";
/// What `xtask pages` runs.
const PAGES_CLUSTER: &str = "pages_cluster";

/// The slowest files wait for mock brokers and scripted servers: `kafka_source` has 14 s of CPU time
/// and took 150 s on two threads, 67 s on six.
const UNIT_THREADS: &str = "--test-threads=6";
/// Cluster tests wait for pods, and left the processors half idle on three threads.
const CLUSTER_THREADS: &str = "--test-threads=4";
/// Most of an integration test is waiting for a broker or an engine of its own: two threads left a
/// third of the processors idle.
const INTEGRATION_THREADS: &str = "--test-threads=3";

/// A file of tests.
#[derive(Debug)]
struct Suite {
    package: String,
    name: String,
}

/// The phases, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Phase {
    /// Structure, formatting, lints, dependencies.
    Check,
    /// Unit, property and model tests.
    Unit,
    /// Binaries and images.
    Build,
    /// The stack's own tests: broker, engine front.
    Stack,
    /// Integration: real binaries, broker and engine.
    Integration,
    /// Faults under load.
    Faults,
    /// A real Kubernetes.
    Cluster,
}

impl Phase {
    const ALL: [Self; 7] = [
        Self::Check,
        Self::Unit,
        Self::Build,
        Self::Stack,
        Self::Integration,
        Self::Faults,
        Self::Cluster,
    ];

    const fn title(self) -> &'static str {
        match self {
            Self::Check => "checks",
            Self::Unit => "unit, property and model tests",
            Self::Build => "binaries and images",
            Self::Stack => "the stack's own tests: broker, engine front; alerts; `make try`",
            Self::Integration => "integration: real binaries, broker and engine",
            Self::Faults => "faults under load",
            Self::Cluster => "cluster: a real Kubernetes",
        }
    }

    fn run(self, suites: &[Suite], tally: &mut Tally) -> Result<()> {
        match self {
            Self::Check => check::run(),
            Self::Unit => {
                let mut unit = strings(&["--lib", "--bins"]);
                let product = suites.iter().filter(|suite| suite.is_of_product());
                unit.extend(product.flat_map(Suite::arguments));
                cargo_test(&unit, &[UNIT_THREADS], tally)
            }
            Self::Build => build(),
            Self::Stack => {
                let own =
                    |suite: &&Suite| suite.package == "millrace-stack" && suite.name != LIFECYCLE;
                let own: Vec<String> =
                    suites.iter().filter(own).flat_map(Suite::arguments).collect();
                cargo_test(&own, &["--test-threads=2"], tally)?;
                alerts::run()?;
                first_try::run(&first_try::Options::of_a_test())
            }
            Self::Integration => cargo_test(&integration(suites), &[INTEGRATION_THREADS], tally),
            Self::Faults => {
                keeper_faults::test()?;
                chaos::test()
            }
            Self::Cluster => cluster(Tests::OfEachChange, tally),
        }
    }
}

/// Runs every phase from this one on.
pub(crate) fn run(from: Phase) -> Result<()> {
    let started = Instant::now();
    let mut tally = Tally::default();
    let suites = suites()?;
    for phase in Phase::ALL.into_iter().filter(|phase| *phase >= from) {
        say::step(&format!("[{:.0} s] {}", started.elapsed().as_secs_f64(), phase.title()));
        let began = Began::now();
        let outcome = phase.run(&suites, &mut tally);
        tally.phase(phase.title(), began.used());
        if outcome.is_err() {
            tally.times().iter().for_each(|line| say::line(line));
            return outcome;
        }
    }
    tally.times().iter().for_each(|line| say::line(line));
    say::step(&format!("all phases done in {:.0} s", started.elapsed().as_secs_f64()));
    say::line(&tally.counts());
    Ok(())
}

/// The release binaries that tests take, their images, and the programs of the local stack. Linking
/// the third allocator's collector takes minutes: benchmarks and releases do.
fn build() -> Result<()> {
    build::binaries(Collectors::Tested)?;
    build::images(Binaries::AsTheyAre, Collectors::Tested)?;
    Ok(Stack::open()?.install(&say::progress())?)
}

/// Which cluster tests run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tests {
    OfEachChange,
    /// Those that take minutes each.
    Nightly,
}

/// Cluster tests that are too long for each change, with the binaries built first.
pub(crate) fn nightly_cluster() -> Result<()> {
    let mut tally = Tally::default();
    build()?;
    let outcome = cluster(Tests::Nightly, &mut tally);
    tally.times().iter().for_each(|line| say::line(line));
    outcome?;
    say::line(&tally.counts());
    Ok(())
}

/// Cluster tests run on the local stack. One that wasn't up before is removed again, and its own
/// life cycle is then tested too. What a run left that was ended in the middle is removed first:
/// the cluster would start with that run's objects, and its pods would take the node's processors.
fn cluster(tests: Tests, tally: &mut Tally) -> Result<()> {
    let stack = Stack::open()?;
    let was_up = stack.status().is_up();
    if !was_up {
        stack.down(&say::progress())?;
    }
    stack.up(&say::progress())?;
    // The stack has built the Helm that renders it.
    shell::run("bash", &["manifests/render", "--check"])?;
    let archives = build::images(Binaries::AsTheyAre, Collectors::Tested)?;
    let loaded = build::load(&stack, archives)?;
    install::charts(&stack, &loaded)?;
    let outcome = match tests {
        Tests::OfEachChange => cluster_tests(tally),
        Tests::Nightly => nightly_tests(tally),
    };
    if was_up {
        return outcome;
    }
    stack.down(&say::progress())?;
    outcome?;
    if tests == Tests::Nightly {
        return Ok(());
    }
    let lifecycle = strings(&["--test", LIFECYCLE]);
    cargo_test(&lifecycle, &["--ignored", "--test-threads=1"], tally)
}

/// One file of tests that mostly wait, side by side, and one of tests that need the cluster alone.
fn cluster_tests(tally: &mut Tally) -> Result<()> {
    let side_by_side = cargo_test(&strings(&["--test", CLUSTER]), &[CLUSTER_THREADS], tally);
    side_by_side.and(one_by_one(CLUSTER_ALONE, tally))
}

/// Where there is a browser, the console is clicked through in it.
fn nightly_tests(tally: &mut Tally) -> Result<()> {
    let select = strings(&["--test", CLUSTER_NIGHTLY]);
    if chromium::find().is_some() {
        return cargo_test(&select, &["--test-threads=1", "--include-ignored"], tally);
    }
    say::line(&format!("the console is not clicked through, no Chromium: {}", chromium::HINT));
    one_by_one(CLUSTER_NIGHTLY, tally)
}

fn one_by_one(program: &str, tally: &mut Tally) -> Result<()> {
    cargo_test(&strings(&["--test", program]), &["--test-threads=1"], tally)
}

/// Every test file of the workspace. All phases select from the whole workspace, so that cargo
/// builds each dependency once, with one set of features.
fn suites() -> Result<Vec<Suite>> {
    let text = shell::output("cargo", &["metadata", "--format-version", "1", "--no-deps"])?;
    let metadata: Value = serde_json::from_str(&text).context("cargo metadata is not JSON")?;
    let mut suites = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        for target in package["targets"].as_array().into_iter().flatten() {
            let name = target["name"].as_str().unwrap_or_default().to_owned();
            if target["kind"][0] == "test" {
                let package = package["name"].as_str().unwrap_or_default().to_owned();
                suites.push(Suite { package, name });
            }
        }
    }
    Ok(suites)
}

/// The e2e files that need no cluster, and what else runs release binaries. What is compared with
/// others' programs has a task of its own (`xtask conformance`).
fn integration(suites: &[Suite]) -> Vec<String> {
    let others = suites.iter().filter(|suite| {
        let is_e2e = suite.package == "millrace-e2e"
            && !suite.name.starts_with("conformance_")
            && !matches!(
                &*suite.name,
                CLUSTER | CLUSTER_ALONE | CLUSTER_NIGHTLY | GITOPS | UPGRADES | PAGES_CLUSTER
            );
        is_e2e || suite.takes_binaries()
    });
    others.flat_map(Suite::arguments).collect()
}

impl Suite {
    fn is_of_product(&self) -> bool {
        !matches!(&*self.package, "millrace-e2e" | "millrace-stack") && !self.takes_binaries()
    }

    fn takes_binaries(&self) -> bool {
        WITH_BINARIES.contains(&&*self.name)
    }

    fn arguments(&self) -> [String; 2] {
        ["--test".to_owned(), self.name.clone()]
    }
}

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn cargo_test(select: &[String], runner: &[&str], tally: &mut Tally) -> Result<()> {
    // A phase runs to its end: one failure must not hide the next.
    let mut args = vec!["test", "--locked", "--workspace", "--no-fail-fast"];
    args.extend(select.iter().map(String::as_str));
    args.push("--");
    args.extend(runner);
    // One pipe for both: cargo names the file on one, the runner counts its tests on the other.
    let (output, writer) = std::io::pipe().context("no pipe for cargo's output")?;
    let copy = writer.try_clone().context("no pipe for cargo's output")?;
    let mut child = {
        let mut command = shell::command("cargo", &args);
        command.stdout(writer).stderr(copy);
        command.spawn().context("cargo could not be started")?
    };
    for line in BufReader::new(output).lines() {
        let line = line.context("cargo's output is no UTF-8")?;
        say::line(&line);
        tally.add(&line);
    }
    let status = child.wait().context("cargo did not end")?;
    if !status.success() {
        bail!("`cargo {}` failed ({status})", args.join(" "));
    }
    Ok(())
}
