//! Renders one pipeline's page: state, path, routes, problems and remedies, top producers,
//! rollouts, sizing, records not stored, tables, sources of edge pools, pods.

mod dead_letters;
mod limits;
mod path;
mod problems;
mod producers;
mod resources;
mod rollouts;
mod sizing;
mod tables;
mod timeline;

pub use dead_letters::DEAD_LETTERS_PARAMETER;
pub use limits::{ITEMS_MAX, POOLS_MAX};

use millrace_crds::v1alpha1::{RouteStatus, Signal};
use millrace_reports::day::DaySlot;
use millrace_reports::facts::{EventFacts, Facts, Gap};
use millrace_reports::units::{format_bytes, format_count, format_duration, format_rate};
use millrace_reports::{
    DeadLetterReport, Fate, PlannedStep, PodLine, ProducerReport, SizingDecision, StatusReport,
    UnstoredRecords, pool_sources, resource_tree, rollout_lines, sizing_report, status_report,
    summarize_pipeline, unstored_records,
};

use crate::html::{Frame, Html, HtmlCell};
use crate::lag_meter::{LagLevel, measure_lag};
use crate::links::{LinkNames, Links, push_link};
use crate::list;

/// The content of the page.
#[derive(Clone, Debug)]
pub struct PipelineView<'a> {
    /// The facts.
    pub facts: &'a Facts,
    /// Decisions on the gateways' size, the oldest first.
    pub decisions: &'a [SizingDecision],
    /// Steps that wait.
    pub steps: &'a [PlannedStep],
    /// The last day of the gateways, the oldest slot first.
    pub day: &'a [DaySlot],
    /// Recent events of its objects and pods, the newest first.
    pub events: &'a [EventFacts],
    /// The services that send the most bytes.
    pub producers: &'a ProducerReport,
    /// The newest dead letters, if the reader opened them.
    pub dead_letters: Option<&'a DeadLetterReport>,
    /// Templates of links to other programs.
    pub links: &'a Links,
    /// Whether the page reloads itself.
    pub reloads: bool,
    /// The text at the end of the page.
    pub footer: &'a str,
}

/// Renders the page.
#[must_use]
pub fn render_pipeline(view: &PipelineView<'_>) -> String {
    let facts = view.facts;
    let report = status_report(facts);
    let title = format!("{}/{} – Millrace", report.namespace, report.name);
    let mut html = Html::begin_page(Frame { title: &title, home: "../../", reloads: view.reloads });
    push_head(&mut html, &report, view);
    html.raw("<h2>Path of records</h2>\n");
    if report.interval_seconds.is_none() {
        html.raw("<p class=\"dim\">Rates need two readings: they appear at the next one.</p>\n");
    }
    for drawn in &report.paths {
        let link = view.links.clickhouse.as_ref().map(|link| (link, names_of(&report)));
        path::push_path(&mut html, drawn, report.lag_bound_seconds, link);
    }
    push_routes(&mut html, report.routes);
    problems::push_problems(&mut html, &report.findings, report.documentation_url.as_deref());
    timeline::push_day(&mut html, view.day, facts.at_second);
    producers::push_producers(&mut html, view.producers);
    resources::push_tree(&mut html, &resource_tree(facts));
    resources::push_events(&mut html, view.events, facts.at_second);
    rollouts::push_rollouts(&mut html, &rollout_lines(facts));
    if let Some(sizing) = sizing_report(facts) {
        sizing::push_sizing(&mut html, &sizing);
    }
    timeline::push_timeline(&mut html, view.decisions, facts.at_second);
    push_unstored(&mut html, &unstored_records(facts), view);
    tables::push_tables(&mut html, &facts.schemas, view.steps);
    tables::push_sources(&mut html, &pool_sources(facts));
    push_pods(&mut html, &report.pod_list);
    push_gaps(&mut html, &report.gaps);
    html.finish_page(view.footer)
}

fn push_head(html: &mut Html, report: &StatusReport<'_>, view: &PipelineView<'_>) {
    let verdict = summarize_pipeline(&view.facts.pipeline).verdict;
    let (class, word) = list::state_words(verdict, !report.healthy);
    html.wrap_text("<h1>", &report.name, "</h1>")
        .wrap_text("<p class=\"dim\">TelemetryPipeline in namespace ", &report.namespace, " · ")
        .raw(match view.reloads {
            true => "<a href=\"?still=1\">Stop auto-refresh</a></p>\n",
            false => "<a href=\"?\">Auto-refresh</a></p>\n",
        })
        .wrap_text("<div class=\"state ", class, "\" role=\"status\"><b>")
        .wrap_text("", word, "</b> ")
        .wrap_text("<span class=\"dim\">", &report.reason, "</span><dl class=\"facts\">");
    if let Some(pods) = &report.pods {
        html.push_fact("pods ready", pods);
    }
    if let Some(lag) = report.lag_seconds {
        push_head_lag(html, lag, report.lag_bound_seconds);
    }
    for (term, value) in [
        ("lag bound", report.lag_bound_seconds.map(format_duration)),
        ("tables' revision", report.schema_revision.clone()),
        ("image", report.image.clone()),
        ("clients send to", join_words(&report.endpoints)),
        ("rate interval", report.interval_seconds.map(|seconds| format!("{seconds:.0} s"))),
    ] {
        if let Some(value) = value {
            html.push_fact(term, value);
        }
    }
    html.raw("</dl>");
    if !report.findings.is_empty() {
        html.raw("<a href=\"#problems\">Problems and remedies</a>");
    }
    push_link(html, view.links.grafana.as_ref(), &names_of(report), "Grafana");
    html.raw("</div>\n");
}

/// Returns the names of links from a pipeline's page.
fn names_of<'a>(report: &'a StatusReport<'_>) -> LinkNames<'a> {
    LinkNames { namespace: &report.namespace, pipeline: &report.name, ..LinkNames::default() }
}

fn push_head_lag(html: &mut Html, lag: i64, bound: Option<i64>) {
    match bound.map(|bound| measure_lag(lag as f64, bound).level) {
        Some(level @ (LagLevel::Near | LagLevel::Over)) => {
            html.push_marked_fact("lag", format_duration(lag), level.class())
        }
        Some(LagLevel::Within) | None => html.push_fact("lag", format_duration(lag)),
    };
}

fn join_words(words: &[String]) -> Option<String> {
    (!words.is_empty()).then(|| words.join(", "))
}

/// Lists what rules route to topics of others, and the lag of whoever reads them.
fn push_routes(html: &mut Html, routes: &[RouteStatus]) {
    if routes.is_empty() {
        return;
    }
    html.raw("<h2>Routes</h2>\n");
    let row = |route: &RouteStatus| {
        let consumer = route.consumer.as_ref();
        let consumer = consumer.map(|it| format!("{} {}/{}", it.kind, it.namespace, it.name));
        let seconds = route.lag.as_ref().and_then(|lag| lag.seconds);
        vec![
            HtmlCell::text(&route.step),
            HtmlCell::text(Signal::from(route.signal).as_str()),
            HtmlCell::text(&route.topic),
            HtmlCell::figure(route.records.map(format_count)),
            HtmlCell::text(consumer.or_else(|| route.message.clone()).as_deref().unwrap_or("–")),
            HtmlCell::figure(seconds.map(format_duration)),
        ]
    };
    let rows: Vec<_> = routes.iter().take(ITEMS_MAX).map(row).collect();
    let heads = ["step", "signal", "topic", ">records routed", "consumer", ">lag"];
    html.push_table("Routes", &heads, &rows).push_omitted(routes.len(), ITEMS_MAX);
}

fn push_unstored(html: &mut Html, all: &[UnstoredRecords], view: &PipelineView<'_>) {
    let now = view.facts.at_second;
    html.raw("<h2>Rejected, dead-lettered, lost</h2>\n");
    if all.is_empty() {
        html.raw("<p>None reported.</p>\n");
    } else {
        push_unstored_table(html, all, now);
    }
    let has_dead_letters = all.iter().any(|one| one.fate == Fate::DeadLetter);
    if has_dead_letters || view.dead_letters.is_some() {
        dead_letters::push_dead_letters(html, view.dead_letters, now);
    }
}

fn push_unstored_table(html: &mut Html, all: &[UnstoredRecords], now: i64) {
    let row = |one: &UnstoredRecords| {
        let fate = match one.fate {
            Fate::Lost => "lost: retention deleted it unread",
            Fate::DeadLetter => "dead letter",
            Fate::Refused => "rejected: the client received an error",
        };
        let since = match one.reason {
            Some(_) => "start of the pods' processes",
            None => "creation of the pool",
        };
        let last = one.last_at_second.map(|at| format!("{} ago", format_duration(now - at)));
        let last = last.unwrap_or_else(|| "–".to_owned());
        vec![
            HtmlCell::text(fate),
            HtmlCell::text(&one.of),
            HtmlCell::text(one.reason.as_deref().unwrap_or("all reasons")),
            HtmlCell::figure(Some(format_count(one.count))),
            HtmlCell::figure(one.bytes.map(millrace_reports::units::format_bytes)),
            HtmlCell::text(since),
            HtmlCell::text(last),
            HtmlCell::text(one.topic.as_deref().unwrap_or("–")),
        ]
    };
    let rows: Vec<_> = all.iter().take(ITEMS_MAX).map(row).collect();
    let heads = [
        "what",
        "signal or topic",
        "reason",
        ">records",
        ">size",
        "since",
        "last",
        "dead letters in",
    ];
    html.push_table("Rejected, dead-lettered, lost", &heads, &rows)
        .push_omitted(all.len(), ITEMS_MAX);
}

fn push_pods(html: &mut Html, lines: &[PodLine<'_>]) {
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
        let ended = ended.map(|why| format!(" (last terminated: {why})")).unwrap_or_default();
        vec![
            HtmlCell::text(&pod.name),
            HtmlCell::text(format_args!("{state}{ended}")),
            HtmlCell::figure(Some(pod.restarts)),
            HtmlCell::figure(line.in_per_second.map(format_rate)),
            HtmlCell::figure(line.out_per_second.map(format_rate)),
            HtmlCell::figure(line.memory_bytes.map(format_bytes)),
            HtmlCell::figure(line.cpu_millicores.map(|used| format!("{used:.0}m"))),
            HtmlCell::text(pod.node.as_deref().unwrap_or("–")),
        ]
    };
    let rows: Vec<_> = lines.iter().take(ITEMS_MAX).map(row).collect();
    let heads = ["name", "state", ">restarts", ">in", ">out", ">memory", ">cpu", "node"];
    html.push_table("Pods", &heads, &rows).push_omitted(lines.len(), ITEMS_MAX);
}

fn push_gaps(html: &mut Html, push_gaps: &[Gap]) {
    if push_gaps.is_empty() {
        return;
    }
    html.raw("<h2>Not available</h2>\n<ul class=\"plain\">");
    for gap in push_gaps.iter().take(ITEMS_MAX) {
        html.wrap_text("<li class=\"state warn\">", &gap.what, ": ")
            .wrap_text("", &gap.why, "</li>\n");
    }
    html.raw("</ul>\n").push_omitted(push_gaps.len(), ITEMS_MAX);
}
