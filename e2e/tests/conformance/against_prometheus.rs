//! Ours beside Debian's Prometheus on the same targets: each sample's name, labels, value, time, and
//! the mark of its end, as Prometheus writes it and as our row has it. What differs by OTLP's
//! specification is listed in `conformance/prometheus/compare.rs`; nothing else may.
//!
//! Not part of `make test-all`: it takes as long as it scrapes. `make conformance` runs it for a minute,
//! `MILLRACE_SCRAPE_SECONDS=600 cargo test -p millrace-e2e conformance::against_prometheus` for ten.

use std::env;
use std::time::{Duration, Instant};

use millrace_e2e::lab::Lab;
use millrace_e2e::wait;
use prometheus::answers::{Answer, Target};
use prometheus::compare::{Pair, Rule, Verdict, arranged, judge_times};
use prometheus::sides::{REFUSED, Sides};
use prometheus::stored::Stored;
use prometheus::targets::{Client, Targets, now_millis};

use super::prometheus;

/// How long both scrape, if `MILLRACE_SCRAPE_SECONDS` doesn't say it: some 20 scrapes of a target.
const USUAL: Duration = Duration::from_secs(66);
/// Times of samples' own begin this long after the start: Prometheus writes no earlier ones than
/// its own start.
const AHEAD_MILLIS: i64 = 60_000;

fn span() -> Duration {
    let seconds = env::var("MILLRACE_SCRAPE_SECONDS").ok();
    seconds.map_or(USUAL, |seconds| Duration::from_secs(seconds.parse().expect("a number")))
}

/// Scenario: eleven targets, scraped by both side by side: all formats and types, native histograms,
/// odd values and labels, counters that begin anew, series that come and go, answers with status
/// 500, cut off, with a fault, without an end, and none; times and labels of their own, kept or not;
/// rules; a limit; a target taken from its list. Guarantee: for each scrape both have the same
/// samples, with the same labels, values and times, and the same ends, through to the table.
#[test]
fn what_is_stored_is_what_prometheus_has() {
    let lab = Lab::start().unwrap();
    let epoch_millis = now_millis() + AHEAD_MILLIS;
    let targets = Targets::start(epoch_millis.cast_unsigned()).unwrap();
    let mut sides = Sides::start(&lab, &targets).unwrap();
    let (begun, span) = (Instant::now(), span());
    for (part, is_halfway) in [(span / 2, true), (span, false)] {
        // Nothing but time tells that enough was scraped.
        wait::until("the end of the run", span * 2, || {
            sides.still_run().unwrap();
            anyhow::ensure!(begun.elapsed() >= part);
            Ok(())
        })
        .unwrap();
        if is_halfway {
            sides.unlist().unwrap();
        }
    }
    let written = sides.end().unwrap();
    let stored = Stored::read(&lab.engine).unwrap();
    let mut verdict = Verdict::default();
    let ours = arranged(stored.samples.clone(), false, &mut verdict);
    let theirs = arranged(written.samples, true, &mut verdict);
    let mut scrapes = 0;
    let mut answers = [0_u64; 6];
    for name in Target::ALL.map(Target::name).into_iter().chain([REFUSED]) {
        let (Some(ours), Some(theirs)) = (ours.get(name), theirs.get(name)) else {
            panic!("{name}: {:?}, {:?}", ours.keys(), theirs.keys());
        };
        let target = Target::ALL.into_iter().find(|it| it.name() == name);
        let is_faulty = |n: &usize| {
            let answer = target.map(|target| targets.answer(target, *n as u64));
            matches!(answer, Some(Answer::Faulty(..)))
        };
        let faulty = (0..ours.scrapes.len()).filter(is_faulty).collect();
        let pair =
            Pair { target: name, ours, theirs, stored: &stored, faulty: &faulty, epoch_millis };
        pair.judge(&mut verdict);
        pair.judge_exemplars(&written.exemplars, &mut verdict);
        scrapes += pair.scrapes();
        let Some(target) = target else { continue };
        for (client, taken) in [(Client::Ours, ours), (Client::Theirs, theirs)] {
            let came = targets.came(target, client);
            judge_times(client.name(), name, (taken, &came), &mut verdict);
        }
        for n in 0..pair.scrapes() {
            answers[kind(&targets.answer(target, n as u64))] += 1;
        }
    }
    println!(
        "{scrapes} scrapes; answers {answers:?}; {} samples equal, of them {} marks, {} native \
         histograms, {} with times of their own; {} exemplars; by rule {:?}",
        verdict.equal,
        verdict.marks,
        verdict.natives,
        verdict.own_times,
        verdict.exemplars,
        verdict.by_rule,
    );
    if let Some(faults) = verdict.faults() {
        panic!("{faults}");
    }
    let some = [verdict.marks, verdict.natives, verdict.own_times, verdict.exemplars];
    assert!(some.iter().chain(&answers).all(|count| *count > 0), "all there is was met");
    assert!(Rule::ALL.iter().all(|rule| verdict.by_rule.contains_key(rule)), "each rule is needed");
}

fn kind(answer: &Answer) -> usize {
    match answer {
        Answer::Body(..) => 0,
        Answer::Refused => 1,
        Answer::Cut(..) => 2,
        Answer::Silent => 3,
        Answer::Closed => 4,
        Answer::Faulty(..) => 5,
    }
}
