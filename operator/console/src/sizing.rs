//! The sizing decision with each of its inputs.

use millrace_crds::v1alpha1::{SizingSignals, SizingStatus, SizingTerms};
use millrace_reports::SizingReport;
use millrace_reports::units::{ago, count};

use crate::html::{Cell, Html};

/// Why the pool has its size.
pub(crate) fn section(html: &mut Html, report: &SizingReport) {
    html.raw("<h2>Number of gateways</h2>\n");
    let Some(decision) = &report.decision else {
        html.raw("<p>The operator has not decided on a size yet: it does once Kafka told the lag ")
            .raw("and pods run.</p>\n");
        return;
    };
    let class = if report.holds { "warn" } else { "good" };
    html.put("<div class=\"state ", class, "\"><b>").put("", decision.replicas, " pods</b>, ").put(
        "<b>",
        &decision.reason,
        "</b>",
    );
    if let Some(seconds) = report.decided_seconds_ago {
        html.put(" <span class=\"dim\">decided ", ago(seconds), " ago</span>");
    }
    html.put("<br>", &decision.message, "");
    if let Some(meaning) = report.meaning.filter(|it| !decision.message.contains(it)) {
        html.put("<br>That means: ", meaning, ".");
    }
    facts(html, report, decision);
    html.raw("</div>\n");
    if let Some(terms) = &decision.terms {
        sum(html, terms);
    }
    if let Some(signals) = &decision.signals {
        told(html, signals);
    }
}

fn facts(html: &mut Html, report: &SizingReport, decision: &SizingStatus) {
    let scaling = &report.scaling;
    let now = decision.decided_at.0.as_second();
    let earliest = decision.earliest_change_at.as_ref().map(|at| at.0.as_second() - now);
    html.raw("<dl class=\"facts\">")
        .fact("bounds", format_args!("{} to {} pods", scaling.min_replicas, scaling.max_replicas));
    let fixed = report.fixed.as_ref().filter(|fixed| !fixed.by_operator);
    for (term, value) in [
        ("without what holds it back", Some(format!("{} pods", decision.wanted))),
        ("set by another", decision.sized_by.clone()),
        (
            "spec.replicas written by",
            fixed.map(|it| it.by.clone().unwrap_or_else(|| "somebody".to_owned())),
        ),
        ("partitions", decision.partitions.map(|it| it.to_string())),
        ("lag", report.lag.as_ref().and_then(|lag| lag.seconds).map(ago)),
        ("bound of the lag", Some(ago(i64::from(scaling.lag_bound_seconds)))),
        ("a backlog is worked off in", Some(ago(i64::from(scaling.catch_up_seconds)))),
        ("earliest change", earliest.map(|it| format!("{} after the decision", ago(it)))),
        ("does not grow until", decision.back_off_until.as_ref().map(|at| at.0.to_string())),
        ("limits of a pod", limits(decision)),
        ("resources", decision.resources_reason.clone()),
        ("resizing", decision.resize.as_ref().map(|it| format!("{}: {}", it.reason, it.message))),
        (
            "hot partition",
            decision.hot_partition.as_ref().map(|hot| {
                format!(
                    "{} of {} gets {}/s; {} partitions advised",
                    hot.partition,
                    hot.topic,
                    count(hot.arrival_per_second),
                    hot.partitions_advised
                )
            }),
        ),
    ] {
        if let Some(value) = value {
            html.fact(term, value);
        }
    }
    html.raw("</dl>");
}

fn limits(decision: &SizingStatus) -> Option<String> {
    let parts = [("memory", &decision.memory_limit), ("cpu", &decision.cpu_limit)];
    let parts =
        parts.iter().filter_map(|(what, limit)| Some(format!("{what} {}", limit.as_ref()?)));
    let parts: Vec<String> = parts.collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn sum(html: &mut Html, terms: &SizingTerms) {
    let measured = match terms.capacity_measured {
        true => "measured while its pods were busy",
        false => "an estimate: no pod has been busy yet",
    };
    let row = |what: &str, value: i64, note: String| {
        vec![Cell::words(what), Cell::figure(Some(count(value))), Cell::words(note)]
    };
    let hottest = format!("at the hottest partition {}", count(terms.hottest_per_second));
    let backlog = format!("works off {} messages in time", count(terms.backlog_messages));
    let size = format!("smallest size with that capacity: {}", terms.size_needed);
    let rows = [
        row("arrives", terms.arrival_per_second, hottest),
        row("expected", terms.expected_per_second, "once new pods would work".to_owned()),
        row("backlog", terms.backlog_per_second, backlog),
        row("rebalance", terms.pause_per_second, "makes up for one".to_owned()),
        row("needed", terms.needed_per_second, size),
        row("a pod does", terms.capacity_per_second, measured.to_owned()),
    ];
    html.raw("<h3>The sum</h3>\n");
    html.table("The sum", &["term", ">messages/s", "note"], &rows);
}

fn told(html: &mut Html, signals: &SizingSignals) {
    html.raw("<h3>What the pods say</h3>\n<dl class=\"facts\">")
        .fact("answered", format_args!("{} of {}", signals.pods_told, signals.pods));
    for (what, value) in [
        ("more by the metrics API", signals.pods_metered.map(|pods| pods.to_string())),
        ("fullest pod's memory", signals.memory_percent.map(percent)),
        ("busiest pod's processor time", signals.cpu_percent.map(percent)),
        ("inserts that ClickHouse refused", signals.sink_refused_percent.map(percent)),
    ] {
        if let Some(value) = value {
            html.fact(what, value);
        }
    }
    html.raw("</dl>\n");
}

fn percent(value: i32) -> String {
    format!("{value} %")
}
