//! All that is printed: progress to standard error, results to standard output.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::time::Duration;

use millrace_loadgen::{Acked, AnswerQuantiles, CheckStep, Plan, Progress, Report, Target};

pub(crate) fn error(error: &anyhow::Error) {
    eprintln!("millrace-loadgen: {error:#}");
}

pub(crate) fn sending(plan: &Plan, target: &Target) {
    let Plan { seed, count, start_unix_nanos, shape, .. } = plan;
    let signal = shape.signal();
    eprintln!(
        "sending {count} records of {signal} to {target} (seed={seed} start-unix-nanos={start_unix_nanos})"
    );
}

/// One line about a running send. `last` is the count of the line before.
pub(crate) fn progress(plan: &Plan, progress: &Progress, last: u64, between: Duration) {
    let acked = progress.acked_records();
    let rate = (acked.saturating_sub(last)) as f64 / between.as_secs_f64().max(0.001);
    let share = acked as f64 * 100.0 / plan.count as f64;
    let mut line = format!("acked={acked} ({share:.0}%) rate={rate:.0}/s");
    for (name, value) in [
        ("refused", progress.refused_records()),
        ("gave-up", progress.given_up_records()),
        ("retries", progress.retries()),
    ] {
        if value > 0 {
            line.push_str(&format!(" {name}={value}"));
        }
    }
    if let Some(trouble) = progress.take_trouble() {
        line.push_str(&format!(" last-trouble={trouble:?}"));
    }
    eprintln!("{line}");
}

/// What a send came to.
pub(crate) fn sent(acked: &Acked, progress: &Progress, took: Duration) {
    let records = acked.records();
    println!(
        "acknowledged={records} refused={} gave-up={} retries={} bytes={} seconds={:.1} \
         records-per-second={:.0}",
        progress.refused_records(),
        progress.given_up_records(),
        progress.retries(),
        progress.sent_bytes(),
        took.as_secs_f64(),
        records as f64 / took.as_secs_f64().max(0.001),
    );
    if let Some(AnswerQuantiles { half, p99, most }) = progress.answer_quantiles() {
        let [half, p99, most] = [half, p99, most].map(|time| time.as_secs_f64() * 1e3);
        println!("answers: half-ms={half:.2} p99-ms={p99:.2} most-ms={most:.2}");
    }
}

pub(crate) fn checking(step: CheckStep) {
    match step {
        CheckStep::Waiting { rows, acknowledged } => {
            eprintln!("stored rows={rows} of acknowledged={acknowledged}");
        }
        CheckStep::Comparing { rows } => eprintln!("compared rows={rows}"),
    }
}

/// The verdict; its last line is the one that counts.
pub(crate) fn report(report: &Report, took: Duration) {
    for example in &report.examples {
        println!("{example}");
    }
    println!(
        "rows={} invented={} unacknowledged={} resent={} seconds={:.1}",
        report.rows,
        report.invented,
        report.unacknowledged,
        report.resent,
        took.as_secs_f64(),
    );
    println!("{report}");
}

pub(crate) fn generated(plan: &Plan, bytes: u64, took: Duration) {
    let seconds = took.as_secs_f64().max(1e-9);
    println!(
        "records={} bytes={bytes} bytes-per-record={:.1} seconds={seconds:.2} \
         records-per-second={:.0} ns-per-record={:.0}",
        plan.count,
        bytes as f64 / plan.count as f64,
        plan.count as f64 / seconds,
        seconds * 1e9 / plan.count as f64,
    );
}
