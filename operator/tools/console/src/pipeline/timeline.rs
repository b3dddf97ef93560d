//! Renders figures over time: the last day in slots; sizing decisions with their inputs.

use millrace_reports::SizingDecision;
use millrace_reports::day::DaySlot;
use millrace_reports::units::{format_count, format_duration};

use crate::html::{Html, HtmlCell};

/// Maximum decisions in the table, the newest first.
const ROWS_MAX: usize = 20;
/// The drawing's own units; the browser stretches it.
const WIDTH: f64 = 1_000.0;
const HEIGHT: f64 = 100.0;

/// A curve: its name, and the value of a point, if it has one.
type Curve<T> = (&'static str, fn(&T) -> Option<f64>);

/// Something with a time.
trait Point {
    fn at_second(&self) -> i64;
}

impl Point for SizingDecision {
    fn at_second(&self) -> i64 {
        self.at_second
    }
}

impl Point for DaySlot {
    fn at_second(&self) -> i64 {
        self.at_second
    }
}

/// Renders the last day: the maximum of each quarter of an hour.
pub(crate) fn push_day(html: &mut Html, slots: &[DaySlot], now: i64) {
    html.raw("<h2>Last 24 hours</h2>\n");
    // One slot is no curve.
    let [first, _, ..] = slots else {
        html.raw("<p>History begins when this operator process becomes the leader; the first ")
            .raw("curve appears within 15 min.</p>\n");
        return;
    };
    let span = TimeSpan { from: first.at_second, to: now.max(first.at_second + 1) };
    let curves: [Curve<DaySlot>; 3] = [
        ("arrivals/s", |it| it.arrival_per_second.map(|it| it as f64)),
        ("lag in seconds", |it| it.lag_seconds.map(|it| it as f64)),
        ("gateway pods", |it| Some(f64::from(it.replicas))),
    ];
    html.raw("<div class=\"sparks\">");
    for curve in curves {
        push_figure(html, &[curve], slots, &span, now);
    }
    html.raw("</div>\n");
}

/// Renders the section; `now` is the time of the page, in seconds.
pub(crate) fn push_timeline(html: &mut Html, decisions: &[SizingDecision], now: i64) {
    html.raw("<h2>Sizing over time</h2>\n");
    let Some(first) = decisions.first() else {
        html.raw("<p>No decision since this operator process became the leader.</p>\n");
        return;
    };
    let span = TimeSpan { from: first.at_second, to: now.max(first.at_second + 1) };
    let pods: [Curve<SizingDecision>; 2] = [
        ("pods", |it| Some(f64::from(it.replicas))),
        ("wanted", |it| Some(f64::from(it.proposed_replicas))),
    ];
    let load: [Curve<SizingDecision>; 2] = [
        ("arrivals, messages/s", |it| it.arrival_per_second.map(|it| it as f64)),
        ("capacity, messages/s", |it| {
            Some(it.capacity_per_second? as f64 * f64::from(it.replicas))
        }),
    ];
    let lag: [Curve<SizingDecision>; 1] =
        [("lag, in seconds", |it| it.lag_seconds.map(|it| it as f64))];
    push_figure(html, &pods, decisions, &span, now);
    push_figure(html, &load, decisions, &span, now);
    push_figure(html, &lag, decisions, &span, now);
    push_decisions(html, decisions, now);
}

struct TimeSpan {
    from: i64,
    to: i64,
}

impl TimeSpan {
    fn x_position(&self, second: i64) -> f64 {
        let span = (self.to - self.from).max(1) as f64;
        ((second - self.from) as f64 / span * WIDTH).clamp(0.0, WIDTH)
    }
}

fn push_figure<T: Point>(
    html: &mut Html,
    curves: &[Curve<T>],
    points: &[T],
    span: &TimeSpan,
    now: i64,
) {
    let values = |of: fn(&T) -> Option<f64>| points.iter().filter_map(of);
    let most = curves.iter().flat_map(|(_, of)| values(*of)).reduce(f64::max);
    let Some(most) = most else { return };
    html.raw("<figure class=\"figure\"><figcaption>");
    for (index, (name, of)) in curves.iter().enumerate() {
        let last = points.iter().rev().find_map(of).unwrap_or(0.0);
        html.wrap_text("<span class=\"key ", curve_class(index), "\"></span>")
            .wrap_text("", name, ": ")
            .wrap_text("", format_count(last.round() as i64), "&emsp;");
    }
    html.wrap_text(
        "<span class=\"dim\">maximum: ",
        format_count(most.round() as i64),
        "</span></figcaption>",
    )
    .wrap_text("<svg viewBox=\"-4 -4 ", WIDTH + 8.0, " ")
    .wrap_text("", HEIGHT + 8.0, "\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"")
    .wrap_text("", curves.first().map_or("", |(name, _)| name), " over time\">");
    for (index, (_, of)) in curves.iter().enumerate() {
        html.wrap_text("<polyline class=\"", curve_class(index), "\" points=\"");
        let mut before: Option<f64> = None;
        for one in points {
            let Some(value) = of(one) else { continue };
            let (x, y) = (span.x_position(one.at_second()), y_position(value, most));
            if let Some(before) = before {
                push_point(html, x, before);
            }
            push_point(html, x, y);
            before = Some(y);
        }
        if let Some(last) = before {
            push_point(html, WIDTH, last);
        }
        html.raw("\"/>");
    }
    html.wrap_text(
        "</svg><div class=\"ends\"><span>",
        format_duration(now - span.from),
        " ago</span>",
    )
    .raw("<span>now</span></div></figure>\n");
}

/// Returns the vertical position: zero is at the bottom, the maximum at the top.
fn y_position(value: f64, most: f64) -> f64 {
    HEIGHT - (value / most.max(1.0) * HEIGHT).clamp(0.0, HEIGHT)
}

fn push_point(html: &mut Html, x: f64, y: f64) {
    html.wrap_text("", format_args!("{x:.1},{y:.1}"), " ");
}

const fn curve_class(index: usize) -> &'static str {
    if index == 0 { "one" } else { "two" }
}

fn push_decisions(html: &mut Html, decisions: &[SizingDecision], now: i64) {
    let percent = |value: Option<i32>| HtmlCell::figure(value.map(|value| format!("{value} %")));
    let row = |one: &SizingDecision| {
        vec![
            HtmlCell::text(format_args!("{} ago", format_duration(now - one.at_second))),
            HtmlCell::figure(Some(one.replicas)),
            HtmlCell::figure(Some(one.proposed_replicas)),
            HtmlCell::text(&one.reason),
            HtmlCell::figure(one.arrival_per_second.map(format_count)),
            HtmlCell::figure(one.needed_per_second.map(format_count)),
            HtmlCell::figure(one.capacity_per_second.map(format_count)),
            HtmlCell::figure(one.backlog_messages.map(format_count)),
            HtmlCell::figure(one.lag_seconds.map(format_duration)),
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
        ">arrivals/s",
        ">needed/s",
        ">capacity/pod/s",
        ">behind",
        ">lag",
        ">memory",
        ">cpu",
    ];
    html.push_table("Sizing decisions", &heads, &rows).push_omitted(decisions.len(), ROWS_MAX);
}
