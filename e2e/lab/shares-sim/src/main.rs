//! `millrace-shares-sim [DOCS]`: plays all rules on all scenarios with 100,000 targets and 200
//! pods, prints the tables, and writes them into the given folder: `sharing/results.md`.
//! Without a folder it only prints.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;
use std::{env, fs};

use millrace_shares_sim::fleet::Fleet;
use millrace_shares_sim::report;
use millrace_shares_sim::scenario::Play;

const TARGETS: usize = 100_000;
const PODS: usize = 200;
const SEED: u64 = 1;
/// The page's head.
const HEAD: &str = "# Sharing out targets: the results\n\n\
    Written by `make sim`: 100,000 targets with skewed weights, 200 pods in three zones, 60 jobs, \
    seed 1. [What is compared, and how](rule.md#against-other-rules).\n\n";

fn main() -> ExitCode {
    match work(env::args().nth(1).as_deref()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("millrace-shares-sim: {message}");
            ExitCode::FAILURE
        }
    }
}

fn work(docs: Option<&str>) -> Result<(), String> {
    let started = Instant::now();
    let sheets = report::sheets(&Play::new(Fleet::new(TARGETS, PODS, SEED)));
    let page = report::markdown(&sheets);
    println!("{page}\n{} scenarios in {:.1} s", sheets.len(), started.elapsed().as_secs_f64());
    let Some(docs) = docs else { return Ok(()) };
    let folder = Path::new(docs).join("sharing");
    let told = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    fs::create_dir_all(&folder).map_err(|error| told(&folder, error))?;
    let path = folder.join("results.md");
    fs::write(&path, format!("{HEAD}{page}")).map_err(|error| told(&path, error))
}
