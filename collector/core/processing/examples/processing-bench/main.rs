//! Measures rules: nanoseconds of CPU time per record, one thread.
//!
//! `cargo run --release -p millrace-processing --example processing-bench -- [--json]
//! [--seconds N] [--rounds N] [--plain] [case]`
//!
//! Cases: `rename-1k` (one rename of logs of 1 KB), `rename-300`, `four-300` (rename, delete, set
//! where, truncate on logs of 300 B), the same with ten rules that don't match, `unmatched-300` and
//! `10-unmatched-300` (rules that never match), `drop-95` (all but 5 % by severity), `spans`
//! (delete two keys, set one by condition); `redact-*` (all sets, or e-mail alone; no hits, or 1
//! %); `sample-*` (by trace id or hash, at a ratio in percent); `pods-300` and
//! `pods-300-10-records` (metadata of one of 10,000 pods, in requests of 1,000 and of 10 records).
//! A figure is the best of all rounds, so that a busy machine disturbs little. With `--rounds` a
//! case runs exactly that often, for counting instructions. The time of rules is estimated, as in
//! the collector, unless `--plain`.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod data;

use std::hint::black_box;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use cpu_time::ThreadTime;
use millrace_processing::enrich::RequestOrigin;
use millrace_processing::{Counts, Scratch};

use crate::data::{CLIENT, Case, Pods};

/// The longest output: far above the requests here.
const LIMIT_BYTES: usize = 64 << 20;

struct Arguments {
    json: bool,
    seconds: f64,
    rounds: Option<u32>,
    plain: bool,
    case: Option<String>,
}

fn main() {
    let mut arguments =
        Arguments { json: false, seconds: 2.0, rounds: None, plain: false, case: None };
    let mut rest = std::env::args().skip(1);
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--json" => arguments.json = true,
            "--plain" => arguments.plain = true,
            "--seconds" => arguments.seconds = rest.next().unwrap().parse().unwrap(),
            "--rounds" => arguments.rounds = Some(rest.next().unwrap().parse().unwrap()),
            _ => arguments.case = Some(argument),
        }
    }
    let pods = Pods::new();
    for case in data::cases() {
        if arguments.case.as_ref().is_none_or(|name| name == case.name) {
            measure(&case, &pods, &arguments);
        }
    }
}

fn read_clock() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

fn measure(case: &Case, pods: &Pods, arguments: &Arguments) {
    let origin = RequestOrigin { client: Some(CLIENT), pods: Some(pods) };
    let mut scratch = match arguments.plain {
        true => Scratch::default(),
        false => Scratch::with_clock(read_clock),
    };
    let mut counts = Counts::new(case.rules.rules().len());
    let mut best = Duration::MAX;
    let end = Instant::now() + Duration::from_secs_f64(arguments.seconds);
    let mut rounds = 0;
    loop {
        let start = ThreadTime::now();
        let request = (case.signal, case.request.as_slice());
        let outcome = case.rules.run_from(
            origin,
            request,
            LIMIT_BYTES,
            &mut scratch,
            &mut counts,
            &mut Vec::new(),
        );
        let _ = black_box(outcome.unwrap());
        best = best.min(start.elapsed());
        rounds += 1;
        match arguments.rounds {
            Some(wanted) if rounds >= wanted => break,
            None if Instant::now() >= end => break,
            _ => {}
        }
    }
    let nanos = best.as_nanos() as f64 / case.records as f64;
    let bytes = case.request.len() / case.records;
    let name = case.name;
    if arguments.json {
        println!("{{\"case\":\"{name}\",\"nanos\":{nanos:.1},\"bytes\":{bytes}}}");
    } else {
        println!("{name:28} {nanos:8.1} ns/record  {:6.2} M/s  {bytes} B", 1_000.0 / nanos);
    }
}
