//! One pipeline's page: how it is, what is wrong and what to do, its path, changes, sizing, what
//! was set aside, tables, what edge pools read, pods.

use millrace_reports::facts::{Facts, Gap};
use millrace_reports::units::{ago, bytes, rate};
use millrace_reports::{
    Aside, Decided, Fate, Finding, PlannedStep, PodLine, Severity, StatusReport, Verdict, aside,
    rollouts, sizing, sources, status, summary,
};

use crate::html::{Cell, Frame, Html};
use crate::{list, path, rollouts as changes, sizing as sizes, tables, timeline};

/// Edge pools drawn of a signal: a pipeline may have 8.
pub const POOLS_MAX: usize = 8;
/// Rows of any other list.
pub const ITEMS_MAX: usize = 100;

/// What the page shows.
#[derive(Clone, Debug)]
pub struct PipelineView<'a> {
    /// What was read.
    pub facts: &'a Facts,
    /// Decisions on the gateways' size, the oldest first.
    pub decisions: &'a [Decided],
    /// Steps that tables wait for.
    pub steps: &'a [PlannedStep],
    /// Whether the page asks for itself again.
    pub reloads: bool,
    /// What stands at the end of the page.
    pub note: &'a str,
}

/// The page.
#[must_use]
pub fn page(view: &PipelineView<'_>) -> String {
    let facts = view.facts;
    let report = status(facts);
    let title = format!("{}/{} – Millrace", report.namespace, report.name);
    let mut html = Html::begin(Frame { title: &title, home: "../../", reloads: view.reloads });
    head(&mut html, &report, summary(&facts.pipeline).verdict, view.reloads);
    findings(&mut html, &report.findings);
    html.raw("<h2>Path of records</h2>\n");
    if report.interval_seconds.is_none() {
        html.raw("<p class=\"dim\">Rates need two readings: they show from the next one on.</p>\n");
    }
    for drawn in &report.paths {
        path::draw(&mut html, drawn, report.lag_bound_seconds);
    }
    changes::section(&mut html, &rollouts(facts));
    if let Some(sizing) = sizing(facts) {
        sizes::section(&mut html, &sizing);
    }
    timeline::section(&mut html, view.decisions, facts.at_second);
    set_aside(&mut html, &aside(facts));
    tables::section(&mut html, &facts.schemas, view.steps);
    tables::sources(&mut html, &sources(facts));
    pods(&mut html, &report.pod_list);
    gaps(&mut html, &report.gaps);
    html.end(view.note)
}

fn head(html: &mut Html, report: &StatusReport<'_>, verdict: Verdict, reloads: bool) {
    let (class, word) = list::state(verdict, !report.healthy);
    html.put("<h1>", &report.name, "</h1>")
        .put("<p class=\"dim\">TelemetryPipeline in namespace ", &report.namespace, " · ")
        .raw(match reloads {
            true => "<a href=\"?still=1\">Stop reloading</a></p>\n",
            false => "<a href=\"?\">Reload by itself</a></p>\n",
        })
        .put("<div class=\"state ", class, "\" role=\"status\"><b>")
        .put("", word, "</b> ")
        .put("<span class=\"dim\">", &report.reason, "</span><dl class=\"facts\">");
    for (term, value) in [
        ("pods ready", report.pods.clone()),
        ("lag", report.lag_seconds.map(ago)),
        ("bound of the lag", report.lag_bound_seconds.map(ago)),
        ("tables' revision", report.schema_revision.clone()),
        ("image", report.image.clone()),
        ("clients send to", joined(&report.endpoints)),
        ("rates over", report.interval_seconds.map(|seconds| format!("{seconds:.0} s"))),
    ] {
        if let Some(value) = value {
            html.fact(term, value);
        }
    }
    html.raw("</dl></div>\n");
}

fn joined(words: &[String]) -> Option<String> {
    (!words.is_empty()).then(|| words.join(", "))
}

fn findings(html: &mut Html, findings: &[Finding]) {
    if findings.is_empty() {
        html.raw("<h2>Nothing is wrong</h2>\n");
        return;
    }
    html.raw("<h2>What is wrong</h2>\n<ul class=\"plain\">\n");
    for one in findings.iter().take(ITEMS_MAX) {
        let (class, word) = match one.severity {
            Severity::Broken => ("bad", "broken"),
            Severity::Loss => ("bad", "loss"),
            Severity::Unknown => ("warn", "unknown"),
            Severity::Advice => ("warn", "advice"),
        };
        html.put("<li class=\"state ", class, "\"><b>")
            .put("", &one.kind, " ")
            .put("", &one.name, "</b> ")
            .put("", &one.condition, " is ")
            .put("", &one.status, ", ")
            .put("<b>", &one.reason, "</b>")
            .put(" <span class=\"dim\">(", word, "");
        if let Some(seconds) = one.for_seconds {
            html.put(", for ", ago(seconds), "");
        }
        html.put(")</span><br>", &one.message, "");
        if let Some(remedy) = &one.remedy {
            html.put("<p class=\"remedy\">→ ", remedy.text, "").put(
                " <span class=\"dim\">",
                remedy.section,
                "</span></p>",
            );
        }
        html.raw("</li>\n");
    }
    html.raw("</ul>\n").left_out(findings.len(), ITEMS_MAX);
}

fn set_aside(html: &mut Html, all: &[Aside]) {
    html.raw("<h2>Refused, set aside, lost</h2>\n");
    if all.is_empty() {
        html.raw("<p>Nothing, as far as pods and statuses tell.</p>\n");
        return;
    }
    let row = |one: &Aside| {
        let fate = match one.fate {
            Fate::Lost => "lost: retention deleted it unread",
            Fate::DeadLetter => "dead letter",
            Fate::Refused => "refused: the client knows",
        };
        let since = match one.reason {
            Some(_) => "the pods' processes began",
            None => "the pool was made",
        };
        vec![
            Cell::words(fate),
            Cell::words(&one.of),
            Cell::words(one.reason.as_deref().unwrap_or("all reasons")),
            Cell::figure(Some(millrace_reports::units::count(one.count))),
            Cell::words(since),
        ]
    };
    let rows: Vec<_> = all.iter().take(ITEMS_MAX).map(row).collect();
    let heads = ["what", "signal or topic", "reason", ">records", "since"];
    html.table("Refused, set aside, lost", &heads, &rows).left_out(all.len(), ITEMS_MAX);
}

fn pods(html: &mut Html, lines: &[PodLine<'_>]) {
    if lines.is_empty() {
        return;
    }
    html.raw("<h2>Pods</h2>\n");
    let row = |line: &PodLine<'_>| {
        let pod = line.pod;
        let state = match (pod.ready, &*pod.state) {
            (true, "Running") => "Ready",
            (false, "Running") => "not ready",
            (_, other) => other,
        };
        let ended = pod.ended.as_deref().filter(|_ended| pod.restarts > 0);
        let ended = ended.map(|why| format!(" (ended last by {why})")).unwrap_or_default();
        vec![
            Cell::words(&pod.name),
            Cell::words(format_args!("{state}{ended}")),
            Cell::figure(Some(pod.restarts)),
            Cell::figure(line.in_per_second.map(rate)),
            Cell::figure(line.out_per_second.map(rate)),
            Cell::figure(line.memory_bytes.map(bytes)),
            Cell::figure(line.cpu_millicores.map(|used| format!("{used:.0}m"))),
            Cell::words(pod.node.as_deref().unwrap_or("–")),
        ]
    };
    let rows: Vec<_> = lines.iter().take(ITEMS_MAX).map(row).collect();
    let heads = ["name", "state", ">restarts", ">in", ">out", ">memory", ">cpu", "node"];
    html.table("Pods", &heads, &rows).left_out(lines.len(), ITEMS_MAX);
}

fn gaps(html: &mut Html, gaps: &[Gap]) {
    if gaps.is_empty() {
        return;
    }
    html.raw("<h2>Not shown</h2>\n<ul class=\"plain\">");
    for gap in gaps.iter().take(ITEMS_MAX) {
        html.put("<li class=\"state warn\">", &gap.what, ": ").put("", &gap.why, "</li>\n");
    }
    html.raw("</ul>\n").left_out(gaps.len(), ITEMS_MAX);
}
