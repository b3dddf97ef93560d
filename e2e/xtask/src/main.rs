//! Developer tasks: what the Makefile targets call. Parses, dispatches and picks the exit code;
//! each task has its own file. Nothing here is linked into what users run.

mod alerts;
mod bench;
mod book;
mod build;
mod check;
mod cluster;
mod conformance;
mod dashboards;
mod faults;
mod first_try;
mod fuzz;
mod links;
mod nightly;
mod reference;
mod release;
mod say;
mod shell;
mod test;
mod tool;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use build::{Binaries, Collectors};

/// Millrace's developer tasks.
#[derive(Debug, Parser)]
#[command(name = "xtask", about, disable_help_subcommand = true)]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Structure rules, formatting, lints and dependency policy.
    Check,
    /// Known vulnerabilities in dependencies; needs the advisory database.
    Audit,
    /// Structure rules alone: crate walls, file heads and lengths, forbidden text, names in docs.
    Structure,
    /// Release binaries, the collector once for each allocator.
    Build,
    /// Binaries, and the images made of them, as OCI archives.
    Images,
    /// What users get: images, charts, archives, signed and tried, in target/releases.
    Release(release::Options),
    /// Write what is generated: CRDs, the charts' CRDs, dashboards, manifests, reference pages.
    Codegen,
    /// The pages as a book, in target/book, with every link in it checked.
    Book,
    /// What mdBook calls: chapters with the repository's links, from standard input to output.
    #[command(hide = true)]
    BookPages {
        /// `supports RENDERER`: whether it would work for one; it does for all.
        question: Vec<String>,
    },
    /// Start the local stack, or go on from wherever it is.
    Up,
    /// Remove the local stack.
    Down,
    /// What of the local stack runs, and where it answers.
    Status,
    /// The main job, end to end, on the local stack.
    Demo {
        /// Take the binaries of an earlier build.
        #[arg(long)]
        no_build: bool,
        /// Which collectors are built.
        #[arg(long, value_enum, default_value_t)]
        collectors: Collectors,
    },
    /// One collector and an engine, from a bare machine to rows in a table.
    Try(first_try::Options),
    /// The sizing rule against models of others, in a simulator: prints tables, writes docs.
    Sim,
    /// What the collector costs; the rest is said by variables, as `make` passes them on.
    Bench {
        /// Side by side with the OpenTelemetry Collector, which is built for it.
        #[arg(long)]
        peers: bool,
        /// Take the binaries of an earlier build.
        #[arg(long)]
        no_build: bool,
    },
    /// Two commits' collectors in turns: what the second costs where the first costs 1.
    BenchCompare(bench::compare::Options),
    /// What one operator costs and how fast it is with thousands of objects, on the local stack's
    /// API server; the rest is said by variables, as `make` passes them on.
    BenchOperator {
        /// Take the binaries of an earlier build.
        #[arg(long)]
        no_build: bool,
    },
    /// Strikes against three ZooKeepers, judged by what their clients saw.
    KeeperFaults,
    /// Faults under load; the rest is said by variables, as `make` passes them on.
    Chaos {
        /// Take the binaries of an earlier build.
        #[arg(long)]
        no_build: bool,
    },
    /// What every change waits for: unit, property and model tests, and the main path end to end.
    Test(test::Options),
    /// That and everything else that CI runs: checks, integration, faults, a real Kubernetes.
    TestAll {
        /// Begin with this phase; what comes before it is taken for done.
        #[arg(long, value_enum, default_value = "check")]
        from: test::Phase,
    },
    /// Tables, inserts and replicated tables on ClickHouse servers by address.
    TestServer(test::Servers),
    /// Chosen tests again and again while the processors are kept busy; names those that fail.
    Flaky(test::Flaky),
    /// Cluster tests that take minutes each: sizes of pools under load.
    ClusterNightly,
    /// What takes longer than a change should wait for: every simulation seed, fuzz target, fault.
    Nightly(nightly::Options),
    /// Commands of pages that need a cluster, typed as the pages have them, on the local stack, which
    /// must be down before.
    Pages,
    /// What ours and the OpenTelemetry Collector's exporter write, row by row.
    Conformance,
    /// Argo CD syncs our charts and pipelines in the local cluster, which must be down before.
    Argocd(cluster::argocd::Options),
    /// From an earlier commit's charts and images to these and back under load, on the local stack,
    /// which must be down before.
    Upgrades(cluster::upgrades::Options),
    /// Random relabeling, ours and Prometheus' own package's, case by case.
    Relabel(conformance::relabel::Options),
    /// Bodies changed at random, read by ours and by Prometheus' own parsers, case by case.
    Parse(conformance::relabel::Options),
    /// Random OTTL, run by ours and by the OpenTelemetry Collector's own processors, case by case.
    Ottl(conformance::relabel::Options),
    /// The chart's alerts, tried with Prometheus' own evaluator.
    Alerts,
    /// Fuzz targets: build, run, and keep the corpus small.
    Fuzz(fuzz::Options),
}

fn main() -> ExitCode {
    if let Some(code) = fuzz::as_compiler() {
        return code;
    }
    let Args { task } = Args::parse();
    let outcome = match task {
        Task::Check => check::run(),
        Task::Audit => check::audit(),
        Task::Structure => check::structure(),
        Task::Build => build::binaries(Collectors::All),
        Task::Images => build::images(Binaries::Built, Collectors::All).map(drop),
        Task::Release(options) => release::run(&options),
        Task::Codegen => check::codegen(),
        Task::Book => book::run(),
        Task::BookPages { question } => book::pages(&question),
        Task::Up => cluster::stack::up(),
        Task::Down => cluster::stack::down(),
        Task::Status => cluster::stack::status(),
        Task::Demo { no_build: true, collectors } => {
            cluster::demo::run(Binaries::AsTheyAre, collectors)
        }
        Task::Demo { no_build: false, collectors } => {
            cluster::demo::run(Binaries::Built, collectors)
        }
        Task::Try(options) => first_try::run(&options),
        Task::Sim => faults::sim::run(),
        Task::KeeperFaults => faults::keeper_faults::run(),
        Task::Chaos { no_build: true } => faults::chaos::run(Binaries::AsTheyAre),
        Task::Chaos { no_build: false } => faults::chaos::run(Binaries::Built),
        Task::Test(options) => test::run(&options),
        Task::TestAll { from } => test::run_all(from),
        Task::TestServer(options) => test::run_on_servers(&options),
        Task::Flaky(options) => test::flaky(&options),
        Task::ClusterNightly => test::nightly_cluster(),
        Task::Nightly(options) => nightly::run(&options),
        Task::Pages => cluster::pages::run(),
        Task::Conformance => conformance::run(),
        Task::Argocd(options) => cluster::argocd::run(&options),
        Task::Upgrades(options) => cluster::upgrades::run(&options),
        Task::Relabel(options) => conformance::relabel::run(&conformance::relabel::RULES, &options),
        Task::Parse(options) => conformance::relabel::run(&conformance::relabel::BODIES, &options),
        Task::Ottl(options) => {
            conformance::relabel::run(&conformance::relabel::STATEMENTS, &options)
        }
        Task::Alerts => alerts::run(),
        Task::Bench { peers, no_build: true } => bench::run(peers, Binaries::AsTheyAre),
        Task::Bench { peers, no_build: false } => bench::run(peers, Binaries::Built),
        Task::BenchCompare(options) => bench::compare::run(&options),
        Task::BenchOperator { no_build: true } => bench::operator::run(Binaries::AsTheyAre),
        Task::BenchOperator { no_build: false } => bench::operator::run(Binaries::Built),
        Task::Fuzz(options) => fuzz::run(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say::error(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}
