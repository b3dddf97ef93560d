//! Sizing decisions on a time line: pods, load, lag; then each decision with its inputs.

use millrace_reports::Decided;
use millrace_reports::units::{ago, count};

use crate::html::{Cell, Html};

/// Decisions in the table, the newest first.
const ROWS_MAX: usize = 20;
/// The drawing's own units; it is stretched to its place.
const WIDTH: f64 = 1_000.0;
const HEIGHT: f64 = 100.0;

/// A curve: its name, and a value of each decision that has one.
type Curve = (&'static str, fn(&Decided) -> Option<f64>);

/// The section; `now` is when the page was made, in seconds.
pub(crate) fn section(html: &mut Html, decisions: &[Decided], now: i64) {
    html.raw("<h2>Sizing over time</h2>\n");
    let Some(first) = decisions.first() else {
        html.raw("<p>No decision since this operator's process began to lead.</p>\n");
        return;
    };
    let span = Span { from: first.at_second, to: now.max(first.at_second + 1) };
    let pods: [Curve; 2] =
        [("pods", |it| Some(f64::from(it.replicas))), ("wanted", |it| Some(f64::from(it.wanted)))];
    let load: [Curve; 2] = [
        ("messages/s that arrive", |it| it.arrival_per_second.map(|it| it as f64)),
        ("messages/s that all pods do", |it| {
            Some(it.capacity_per_second? as f64 * f64::from(it.replicas))
        }),
    ];
    let lag: [Curve; 1] = [("lag, in seconds", |it| it.lag_seconds.map(|it| it as f64))];
    figure(html, &pods, decisions, &span, now);
    figure(html, &load, decisions, &span, now);
    figure(html, &lag, decisions, &span, now);
    table(html, decisions, now);
}

struct Span {
    from: i64,
    to: i64,
}

impl Span {
    fn at(&self, second: i64) -> f64 {
        let whole = (self.to - self.from).max(1) as f64;
        ((second - self.from) as f64 / whole * WIDTH).clamp(0.0, WIDTH)
    }
}

fn figure(html: &mut Html, curves: &[Curve], decisions: &[Decided], span: &Span, now: i64) {
    let values = |of: fn(&Decided) -> Option<f64>| decisions.iter().filter_map(of);
    let most = curves.iter().flat_map(|(_, of)| values(*of)).reduce(f64::max);
    let Some(most) = most else { return };
    html.raw("<figure class=\"figure\"><figcaption>");
    for (index, (name, of)) in curves.iter().enumerate() {
        let last = decisions.iter().rev().find_map(of).unwrap_or(0.0);
        html.put("<span class=\"key ", class(index), "\"></span>").put("", name, ": ").put(
            "",
            count(last.round() as i64),
            "&emsp;",
        );
    }
    html.put("<span class=\"dim\">most: ", count(most.round() as i64), "</span></figcaption>")
        .put("<svg viewBox=\"-4 -4 ", WIDTH + 8.0, " ")
        .put("", HEIGHT + 8.0, "\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"")
        .put("", curves.first().map_or("", |(name, _)| name), " over time\">");
    for (index, (_, of)) in curves.iter().enumerate() {
        html.put("<polyline class=\"", class(index), "\" points=\"");
        let mut before: Option<f64> = None;
        for one in decisions {
            let Some(value) = of(one) else { continue };
            let (x, y) = (span.at(one.at_second), height(value, most));
            if let Some(before) = before {
                point(html, x, before);
            }
            point(html, x, y);
            before = Some(y);
        }
        if let Some(last) = before {
            point(html, WIDTH, last);
        }
        html.raw("\"/>");
    }
    html.put("</svg><div class=\"ends\"><span>", ago(now - span.from), " ago</span>")
        .raw("<span>now</span></div></figure>\n");
}

/// From the bottom: nothing is at the bottom, the most at the top.
fn height(value: f64, most: f64) -> f64 {
    HEIGHT - (value / most.max(1.0) * HEIGHT).clamp(0.0, HEIGHT)
}

fn point(html: &mut Html, x: f64, y: f64) {
    html.put("", format_args!("{x:.1},{y:.1}"), " ");
}

const fn class(index: usize) -> &'static str {
    if index == 0 { "one" } else { "two" }
}

fn table(html: &mut Html, decisions: &[Decided], now: i64) {
    let percent = |value: Option<i32>| Cell::figure(value.map(|value| format!("{value} %")));
    let row = |one: &Decided| {
        vec![
            Cell::words(format_args!("{} ago", ago(now - one.at_second))),
            Cell::figure(Some(one.replicas)),
            Cell::figure(Some(one.wanted)),
            Cell::words(&one.reason),
            Cell::figure(one.arrival_per_second.map(count)),
            Cell::figure(one.needed_per_second.map(count)),
            Cell::figure(one.capacity_per_second.map(count)),
            Cell::figure(one.backlog_messages.map(count)),
            Cell::figure(one.lag_seconds.map(ago)),
            percent(one.memory_percent),
            percent(one.cpu_percent),
        ]
    };
    let rows: Vec<_> = decisions.iter().rev().take(ROWS_MAX).map(row).collect();
    let heads = [
        "decided",
        ">pods",
        ">wanted",
        "reason",
        ">arrive/s",
        ">needed/s",
        ">a pod does/s",
        ">waiting",
        ">lag",
        ">memory",
        ">cpu",
    ];
    html.table("Sizing decisions", &heads, &rows).left_out(decisions.len(), ROWS_MAX);
}
