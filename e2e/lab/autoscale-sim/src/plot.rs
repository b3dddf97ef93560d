//! A run of every rule on one trace as an SVG: pods and load above, lag below. Text only.

use std::fmt::Write;

use crate::report::Sheet;
use crate::run::Point;
use crate::world::BOUND_SECONDS;

const WIDTH: f64 = 900.0;
const LEFT: f64 = 50.0;
const RIGHT: f64 = 160.0;
const PODS: (f64, f64) = (30.0, 230.0);
const LAG: (f64, f64) = (265.0, 375.0);
/// Lag beyond this is drawn at the edge.
const LAG_MAX_SECONDS: f64 = 300.0;
/// One colour for each rule, ours first; told apart by people who see colours differently too.
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#e69f00", "#009e73", "#cc79a7", "#999999"];

/// Draws a sheet.
#[must_use]
pub fn svg(sheet: &Sheet) -> String {
    let seconds = sheet.trace.seconds as f64;
    let points = || sheet.lines.iter().flat_map(|line| &line.points);
    let most = points().map(|point| f64::from(point.size).max(point.load)).fold(1.0, f64::max);
    let x = |point: &Point| LEFT + point.at as f64 / seconds * (WIDTH - LEFT - RIGHT);
    let pods = |pods: f64| PODS.1 - pods / most * (PODS.1 - PODS.0);
    let lag =
        |seconds: f64| LAG.1 - seconds.min(LAG_MAX_SECONDS) / LAG_MAX_SECONDS * (LAG.1 - LAG.0);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} 410\" \
         font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"{WIDTH}\" height=\"410\" \
         fill=\"#ffffff\"/>\n<text x=\"{LEFT}\" y=\"18\" font-size=\"13\">{}: pods wanted \
         (shaded: pods' worth of load)</text>\n",
        sheet.trace.name
    );
    axes(&mut out, most, seconds);
    if let Some(first) = sheet.lines.first() {
        let area: String = first
            .points
            .iter()
            .map(|point| format!("{:.1},{:.1} ", x(point), pods(point.load)))
            .collect();
        let (start, end) = (LEFT, first.points.last().map_or(LEFT, x));
        let _ = writeln!(
            out,
            "<polygon fill=\"#eeeeee\" points=\"{start},{0} {area}{end:.1},{0}\"/>",
            PODS.1
        );
    }
    // Ours last, so that it lies on top.
    for (nth, line) in sheet.lines.iter().enumerate().rev() {
        let wide = if nth == 0 { 2.2 } else { 1.1 };
        let style =
            format!("fill=\"none\" stroke=\"{}\" stroke-width=\"{wide}\"", COLOURS[nth % 6]);
        let steps = line.points.windows(2).map(|pair| {
            let y = pods(f64::from(pair[0].size));
            format!("{:.1},{y:.1} {:.1},{y:.1} ", x(&pair[0]), x(&pair[1]))
        });
        let _ =
            writeln!(out, "<polyline {style} points=\"{}\"/>", steps.collect::<String>().trim());
        let lags = line
            .points
            .iter()
            .map(|point| format!("{:.1},{:.1} ", x(point), lag(point.lag_seconds as f64)));
        let _ = writeln!(out, "<polyline {style} points=\"{}\"/>", lags.collect::<String>().trim());
        let y = PODS.0 + 18.0 * nth as f64 + 10.0;
        let _ = writeln!(
            out,
            "<line x1=\"{0}\" x2=\"{1}\" y1=\"{y}\" y2=\"{y}\" {style}/><text x=\"{2}\" \
             y=\"{3}\">{4}</text>",
            WIDTH - RIGHT + 15.0,
            WIDTH - RIGHT + 40.0,
            WIDTH - RIGHT + 46.0,
            y + 4.0,
            line.rule
        );
    }
    out.push_str("</svg>\n");
    out
}

fn axes(out: &mut String, most: f64, seconds: f64) {
    let right = WIDTH - RIGHT;
    for (top, bottom) in [PODS, LAG] {
        let _ = writeln!(
            out,
            "<path d=\"M{LEFT} {top}V{bottom}H{right}\" fill=\"none\" stroke=\"#444444\"/>"
        );
    }
    let bound = LAG.1 - BOUND_SECONDS as f64 / LAG_MAX_SECONDS * (LAG.1 - LAG.0);
    let _ = writeln!(
        out,
        "<line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{bound:.1}\" y2=\"{bound:.1}\" stroke=\"#aa0000\" \
         stroke-dasharray=\"4 3\"/>\n<text x=\"{}\" y=\"{:.1}\" fill=\"#aa0000\">bound</text>",
        right + 4.0,
        bound + 4.0
    );
    let mut label = |x: f64, y: f64, text: String| {
        let _ = writeln!(out, "<text x=\"{x}\" y=\"{y}\">{text}</text>");
    };
    label(LEFT, LAG.0 - 12.0, "age of the oldest message not committed, in seconds".to_owned());
    label(18.0, PODS.0 + 8.0, format!("{most:.0}"));
    label(30.0, PODS.1, "0".to_owned());
    label(18.0, LAG.0 + 8.0, format!("{LAG_MAX_SECONDS:.0}"));
    label(30.0, LAG.1, "0".to_owned());
    label(LEFT, LAG.1 + 16.0, "0 h".to_owned());
    label(right - 20.0, LAG.1 + 16.0, format!("{:.0} h", seconds / 3_600.0));
}
