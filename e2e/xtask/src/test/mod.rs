//! `xtask test`, `test-all` and `flaky`. Two tiers, each a superset of the one before it: what every
//! change waits for, and what CI runs. Everything is compiled once, in one profile with one choice
//! of features: the tests, and the programs and images that they run.
//!
//! A failing test does not end its phase, nor does a failing phase end the run: the last lines name
//! all that failed. Only what can't be compiled ends it.

mod changed;
mod cluster;
mod faults;
mod nextest;
mod server;
mod summary;

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use millrace_stack::binaries::{Binary, build_one};
use millrace_stack::paths::Paths;

use crate::{alerts, build, check, first_try, say};
use nextest::Selection;
use summary::{Began, Summary};

pub(crate) use cluster::nightly as nightly_cluster;
pub(crate) use nextest::compile;
pub(crate) use server::{Options as Servers, run as run_on_servers};

/// What `make test` runs: no root, no cluster.
const QUICK: &str = "default";
/// That, and what takes a broker, an engine or a ZooKeeper of its own for each test.
const ALL: &str = "all";
/// Every test there is, for one by name.
const ANY: &str = "any";
/// How long a simulation tries seeds in `make test-all`, unless its count is given: four times what
/// `make test` waits for.
const SEED_SECONDS: (&str, &str) = ("MILLRACE_SEED_SECONDS", "20");
/// What property tests draw their cases from.
const CASES_SEED: &str = "PROPTEST_RNG_SEED";
const SECONDS_PER_DAY: u64 = 86_400;
/// Runs of each test by `make flaky`.
const FLAKY_RUNS: u32 = 20;

/// What of the tests runs.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Only what the change since the main branch reaches.
    #[arg(long)]
    changed: bool,
    /// Only tests whose path contains this, of all tiers.
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
}

/// Which tests run again and again.
#[derive(Debug, clap::Args)]
pub(crate) struct Flaky {
    /// Tests whose path contains this.
    #[arg(long, value_name = "NAME")]
    only: String,
    /// How often each runs.
    #[arg(long, default_value_t = FLAKY_RUNS)]
    runs: u32,
}

/// The phases of `test-all`, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Phase {
    /// Structure, formatting, lints, dependencies.
    Check,
    /// Tests, programs and images.
    Compile,
    /// Unit, property and model tests; real broker and engine.
    Tests,
    /// The chart's alerts and `make try`.
    Tried,
    /// Faults under load.
    Faults,
    /// A real Kubernetes.
    Cluster,
}

impl Phase {
    const ALL: [Self; 6] =
        [Self::Check, Self::Compile, Self::Tests, Self::Tried, Self::Faults, Self::Cluster];

    const fn title(self) -> &'static str {
        match self {
            Self::Check => "checks",
            Self::Compile => "compiling tests, programs and images",
            Self::Tests => "tests without a cluster",
            Self::Tried => "alerts; `make try`",
            Self::Faults => "faults under load",
            Self::Cluster => "cluster: a real Kubernetes",
        }
    }

    fn run(self, summary: &mut Summary) -> Result<()> {
        match self {
            Self::Check => check::run(),
            Self::Compile => {
                nextest::compile()?;
                build::tested_images()?;
                // Tests of the chart run it, ten at a time.
                build_one(Binary::Helm, &Paths::from_env()?, &say::progress())?;
                Ok(())
            }
            Self::Tests => {
                let seed = choose_cases();
                let variables = &[SEED_SECONDS, (CASES_SEED, &seed)];
                run_tests(&Selection { variables, ..Selection::of(ALL) }, summary)
            }
            Self::Tried => {
                alerts::run()?;
                first_try::run(&first_try::Options::of_a_test())
            }
            Self::Faults => faults::run(summary),
            Self::Cluster => cluster::each_change(summary),
        }
    }
}

/// The first tier, or a part of the tests.
pub(crate) fn run(options: &Options) -> Result<()> {
    let Options { changed, only } = options;
    let (profile, filter) = match only {
        Some(name) => (ANY, Some(format!("test({name})"))),
        None if *changed => (QUICK, changed::reached()?.filter()),
        None => (QUICK, None),
    };
    let mut run = Run::begin();
    run.phase(Phase::Compile.title(), |_| nextest::compile())?;
    let seed = choose_cases();
    let variables = &[(CASES_SEED, &*seed)];
    let selection = Selection { filter, variables, ..Selection::of(profile) };
    // A failure is in the summary.
    let _ = run.phase(Phase::Tests.title(), |summary| run_tests(&selection, summary));
    run.end("make test-all, make nightly")
}

/// The second tier, from this phase on.
pub(crate) fn run_all(from: Phase) -> Result<()> {
    let mut run = Run::begin();
    for phase in Phase::ALL.into_iter().filter(|phase| *phase >= from) {
        let outcome = run.phase(phase.title(), |summary| phase.run(summary));
        if let (Err(error), Phase::Compile) = (outcome, phase) {
            return Err(error);
        }
    }
    run.end("make nightly, make conformance, make argocd, make upgrades")
}

/// Chooses the cases of property tests: the same everywhere on one day, so that what passed here
/// fails nowhere else by chance, and others tomorrow. Each test still stores what it finds.
fn choose_cases() -> String {
    let seed = std::env::var(CASES_SEED).unwrap_or_else(|_| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        (now.as_secs() / SECONDS_PER_DAY).to_string()
    });
    say::step(&format!("property tests draw their cases from {CASES_SEED}={seed}"));
    seed
}

/// Runs chosen tests again and again while the processors are kept busy, and names who fails.
pub(crate) fn flaky(options: &Flaky) -> Result<()> {
    let Flaky { only, runs } = options;
    let mut run = Run::begin();
    run.phase(Phase::Compile.title(), |_| nextest::compile())?;
    let count = runs.to_string();
    let selection = Selection {
        filter: Some(format!("test({only})")),
        more: &["--stress-count", &count],
        ..Selection::of(ANY)
    };
    let _load = Load::begin();
    let _ = run.phase("tests, again and again", |summary| run_tests(&selection, summary));
    run.end("make test-all")
}

/// Runs end-to-end tests that a task of their own prepares: those of a module, one at a time, with
/// what they print, and with these variables.
pub(crate) fn run_module(
    module: &str,
    only: Option<&str>,
    variables: &[(&str, &str)],
) -> Result<()> {
    let module = format!("package(millrace-e2e) & test(/^{module}::/)");
    let filter = only.map_or_else(|| module.clone(), |only| format!("{module} & test({only})"));
    let selection = Selection {
        filter: Some(filter),
        more: &["--no-capture"],
        variables,
        ..Selection::at_a_time(ANY, 1)
    };
    run_tests(&selection, &mut Summary::default())
}

/// A run of phases, and its end.
struct Run {
    started: Instant,
    summary: Summary,
}

impl Run {
    fn begin() -> Self {
        Self { started: Instant::now(), summary: Summary::default() }
    }

    /// Runs a phase. What goes wrong is shown where it does and remembered for the end.
    fn phase(
        &mut self,
        title: &'static str,
        work: impl FnOnce(&mut Summary) -> Result<()>,
    ) -> Result<()> {
        say::step(&format!("[{:.0} s] {title}", self.started.elapsed().as_secs_f64()));
        let began = Began::now();
        let outcome = work(&mut self.summary).with_context(|| format!("{title} failed"));
        self.summary.add_phase(title, began.used(), outcome.is_ok());
        if let Err(error) = &outcome {
            say::error(&format!("{error:#}"));
            self.summary.add_failure(format!("{error:#}"));
        }
        outcome
    }

    fn end(self, elsewhere: &str) -> Result<()> {
        let Self { started, summary } = self;
        let tests = nextest::list(&Selection::of(ANY))?;
        summary.lines(&tests, elsewhere).iter().for_each(|line| say::line(line));
        say::step(&format!("done in {:.0} s", started.elapsed().as_secs_f64()));
        say::line(&summary.counts(&tests));
        if !summary.passed() {
            bail!("the lines that begin with FAILED, and the table above them, say what failed");
        }
        Ok(())
    }
}

fn run_tests(selection: &Selection<'_>, summary: &mut Summary) -> Result<()> {
    let ran = nextest::run(selection)?;
    let count = ran.len();
    if !summary.add_tests(ran) {
        bail!("not all of {count} tests passed");
    }
    Ok(())
}

/// A thread on each processor that computes nothing, until it is dropped.
struct Load(std::sync::Arc<std::sync::atomic::AtomicBool>);

impl Load {
    fn begin() -> Self {
        use std::sync::atomic::{AtomicBool, Ordering};

        let runs = std::sync::Arc::new(AtomicBool::new(true));
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            let runs = runs.clone();
            std::thread::spawn(move || {
                while runs.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        Self(runs)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.store(false, std::sync::atomic::Ordering::Relaxed);
    }
}
