//! `millrace-sim [DOCS]`: plays all rules on all traces, prints the table, and writes plots and
//! tables into the given folder: `autoscaling/*.svg` and `autoscaling/results.md`.
//! Without a folder it only prints. `--seeds N` sets how many seeds each protocol is played with,
//! `--trace NAME` plays one trace alone and prints our changes of size.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;
use std::{env, fs, io};

use millrace_sim::{plot, report, trace};

/// Seeds for each protocol and trace where none are asked for.
const SEEDS: u64 = 1;
/// The page's head.
const HEAD: &str = "# Sizing rules compared: the results\n\n\
    Written by `make sim`. [What is compared, and how](rule.md#against-other-rules).\n\n";

fn main() -> ExitCode {
    match work(env::args().skip(1).collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("millrace-sim: {message}");
            ExitCode::FAILURE
        }
    }
}

fn work(mut args: Vec<String>) -> Result<(), String> {
    let seeds = match args.iter().position(|arg| arg == "--seeds") {
        None => SEEDS,
        Some(at) => {
            let given = args.get(at + 1).and_then(|text| text.parse().ok());
            args.drain(at..(at + 2).min(args.len()));
            given.filter(|seeds| *seeds > 0).ok_or("--seeds takes a number above 0")?
        }
    };
    let only = match args.iter().position(|arg| arg == "--trace") {
        None => None,
        Some(at) => {
            let given = args.get(at + 1).cloned().ok_or("--trace takes a name")?;
            args.drain(at..at + 2);
            Some(given)
        }
    };
    let started = Instant::now();
    let mut traces = trace::all();
    traces.retain(|trace| only.as_deref().is_none_or(|only| only == trace.name));
    let sheets = report::sheets(&traces, seeds);
    println!("{}", report::text(&sheets));
    if only.is_some() {
        let ours = sheets.iter().filter_map(|sheet| sheet.lines.first());
        for (second, why) in ours.flat_map(|line| &line.changes) {
            println!("{second:>6} s  {why}");
        }
    }
    println!("{} traces in {:.1} s", traces.len(), started.elapsed().as_secs_f64());
    let Some(docs) = args.first().map(Path::new) else { return Ok(()) };
    let told = |what: &str, error: io::Error| format!("{what}: {error}");
    let plots = docs.join("autoscaling");
    fs::create_dir_all(&plots).map_err(|error| told(&plots.display().to_string(), error))?;
    for sheet in &sheets {
        let path = plots.join(format!("{}.svg", report::file_name(sheet.trace.name)));
        fs::write(&path, plot::svg(sheet))
            .map_err(|error| told(&path.display().to_string(), error))?;
    }
    let page = plots.join("results.md");
    fs::write(&page, format!("{HEAD}{}", report::markdown(&sheets)))
        .map_err(|error| told(&page.display().to_string(), error))
}
