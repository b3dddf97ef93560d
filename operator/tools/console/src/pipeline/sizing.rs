//! Renders the sizing decision with each of its inputs.

use millrace_crds::v1alpha1::{SizingSignals, SizingStatus, SizingTerms};
use millrace_reports::SizingReport;
use millrace_reports::units::{format_count, format_duration, format_plural};

use crate::html::{Html, HtmlCell};

/// Renders why the pool has its size.
pub(crate) fn push_sizing(html: &mut Html, report: &SizingReport) {
    html.raw("<h2>Number of gateways</h2>\n");
    let Some(decision) = &report.decision else {
        html.raw("<p>No sizing decision yet: waiting for the first lag sample ")
            .raw("and running pods.</p>\n");
        return;
    };
    let class = if report.holds { "warn" } else { "good" };
    html.wrap_text("<div class=\"state ", class, "\"><b>")
        .wrap_text("", format_plural(decision.replicas, "pod"), "</b>, ")
        .wrap_text("<b>", &decision.reason, "</b>");
    if let Some(seconds) = report.decided_seconds_ago {
        html.wrap_text(" <span class=\"dim\">decided ", format_duration(seconds), " ago</span>");
    }
    html.wrap_text("<br>", &decision.message, "");
    if let Some(meaning) = report.meaning.filter(|it| !decision.message.contains(it)) {
        html.wrap_text("<br>Meaning: ", meaning, ".");
    }
    push_facts(html, report, decision);
    html.raw("</div>\n");
    if let Some(terms) = &decision.terms {
        push_terms(html, terms);
    }
    if let Some(signals) = &decision.signals {
        push_signals(html, signals);
    }
}

fn push_facts(html: &mut Html, report: &SizingReport, decision: &SizingStatus) {
    let scaling = &report.scaling;
    let now = decision.decided_at.0.as_second();
    let earliest = decision.earliest_change_at.as_ref().map(|at| at.0.as_second() - now);
    html.raw("<dl class=\"facts\">").push_fact(
        "bounds",
        format_args!("{} to {} pods", scaling.min_replicas, scaling.max_replicas),
    );
    let fixed = report.fixed.as_ref().filter(|fixed| !fixed.by_operator);
    for (term, value) in [
        ("without holds", Some(format_plural(decision.proposed_replicas, "pod"))),
        ("sized by", decision.sized_by.clone()),
        (
            "spec.replicas written by",
            fixed.map(|it| it.by.clone().unwrap_or_else(|| "unknown".to_owned())),
        ),
        ("partitions", decision.partitions.map(|it| it.to_string())),
        ("lag", report.lag.as_ref().and_then(|lag| lag.seconds).map(format_duration)),
        ("lag bound", Some(format_duration(i64::from(scaling.lag_bound_seconds)))),
        ("time to process a backlog", Some(format_duration(i64::from(scaling.catch_up_seconds)))),
        (
            "earliest change",
            earliest.map(|it| format!("{} after the decision", format_duration(it))),
        ),
        ("no growth until", decision.back_off_until.as_ref().map(|at| at.0.to_string())),
        ("limits of a pod", pod_limits(decision)),
        ("resources", decision.resources_reason.clone()),
        (
            "hot partition",
            decision.hot_partition.as_ref().map(|hot| {
                format!(
                    "{} of {} receives {}/s; {} partitions advised",
                    hot.partition,
                    hot.topic,
                    format_count(hot.arrival_per_second),
                    hot.recommended_partitions
                )
            }),
        ),
    ] {
        if let Some(value) = value {
            html.push_fact(term, value);
        }
    }
    html.raw("</dl>");
}

fn pod_limits(decision: &SizingStatus) -> Option<String> {
    let parts = [("memory", &decision.memory_limit), ("cpu", &decision.cpu_limit)];
    let parts =
        parts.iter().filter_map(|(what, limit)| Some(format!("{what} {}", limit.as_ref()?)));
    let parts: Vec<String> = parts.collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn push_terms(html: &mut Html, terms: &SizingTerms) {
    let measured = match terms.capacity_measured {
        true => "measured while pods were busy",
        false => "an estimate: no pod has been busy yet",
    };
    let row = |what: &str, value: i64, note: String| {
        vec![
            HtmlCell::text(what),
            HtmlCell::figure(Some(format_count(value))),
            HtmlCell::text(note),
        ]
    };
    let hottest = format!("at the hottest partition {}", format_count(terms.hottest_per_second));
    let backlog = format!(
        "processes a backlog of {} in time",
        format_plural(terms.backlog_messages, "message")
    );
    let size = format!("smallest size with that capacity: {}", terms.size_needed);
    let rows = [
        row("arrival rate", terms.arrival_per_second, hottest),
        row("expected", terms.expected_per_second, "once new pods would run".to_owned()),
        row("backlog", terms.backlog_per_second, backlog),
        row("rebalance", terms.rebalance_per_second, "compensates for one".to_owned()),
        row("needed", terms.needed_per_second, size),
        row("capacity of a pod", terms.capacity_per_second, measured.to_owned()),
    ];
    html.raw("<h3>Calculation</h3>\n");
    html.push_table("Calculation", &["term", ">messages/s", "note"], &rows);
}

fn push_signals(html: &mut Html, signals: &SizingSignals) {
    html.raw("<h3>Pod metrics</h3>\n<dl class=\"facts\">")
        .push_fact("answered", format_args!("{} of {}", signals.pods_reporting, signals.pods));
    for (what, value) in [
        ("more from the metrics API", signals.pods_metered.map(|pods| pods.to_string())),
        ("fullest pod's memory", signals.memory_percent.map(format_percent)),
        ("busiest pod's CPU", signals.cpu_percent.map(format_percent)),
        ("inserts rejected by ClickHouse", signals.inserts_rejected_percent.map(format_percent)),
    ] {
        if let Some(value) = value {
            html.push_fact(what, value);
        }
    }
    html.raw("</dl>\n");
}

fn format_percent(value: i32) -> String {
    format!("{value} %")
}
