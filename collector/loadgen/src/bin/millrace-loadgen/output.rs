//! Prints all output: progress to standard error, results to standard output.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::time::Duration;

use millrace_loadgen::{
    CheckReport, CheckStep, LatencyQuantiles, LoadPlan, LoadTarget, SendProgress, SendState,
};

pub(crate) fn print_error(print_error: &anyhow::Error) {
    eprintln!("millrace-loadgen: {print_error:#}");
}

pub(crate) fn print_start(plan: &LoadPlan, target: &LoadTarget) {
    let LoadPlan { seed, count, start_unix_nanos, shape, .. } = plan;
    let signal = shape.signal();
    eprintln!(
        "sending {count} records of {signal} to {target} (seed={seed} start-unix-nanos={start_unix_nanos})"
    );
}

/// Prints one line about a running send. `last` is the count of the previous line.
pub(crate) fn print_progress(
    plan: &LoadPlan,
    print_progress: &SendProgress,
    last: u64,
    between: Duration,
) {
    let acked = print_progress.acked_records();
    let rate = (acked.saturating_sub(last)) as f64 / between.as_secs_f64().max(0.001);
    let share = acked as f64 * 100.0 / plan.count as f64;
    let mut line = format!("acked={acked} ({share:.0}%) rate={rate:.0}/s");
    for (name, value) in [
        ("refused", print_progress.refused_records()),
        ("gave-up", print_progress.abandoned_records()),
        ("retries", print_progress.retries()),
    ] {
        if value > 0 {
            line.push_str(&format!(" {name}={value}"));
        }
    }
    if let Some(trouble) = print_progress.take_trouble() {
        line.push_str(&format!(" last-trouble={trouble:?}"));
    }
    eprintln!("{line}");
}

/// Prints the result of a send.
pub(crate) fn print_summary(acked: &SendState, progress: &SendProgress, took: Duration) {
    let records = acked.acked_records();
    println!(
        "acknowledged={records} refused={} gave-up={} retries={} bytes={} seconds={:.1} \
         records-per-second={:.0}",
        progress.refused_records(),
        progress.abandoned_records(),
        progress.retries(),
        progress.sent_bytes(),
        took.as_secs_f64(),
        records as f64 / took.as_secs_f64().max(0.001),
    );
    if let Some(LatencyQuantiles { half, p99, most }) = progress.latency_quantiles() {
        let [half, p99, most] = [half, p99, most].map(|time| time.as_secs_f64() * 1e3);
        println!("answers: half-ms={half:.2} p99-ms={p99:.2} most-ms={most:.2}");
    }
}

pub(crate) fn print_check_step(step: CheckStep) {
    match step {
        CheckStep::Waiting { rows, acknowledged } => {
            eprintln!("stored rows={rows} of acknowledged={acknowledged}");
        }
        CheckStep::Comparing { rows } => eprintln!("compared rows={rows}"),
    }
}

/// Prints the verdict; its last line is the decisive one.
pub(crate) fn print_report(print_report: &CheckReport, took: Duration) {
    for example in &print_report.examples {
        println!("{example}");
    }
    println!(
        "rows={} invented={} unacknowledged={} resent={} seconds={:.1}",
        print_report.rows,
        print_report.invented,
        print_report.unacknowledged,
        print_report.resent,
        took.as_secs_f64(),
    );
    println!("{print_report}");
}

pub(crate) fn print_generated(plan: &LoadPlan, bytes: u64, took: Duration) {
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
