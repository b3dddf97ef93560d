//! Draws a signal's path: a card for each hop, and an arrow with the rate between two.

use millrace_reports::units::{format_count, format_duration, format_rate};
use millrace_reports::{EdgeHop, GatewayHop, ReportingPods, SignalPath, TablesHop, TopicHop};

use crate::html::Html;
use crate::lag_meter::{LagLevel, measure_lag, push_lag};
use crate::links::{LinkNames, LinkTemplate, push_link};
use crate::pipeline::limits::POOLS_MAX;

/// The state of a hop.
#[derive(Clone, Copy)]
enum HopState {
    Good,
    Warn,
    Bad,
    Unknown,
}

impl HopState {
    const fn class(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Warn => "warn",
            Self::Bad => "bad",
            Self::Unknown => "unknown",
        }
    }

    /// Returns the state by ready and wanted pods, as text.
    fn of_pods(pods: Option<&str>) -> Self {
        match pods.and_then(|pods| pods.split_once('/')) {
            Some((ready, desired)) if ready == desired => Self::Good,
            Some(("?", _)) | None => Self::Unknown,
            Some(_) => Self::Bad,
        }
    }
}

/// A link to ClickHouse, with the pipeline's names.
pub(crate) type TableLink<'a> = (&'a LinkTemplate, LinkNames<'a>);

/// Draws one signal; `bound_seconds` is that of the lag.
pub(crate) fn push_path(
    html: &mut Html,
    path: &SignalPath,
    bound_seconds: Option<i64>,
    link: Option<TableLink<'_>>,
) {
    let shown = path.edges.len().min(POOLS_MAX);
    let out = total_rate(path.edges.iter().map(|edge| edge.out_per_second));
    html.wrap_text("<section><h3>", path.signal, "</h3>\n<ol class=\"path\">");
    html.raw("<li class=\"hops\">");
    for edge in path.edges.iter().take(shown) {
        edge_card(html, edge);
    }
    html.push_omitted(path.edges.len(), shown).raw("</li>");
    push_arrow(html, "into Kafka", out);
    html.raw("<li class=\"hops\">");
    topic_card(html, &path.topic, bound_seconds);
    html.raw("</li>");
    push_arrow(html, "out of Kafka", path.gateway.in_per_second);
    html.raw("<li class=\"hops\">");
    gateway_card(html, &path.gateway);
    html.raw("</li>");
    push_arrow(html, "into ClickHouse", path.gateway.out_per_second);
    html.raw("<li class=\"hops\">");
    tables_card(html, &path.tables, path.signal, link);
    html.raw("</li></ol></section>\n");
}

/// Returns the sum of the known rates; `None` if none is.
fn total_rate(rates: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    rates.flatten().reduce(|a, b| a + b)
}

/// Draws an arrow whose width grows with the logarithm of the rate: each further pixel is ten times
/// as much.
fn push_arrow(html: &mut Html, what: &str, per_second: Option<f64>) {
    let width = per_second.map_or(1.0, |rate| 1.0 + rate.max(0.0).ln_1p() / 10_f64.ln());
    html.wrap_text("<li class=\"flow\"><span title=\"records ", what, "\">")
        .wrap_text("", per_second.map_or("?/s".to_owned(), format_rate), "</span>")
        .raw("<svg viewBox=\"0 0 64 16\" aria-hidden=\"true\"><line x1=\"4\" y1=\"8\" x2=\"56\" ")
        .wrap_text("y2=\"8\" stroke-width=\"", format_args!("{width:.1}"), "\"/>")
        .raw("<path d=\"M52 3 L59 8 L52 13\" stroke-width=\"2\"/></svg></li>");
}

fn begin_card(html: &mut Html, mark: HopState, kind: &str, name: &str) {
    html.wrap_text("<article class=\"hop ", mark.class(), "\"><h4><span>")
        .wrap_text("", kind, "</span>")
        .wrap_text("", name, "</h4><dl>");
}

fn edge_card(html: &mut Html, edge: &EdgeHop) {
    let refused = edge.refused.filter(|count| *count > 0);
    let mark = match HopState::of_pods(Some(&edge.pods)) {
        HopState::Good if edge.refused_per_second.is_some_and(|rate| rate > 0.0) => HopState::Warn,
        other => other,
    };
    begin_card(html, mark, "edge pool", &edge.pool);
    html.push_fact("pods ready", &edge.pods)
        .push_fact("in", or_unknown(edge.in_per_second.map(format_rate)));
    html.push_fact("in flight", or_unknown(edge.in_flight.map(format_count)));
    if let Some(refused) = refused {
        let why = edge.refused_reason.as_deref().unwrap_or("no reason reported");
        html.push_fact("rejected", format_args!("{} ({why})", format_count(refused)));
    }
    push_reporting(html, edge.reporting);
    html.raw("</dl></article>");
}

fn topic_card(html: &mut Html, topic: &TopicHop, bound_seconds: Option<i64>) {
    let level = topic.oldest_seconds.zip(bound_seconds);
    let level = level.map(|(oldest, bound)| measure_lag(oldest, bound).level);
    let mark = match (topic.lost_messages > 0, level) {
        (true, _) | (false, Some(LagLevel::Over)) => HopState::Bad,
        (false, Some(LagLevel::Near)) => HopState::Warn,
        (false, None) if topic.partitions.is_none() => HopState::Unknown,
        _ => HopState::Good,
    };
    begin_card(html, mark, "topic", &topic.name);
    html.push_fact("partitions", or_unknown(topic.partitions))
        .push_fact("messages behind", or_unknown(topic.waiting_messages.map(format_count)))
        .push_fact(
            "oldest",
            or_unknown(topic.oldest_seconds.map(|it| format_duration(it.round() as i64))),
        );
    if topic.lost_messages > 0 {
        html.push_fact("lost unread", format_count(topic.lost_messages));
    }
    push_reporting(html, topic.reporting);
    html.raw("</dl>");
    if let (Some(oldest), Some(bound)) = (topic.oldest_seconds, bound_seconds) {
        push_lag(html, oldest, bound);
    }
    html.raw("</article>");
}

fn gateway_card(html: &mut Html, gateway: &GatewayHop) {
    let mark = match HopState::of_pods(gateway.pods.as_deref()) {
        HopState::Good if gateway.dead_letters > 0 => HopState::Warn,
        other => other,
    };
    begin_card(html, mark, "gateway pool", gateway.pool.as_deref().unwrap_or("not read"));
    html.push_fact("pods ready", or_unknown(gateway.pods.as_deref()))
        .push_fact("in flight", or_unknown(gateway.in_flight.map(format_count)));
    if gateway.dead_letters > 0 {
        let why = gateway.dead_letters_reason.as_deref();
        let why = why.map(|why| format!(" ({why})")).unwrap_or_default();
        html.push_fact("dead letters", format_args!("{}{why}", format_count(gateway.dead_letters)));
    }
    push_reporting(html, gateway.reporting);
    html.raw("</dl></article>");
}

fn tables_card(html: &mut Html, tables: &TablesHop, signal: &str, link: Option<TableLink<'_>>) {
    let mark = tables.revision.as_ref().map_or(HopState::Unknown, |_verified| HopState::Good);
    begin_card(html, mark, "table", &tables.name);
    html.push_fact("revision", tables.revision.as_deref().unwrap_or("not verified")).raw("</dl>");
    if let Some((template, names)) = link {
        let (database, table) = tables.name.split_once('.').unwrap_or(("", tables.name.as_str()));
        // Metrics have a table for each type: the link leads to that of gauges.
        let table = table.replace("_*", "_gauge");
        let names = LinkNames { signal, database, table: &table, ..names };
        push_link(html, Some(template), &names, "ClickHouse");
    }
    html.raw("</article>");
}

/// Marks sums that lack pods.
fn push_reporting(html: &mut Html, push_reporting: ReportingPods) {
    if push_reporting.is_partial() {
        html.push_fact(
            "pods reporting",
            format_args!("{} of {}", push_reporting.answered, push_reporting.pods),
        );
    }
}

fn or_unknown(value: Option<impl std::fmt::Display>) -> String {
    value.map_or("?".to_owned(), |value| value.to_string())
}
