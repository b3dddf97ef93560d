//! The sizing decision in sentences, then every term of it.

use millrace_crds::v1alpha1::{SizingSignals, SizingStatus, SizingTerms};

use super::{Cell, Page, Paint, Palette, Table, ago, count, gaps};
use crate::report::SizingReport;

/// Why the pool has its size.
#[must_use]
pub fn sizing(report: &SizingReport, palette: Palette) -> String {
    let mut page = Page::new(palette);
    let name = palette.paint(&format!("{}/{}", report.namespace, report.pool), Paint::Bold);
    let pods = report.pods.as_deref().unwrap_or("?/?");
    page.line(&format!("GatewayPool {name}  {pods} pods ready"));
    match &report.decision {
        Some(decision) => told(&mut page, report, decision),
        None => page.wrapped(
            "  ",
            "  ",
            "the operator has not decided on a size yet: it does once Kafka told the lag and pods run",
            Paint::Warn,
        ),
    }
    gaps(&mut page, &report.gaps);
    page.finish()
}

fn told(page: &mut Page, report: &SizingReport, decision: &SizingStatus) {
    let text = sentences(report, decision).join(" ");
    page.wrapped("  ", "  ", &text, Paint::Plain);
    if let Some(terms) = &decision.terms {
        page.heading("THE SUM (messages per second)");
        sum(page, terms, decision);
    }
    if let Some(signals) = &decision.signals {
        page.heading("WHAT THE PODS SAY");
        page.table(&figures(signals));
    }
    page.heading("BOUNDS AND CLOCKS");
    page.table(&bounds(report, decision));
}

/// What was decided, why, and what would change it.
fn sentences(report: &SizingReport, decision: &SizingStatus) -> Vec<String> {
    let pods = plural(decision.replicas, "pod");
    let when = report.decided_seconds_ago.map(|it| format!(", decided {} ago", ago(it)));
    let mut text = vec![format!(
        "{pods} ({}{}): {}.",
        decision.reason,
        when.unwrap_or_default(),
        decision.message.trim_end_matches('.')
    )];
    if let Some(meaning) = report.meaning.filter(|it| !decision.message.contains(it)) {
        text.push(format!("That means: {meaning}."));
    }
    if decision.wanted > 0 && decision.wanted != decision.replicas {
        let wanted = plural(decision.wanted, "pod");
        text.push(match &decision.sized_by {
            Some(other) => format!("The rule recommends {wanted}; {other} sets the size."),
            None => format!("Without what holds it back it would be {wanted}."),
        });
    }
    if let Some(fixed) = report.fixed.as_ref().filter(|fixed| !fixed.by_operator) {
        let by = fixed.by.as_deref().unwrap_or("somebody");
        text.push(format!(
            "spec.replicas is {}, written by {by}: remove it to return to sizing by lag.",
            fixed.replicas
        ));
    }
    if let Some(hot) = &decision.hot_partition {
        text.push(format!(
            "Partition {} of {} gets {}/s, more than one pod can do: more pods can't help; {} \
             partitions would, if its keys can be spread.",
            hot.partition,
            hot.topic,
            count(hot.arrival_per_second),
            hot.partitions_advised
        ));
    }
    if let Some(reason) = &decision.resources_reason {
        let now = [("memory", &decision.memory_limit), ("processor time", &decision.cpu_limit)];
        let now =
            now.iter().filter_map(|(what, limit)| Some(format!("{what} {}", limit.as_ref()?)));
        let now: Vec<String> = now.collect();
        let now = if now.is_empty() { "as written".to_owned() } else { now.join(", ") };
        text.push(format!("Limits of a pod: {now} ({reason})."));
    }
    if let Some(resize) = &decision.resize {
        text.push(format!("Resizing: {:?}, {}: {}.", resize.way, resize.reason, resize.message));
    }
    text
}

fn plural(number: i32, word: &str) -> String {
    if number == 1 { format!("1 {word}") } else { format!("{number} {word}s") }
}

fn sum(page: &mut Page, terms: &SizingTerms, decision: &SizingStatus) {
    let mut table = Table::new(2);
    let measured = match terms.capacity_measured {
        true => "measured while its pods were busy",
        false => "an estimate: no pod has been busy yet",
    };
    let backlog = format!("works off {} messages in time", count(terms.backlog_messages));
    let size = format!("smallest size with that capacity: {}", terms.size_needed);
    for (what, value, note) in [
        (
            "arrives",
            terms.arrival_per_second,
            "at the hottest partition ".to_owned() + &count(terms.hottest_per_second),
        ),
        ("expected", terms.expected_per_second, "by the time that new pods would work".to_owned()),
        ("backlog", terms.backlog_per_second, backlog),
        ("rebalance", terms.pause_per_second, "makes up for one".to_owned()),
        ("needed", terms.needed_per_second, size),
        ("a pod does", terms.capacity_per_second, measured.to_owned()),
    ] {
        table.row(vec![what.into(), Cell::number(Some(count(value))), Cell::of(note)]);
    }
    if let Some(partitions) = decision.partitions {
        let note = "the most pods that can work at once".to_owned();
        table.row(vec!["partitions".into(), Cell::number(Some(count(partitions))), Cell::of(note)]);
    }
    page.table(&table);
}

fn figures(signals: &SizingSignals) -> Table {
    let mut table = Table::new(2);
    let silent = signals.pods - signals.pods_told;
    let told = format!("{} of {}", signals.pods_told, signals.pods);
    let paint = if silent > 0 { Paint::Warn } else { Paint::Plain };
    table.row(vec!["answered".into(), Cell::of(told).painted(paint)]);
    if let Some(metered) = signals.pods_metered {
        let text = format!("{metered} more by the cluster's metrics API");
        table.row(vec!["measured".into(), Cell::of(text)]);
    }
    for (what, value) in [
        ("fullest pod's memory", signals.memory_percent),
        ("busiest pod's processor time", signals.cpu_percent),
        ("inserts that ClickHouse refused", signals.sink_refused_percent),
    ] {
        if let Some(value) = value {
            table.row(vec![what.into(), Cell::of(format!("{value} %"))]);
        }
    }
    table
}

fn bounds(report: &SizingReport, decision: &SizingStatus) -> Table {
    let mut table = Table::new(2);
    let mut row = |what: &str, value: String| table.row(vec![what.into(), Cell::of(value)]);
    let scaling = &report.scaling;
    row("pods", format!("{} to {}", scaling.min_replicas, scaling.max_replicas));
    let bound = ago(i64::from(scaling.lag_bound_seconds));
    row(
        "lag",
        match report.lag.as_ref().and_then(|lag| lag.seconds) {
            Some(seconds) => format!("{}, bound {bound}", ago(seconds)),
            None => format!("unknown, bound {bound}"),
        },
    );
    row("a backlog is worked off in", ago(i64::from(scaling.catch_up_seconds)));
    let now = decision.decided_at.0.as_second();
    if let Some(at) = &decision.earliest_change_at {
        row(
            "the next change at the earliest",
            format!("{} after it was decided", ago(at.0.as_second() - now)),
        );
    }
    if let Some(at) = &decision.back_off_until {
        row("does not grow until", at.0.to_string());
    }
    if let (Some(at), Some(from)) = (&decision.changed_at, decision.changed_from) {
        row("last change", format!("{} -> {} at {}", from, decision.replicas, at.0));
    }
    if decision.regrets > 0 {
        row(
            "regretted shrinkings",
            format!("{}: it waits longer before it shrinks", decision.regrets),
        );
    }
    table
}
