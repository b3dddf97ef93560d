//! Renders the sizing decision in sentences, then all of its terms.

use millrace_crds::v1alpha1::{SizingSignals, SizingStatus, SizingTerms};

use super::{
    Paint, Palette, TextCell, TextPage, TextTable, format_count, format_duration, format_plural,
    push_gaps,
};
use crate::report::SizingReport;

/// Renders why the pool has its size.
#[must_use]
pub fn render_sizing(report: &SizingReport, palette: Palette) -> String {
    let mut page = TextPage::new(palette);
    let name = palette.paint(&format!("{}/{}", report.namespace, report.pool), Paint::Bold);
    let pods = report.pods.as_deref().unwrap_or("?/?");
    page.push_line(&format!("GatewayPool {name}  {pods} pods ready"));
    match &report.decision {
        Some(decision) => push_decision(&mut page, report, decision),
        None => page.push_wrapped(
            "  ",
            "  ",
            "no sizing decision yet: waiting for the first lag sample and running pods",
            Paint::Warn,
        ),
    }
    push_gaps(&mut page, &report.gaps);
    page.into_text()
}

fn push_decision(page: &mut TextPage, report: &SizingReport, decision: &SizingStatus) {
    let text = decision_sentences(report, decision).join(" ");
    page.push_wrapped("  ", "  ", &text, Paint::Plain);
    if let Some(terms) = &decision.terms {
        page.push_heading("CALCULATION (messages per second)");
        push_terms(page, terms, decision);
    }
    if let Some(signals) = &decision.signals {
        page.push_heading("POD METRICS");
        page.push_table(&signals_table(signals));
    }
    page.push_heading("BOUNDS AND WINDOWS");
    page.push_table(&bounds_table(report, decision));
}

/// Returns sentences about the decision, its reason, and what would change it.
fn decision_sentences(report: &SizingReport, decision: &SizingStatus) -> Vec<String> {
    let pods = format_plural(decision.replicas, "pod");
    let when =
        report.decided_seconds_ago.map(|it| format!(", decided {} ago", format_duration(it)));
    let mut text = vec![format!(
        "{pods} ({}{}): {}.",
        decision.reason,
        when.unwrap_or_default(),
        decision.message.trim_end_matches('.')
    )];
    if let Some(meaning) = report.meaning.filter(|it| !decision.message.contains(it)) {
        text.push(format!("Meaning: {meaning}."));
    }
    if decision.proposed_replicas > 0 && decision.proposed_replicas != decision.replicas {
        let recommended = format_plural(decision.proposed_replicas, "pod");
        text.push(match &decision.sized_by {
            Some(other) => format!("The rule recommends {recommended}; {other} sets the size."),
            None => format!("Without the hold it would be {recommended}."),
        });
    }
    if let Some(fixed) = report.fixed.as_ref().filter(|fixed| !fixed.by_operator) {
        let by = fixed.by.as_deref().unwrap_or("an unknown manager");
        text.push(format!(
            "spec.replicas is {}, written by {by}: remove it to return to sizing by lag.",
            fixed.replicas
        ));
    }
    if let Some(hot) = &decision.hot_partition {
        text.push(format!(
            "Partition {} of {} receives {}/s, more than one pod can process: more pods don't \
             help; {} partitions would, if its keys can be spread.",
            hot.partition,
            hot.topic,
            format_count(hot.arrival_per_second),
            hot.recommended_partitions
        ));
    }
    if let Some(reason) = &decision.resources_reason {
        let now = [("memory", &decision.memory_limit), ("CPU", &decision.cpu_limit)];
        let now =
            now.iter().filter_map(|(what, limit)| Some(format!("{what} {}", limit.as_ref()?)));
        let now: Vec<String> = now.collect();
        let now = if now.is_empty() { "as configured".to_owned() } else { now.join(", ") };
        text.push(format!("Limits of a pod: {now} ({reason})."));
    }
    text
}

fn push_terms(page: &mut TextPage, terms: &SizingTerms, decision: &SizingStatus) {
    let mut table = TextTable::new(2);
    let measured = match terms.capacity_measured {
        true => "measured while pods were busy",
        false => "an estimate: no pod has been busy yet",
    };
    let backlog = format!(
        "processes a backlog of {} in time",
        format_plural(terms.backlog_messages, "message")
    );
    let size = format!("smallest size with that capacity: {}", terms.size_needed);
    for (what, value, note) in [
        (
            "arrival rate",
            terms.arrival_per_second,
            "at the hottest partition ".to_owned() + &format_count(terms.hottest_per_second),
        ),
        ("expected", terms.expected_per_second, "once new pods would run".to_owned()),
        ("backlog", terms.backlog_per_second, backlog),
        ("rebalance", terms.rebalance_per_second, "compensates for one".to_owned()),
        ("needed", terms.needed_per_second, size),
        ("capacity of a pod", terms.capacity_per_second, measured.to_owned()),
    ] {
        table.push_row(vec![
            what.into(),
            TextCell::number(Some(format_count(value))),
            TextCell::text(note),
        ]);
    }
    if let Some(partitions) = decision.partitions {
        let note = "maximum pods that can work at once".to_owned();
        table.push_row(vec![
            "partitions".into(),
            TextCell::number(Some(format_count(partitions))),
            TextCell::text(note),
        ]);
    }
    page.push_table(&table);
}

fn signals_table(signals: &SizingSignals) -> TextTable {
    let mut table = TextTable::new(2);
    let silent = signals.pods - signals.pods_reporting;
    let answered = format!("{} of {}", signals.pods_reporting, signals.pods);
    let paint = if silent > 0 { Paint::Warn } else { Paint::Plain };
    table.push_row(vec!["answered".into(), TextCell::text(answered).with_paint(paint)]);
    if let Some(metered) = signals.pods_metered {
        let text = format!("{metered} more from the metrics API");
        table.push_row(vec!["measured".into(), TextCell::text(text)]);
    }
    for (what, value) in [
        ("fullest pod's memory", signals.memory_percent),
        ("busiest pod's CPU", signals.cpu_percent),
        ("inserts rejected by ClickHouse", signals.inserts_rejected_percent),
    ] {
        if let Some(value) = value {
            table.push_row(vec![what.into(), TextCell::text(format!("{value} %"))]);
        }
    }
    table
}

fn bounds_table(report: &SizingReport, decision: &SizingStatus) -> TextTable {
    let mut table = TextTable::new(2);
    let mut row =
        |what: &str, value: String| table.push_row(vec![what.into(), TextCell::text(value)]);
    let scaling = &report.scaling;
    row("pods", format!("{} to {}", scaling.min_replicas, scaling.max_replicas));
    let bound = format_duration(i64::from(scaling.lag_bound_seconds));
    row(
        "lag",
        match report.lag.as_ref().and_then(|lag| lag.seconds) {
            Some(seconds) => format!("{}, bound {bound}", format_duration(seconds)),
            None => format!("unknown, bound {bound}"),
        },
    );
    row("time to process a backlog", format_duration(i64::from(scaling.catch_up_seconds)));
    let now = decision.decided_at.0.as_second();
    if let Some(at) = &decision.earliest_change_at {
        row(
            "earliest next change",
            format!("{} after the decision", format_duration(at.0.as_second() - now)),
        );
    }
    if let Some(at) = &decision.back_off_until {
        row("no growth until", at.0.to_string());
    }
    if let (Some(at), Some(from)) = (&decision.changed_at, decision.changed_from) {
        row("last change", format!("{} -> {} at {}", from, decision.replicas, at.0));
    }
    if decision.premature_shrinks > 0 {
        row(
            "shrinks reverted",
            format!("{}: the next shrink waits longer", decision.premature_shrinks),
        );
    }
    table
}
