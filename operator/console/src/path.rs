//! The drawing of a signal's path: a card for each hop, an arrow with the rate between two.

use millrace_reports::units::{ago, count, rate};
use millrace_reports::{EdgeHop, GatewayHop, Path, TablesHop, Told, TopicHop};

use crate::html::Html;
use crate::pipeline::POOLS_MAX;

/// How a hop is.
#[derive(Clone, Copy)]
enum Mark {
    Good,
    Warn,
    Bad,
    Unknown,
}

impl Mark {
    const fn class(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Warn => "warn",
            Self::Bad => "bad",
            Self::Unknown => "unknown",
        }
    }

    /// By ready and wanted pods, as text.
    fn of_pods(pods: Option<&str>) -> Self {
        match pods.and_then(|pods| pods.split_once('/')) {
            Some((ready, wanted)) if ready == wanted => Self::Good,
            Some(("?", _)) | None => Self::Unknown,
            Some(_) => Self::Bad,
        }
    }
}

/// One signal's drawing; `bound_seconds` is that of the lag.
pub(crate) fn draw(html: &mut Html, path: &Path, bound_seconds: Option<i64>) {
    let shown = path.edges.len().min(POOLS_MAX);
    let out = total(path.edges.iter().map(|edge| edge.out_per_second));
    html.put("<section><h3>", path.signal, "</h3>\n<ol class=\"path\">");
    html.raw("<li class=\"hops\">");
    for edge in path.edges.iter().take(shown) {
        edge_card(html, edge);
    }
    html.left_out(path.edges.len(), shown).raw("</li>");
    arrow(html, "into Kafka", out);
    html.raw("<li class=\"hops\">");
    topic_card(html, &path.topic, bound_seconds);
    html.raw("</li>");
    arrow(html, "out of Kafka", path.gateway.in_per_second);
    html.raw("<li class=\"hops\">");
    gateway_card(html, &path.gateway);
    html.raw("</li>");
    arrow(html, "into ClickHouse", path.gateway.out_per_second);
    html.raw("<li class=\"hops\">");
    tables_card(html, &path.tables);
    html.raw("</li></ol></section>\n");
}

/// The sum of what is known; none if nothing is.
fn total(rates: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    rates.flatten().reduce(|a, b| a + b)
}

/// The wider, the more flows: each further pixel is ten times as much.
fn arrow(html: &mut Html, what: &str, per_second: Option<f64>) {
    let width = per_second.map_or(1.0, |rate| 1.0 + rate.max(0.0).ln_1p() / 10_f64.ln());
    html.put("<li class=\"flow\"><span title=\"records ", what, "\">")
        .put("", per_second.map_or("?/s".to_owned(), rate), "</span>")
        .raw("<svg viewBox=\"0 0 64 16\" aria-hidden=\"true\"><line x1=\"4\" y1=\"8\" x2=\"56\" ")
        .put("y2=\"8\" stroke-width=\"", format_args!("{width:.1}"), "\"/>")
        .raw("<path d=\"M52 3 L59 8 L52 13\" stroke-width=\"2\"/></svg></li>");
}

fn card(html: &mut Html, mark: Mark, kind: &str, name: &str) {
    html.put("<article class=\"hop ", mark.class(), "\"><h4><span>").put("", kind, "</span>").put(
        "",
        name,
        "</h4><dl>",
    );
}

fn edge_card(html: &mut Html, edge: &EdgeHop) {
    let refused = edge.refused.filter(|count| *count > 0);
    let mark = match Mark::of_pods(Some(&edge.pods)) {
        Mark::Good if edge.refused_per_second.is_some_and(|rate| rate > 0.0) => Mark::Warn,
        other => other,
    };
    card(html, mark, "edge pool", &edge.pool);
    html.fact("pods ready", &edge.pods).fact("in", known(edge.in_per_second.map(rate)));
    html.fact("held", known(edge.held.map(count)));
    if let Some(refused) = refused {
        let why = edge.refused_reason.as_deref().unwrap_or("no reason told");
        html.fact("refused", format_args!("{} ({why})", count(refused)));
    }
    told(html, edge.told);
    html.raw("</dl></article>");
}

fn topic_card(html: &mut Html, topic: &TopicHop, bound_seconds: Option<i64>) {
    let late = |oldest: f64| bound_seconds.is_some_and(|bound| oldest > bound as f64);
    let mark = match (topic.lost_messages > 0, topic.oldest_seconds) {
        (true, _) => Mark::Bad,
        (false, Some(oldest)) if late(oldest) => Mark::Bad,
        (false, None) if topic.partitions.is_none() => Mark::Unknown,
        _ => Mark::Good,
    };
    card(html, mark, "topic", &topic.name);
    html.fact("partitions", known(topic.partitions))
        .fact("messages waiting", known(topic.waiting_messages.map(count)))
        .fact("oldest", known(topic.oldest_seconds.map(|it| ago(it.round() as i64))));
    if topic.lost_messages > 0 {
        html.fact("lost unread", count(topic.lost_messages));
    }
    told(html, topic.told);
    html.raw("</dl>");
    if let (Some(oldest), Some(bound)) = (topic.oldest_seconds, bound_seconds) {
        html.put("<meter min=\"0\" low=\"0\" optimum=\"0\" high=\"", bound, "\" max=\"")
            .put("", bound.saturating_mul(2), "\" value=\"")
            .put("", format_args!("{oldest:.1}"), "\" aria-label=\"lag of its bound\">")
            .put("", ago(oldest.round() as i64), "</meter>")
            .put("<span class=\"dim\">bound ", ago(bound), "</span>");
    }
    html.raw("</article>");
}

fn gateway_card(html: &mut Html, gateway: &GatewayHop) {
    let mark = match Mark::of_pods(gateway.pods.as_deref()) {
        Mark::Good if gateway.dead_letters > 0 => Mark::Warn,
        other => other,
    };
    card(html, mark, "gateway pool", gateway.pool.as_deref().unwrap_or("not read"));
    html.fact("pods ready", known(gateway.pods.as_deref()))
        .fact("held", known(gateway.held.map(count)));
    if gateway.dead_letters > 0 {
        let why = gateway.dead_letters_reason.as_deref();
        let why = why.map(|why| format!(" ({why})")).unwrap_or_default();
        html.fact("dead letters", format_args!("{}{why}", count(gateway.dead_letters)));
    }
    told(html, gateway.told);
    html.raw("</dl></article>");
}

fn tables_card(html: &mut Html, tables: &TablesHop) {
    let mark = tables.revision.as_ref().map_or(Mark::Unknown, |_verified| Mark::Good);
    card(html, mark, "table", &tables.name);
    html.fact("revision", tables.revision.as_deref().unwrap_or("not verified"))
        .raw("</dl></article>");
}

/// Sums that lack pods say so.
fn told(html: &mut Html, told: Told) {
    if told.is_partial() {
        html.fact("pods that told", format_args!("{} of {}", told.answered, told.pods));
    }
}

fn known(value: Option<impl std::fmt::Display>) -> String {
    value.map_or("?".to_owned(), |value| value.to_string())
}
