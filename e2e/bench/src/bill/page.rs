//! A kind's lines as tables in Markdown, and as bars in an SVG: what docs/internals/performance/bill.md
//! shows. Made from lines alone, so that results that were kept can be drawn again.

use std::fmt::Write;

use super::Line;

/// A billion records a day, as records a second.
const RECORDS_PER_SECOND: f64 = 1e9 / 86_400.0;

/// The stages, and their colours; told apart by people who see colours differently too.
const STAGES: [(&str, &str); 5] = [
    ("edge", "#0072b2"),
    ("broker", "#999999"),
    ("gateway", "#009e73"),
    ("inserts", "#e69f00"),
    ("merges", "#d55e00"),
];
const WIDTH: f64 = 860.0;
/// Where bars begin, behind the names of ways.
const LEFT: f64 = 220.0;
/// The longest bar; its figure stands behind it.
const BAR: f64 = 560.0;
const ROW: f64 = 20.0;
const TOP: f64 = 62.0;

impl Line {
    /// CPU time of each stage, in nanoseconds a record.
    fn stages(&self) -> [f64; STAGES.len()] {
        let [written, read] = self.broker_ns;
        [self.edge_ns, written + read, self.gateway_ns, self.insert_ns, self.merge_ns]
    }

    fn sum(&self) -> f64 {
        self.stages().iter().sum()
    }
}

/// Both tables of a kind.
pub(super) fn tables(lines: &[Line]) -> String {
    let mut out = String::from(
        "| way | edge | broker | gateway | inserts (queries alone) | merges | sum | cores for a \
         billion a day | bytes a record | parts inserted |\n\
         | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
    );
    for line in lines {
        let [edge, broker, gateway, insert, merge] = line.stages();
        let cores = line.sum() * 1e-9 * RECORDS_PER_SECOND;
        let Line { way, insert_query_ns, bytes_per_record, parts_inserted, .. } = line;
        let _ = writeln!(
            out,
            "| {way} | {edge:.0} | {broker:.0} | {gateway:.0} | {insert:.0} \
             ({insert_query_ns:.0}){} | {merge:.0}{} | {:.0} | {cores:.3} | \
             {bytes_per_record:.1} | {parts_inserted} |",
            between(line, line.insert_ns_range),
            between(line, line.merge_ns_range),
            line.sum(),
        );
    }
    let Some(first) = lines.first() else { return out };
    out.push_str("\n| way |");
    first.queries_ms.iter().for_each(|(question, _)| {
        let _ = write!(out, " {question} |");
    });
    out.push_str("\n| --- |");
    out.push_str(&" ---: |".repeat(first.queries_ms.len()));
    for Line { way, queries_ms, .. } in lines {
        let _ = write!(out, "\n| {way} |");
        queries_ms.iter().for_each(|(_, millis)| {
            let _ = write!(out, " {millis:.1} |");
        });
    }
    out.push('\n');
    out
}

/// What a figure was between, where there is more than one round.
fn between(line: &Line, [least, most]: [f64; 2]) -> String {
    match line.rounds {
        0 | 1 => String::new(),
        _ => format!(", {least:.0} to {most:.0}"),
    }
}

/// A bar for each way, its stages one behind the other.
pub(super) fn bars(lines: &[Line]) -> String {
    let height = TOP + ROW * lines.len() as f64 + 8.0;
    let most = lines.iter().map(Line::sum).fold(f64::MIN_POSITIVE, f64::max);
    let of = lines.first().map_or("records", |line| &*line.records_of);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"{WIDTH}\" \
         height=\"{height}\" fill=\"#ffffff\"/>\n<text x=\"10\" y=\"20\" font-size=\"13\">{of}: CPU \
         time of a record, in nanoseconds</text>\n"
    );
    for (nth, (stage, colour)) in STAGES.iter().enumerate() {
        let x = LEFT + 90.0 * nth as f64;
        let _ = writeln!(
            out,
            "<rect x=\"{x}\" y=\"33\" width=\"12\" height=\"12\" fill=\"{colour}\"/><text \
             x=\"{}\" y=\"43\">{stage}</text>",
            x + 18.0
        );
    }
    for (nth, line) in lines.iter().enumerate() {
        let y = TOP + ROW * nth as f64;
        let _ = writeln!(out, "<text x=\"10\" y=\"{}\">{}</text>", y + 11.0, line.way);
        let mut x = LEFT;
        for (stage, (_, colour)) in line.stages().iter().zip(STAGES) {
            let width = stage / most * BAR;
            let _ = writeln!(
                out,
                "<rect x=\"{x:.1}\" y=\"{y}\" width=\"{width:.1}\" height=\"14\" \
                 fill=\"{colour}\"/>"
            );
            x += width;
        }
        let _ =
            writeln!(out, "<text x=\"{:.1}\" y=\"{}\">{:.0}</text>", x + 6.0, y + 11.0, line.sum());
    }
    out.push_str("</svg>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn line(way: &str, insert_ns: f64, rounds: u64) -> Line {
        let line = json!({
            "case": "bill", "records_of": "lean", "way": way, "records": 10, "rounds": rounds,
            "edge_ns": 500.0, "broker_ns": [600.0, 100.0], "gateway_ns": 300.0,
            "insert_ns": insert_ns, "insert_ns_range": [insert_ns, insert_ns + 40.0],
            "insert_query_ns": 900.0, "merge_ns": 1000.0, "merge_ns_range": [990.0, 1010.0],
            "bytes_per_record": 36.04, "parts_inserted": 7, "parts_left": 1, "merges": 2,
            "queries_ms": [["a trace", 9.04], ["presence", 4.0]],
        });
        serde_json::from_value(line).unwrap()
    }

    /// Scenario: two ways, one measured in two rounds. Guarantee: stages, their sum, what a billion
    /// records a day come to, and questions stand in the tables; a range only where there is one.
    #[test]
    fn tables_have_sums_and_cores() {
        let page = tables(&[line("map", 1820.0, 1), line("json", 1500.0, 2)]);
        let rows = [
            "| map | 500 | 700 | 300 | 1820 (900) | 1000 | 4320 | 0.050 | 36.0 | 7 |",
            "| json | 500 | 700 | 300 | 1500 (900), 1500 to 1540 | 1000, 990 to 1010 | 4000 | 0.046 \
             | 36.0 | 7 |",
            "| way | a trace | presence |",
            "| json | 9.0 | 4.0 |",
        ];
        for row in rows {
            assert!(page.lines().any(|line| line == row), "no {row} in\n{page}");
        }
    }

    /// Scenario: two ways, one twice as dear. Guarantee: the dearer one's bars fill the width, and
    /// both sums are written.
    #[test]
    fn bars_are_as_long_as_their_share() {
        let drawn = bars(&[line("map", 1500.0, 1), line("json", 5500.0, 1)]);
        assert!(drawn.contains(">4000</text>") && drawn.contains(">8000</text>"), "{drawn}");
        let insert = format!("width=\"{:.1}\"", 5500.0 / 8000.0 * BAR);
        assert!(drawn.contains(&insert), "no {insert} in\n{drawn}");
    }
}
