//! A suite's results for people: a table in Markdown, and plots of what servers used as SVG. Made
//! from records alone.

use std::fmt::Write;
use std::fs;
use std::io;
use std::path::Path;

use serde_json::Value;

use super::matrix::{Cell, Matrix};
use super::record::Records;

/// One colour for each kind of server; told apart by people who see colours differently too.
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#e69f00", "#009e73", "#cc79a7", "#999999"];
const WIDTH: f64 = 860.0;
const LEFT: f64 = 310.0;
const ROW: f64 = 18.0;
/// Three plots side by side.
const PLOT: f64 = 160.0;

/// The figures that are told: a heading, and how to find it in a round's result.
const FIGURES: [(&str, Find); 5] = [
    ("seconds", |result| all(result)["window_seconds"].as_f64()),
    ("operations/s", |result| all(result)["per_second"].as_f64()),
    ("p99 ms", |result| Some(all(result)["latency_us"]["99"].as_f64()? / 1e3)),
    ("server CPU s", |result| result["server_cpu_seconds"].as_f64()),
    ("server MiB", |result| Some(result["server_memory_bytes_max"].as_f64()? / 1_048_576.0)),
];
/// The ones that are drawn.
const DRAWN: [usize; 3] = [0, 3, 4];

type Find = fn(&Value) -> Option<f64>;

/// Least, median and most of some rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Spread {
    least: f64,
    median: f64,
    most: f64,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (least, most) = (*values.first()?, *values.last()?);
        let half = values.len() / 2;
        let median = match values.len() % 2 {
            0 => f64::midpoint(values[half - 1], values[half]),
            _ => values[half],
        };
        Some(Self { least, median, most })
    }
}

fn all(result: &Value) -> &Value {
    let kinds = result["kinds"].as_array().map(Vec::as_slice).unwrap_or_default();
    kinds.iter().find(|kind| kind["kind"] == "all").unwrap_or(&Value::Null)
}

/// Writes `report.md`, and a plot for each load.
pub(crate) fn write(dir: &Path, matrix: &Matrix, records: &Records) -> io::Result<()> {
    let cells = matrix.cells();
    let mut text = format!(
        "# Suite {}\n\nMedian (least to most) of up to {} rounds. CPU and memory: of all servers \
         together, and of the one that had most. Samples: `samples.jsonl`, {} lines.\n",
        matrix.name,
        matrix.repeats,
        records.samples()?.len()
    );
    let mut loads: Vec<String> = cells.iter().map(Cell::load).collect();
    loads.dedup();
    for (nth, load) in loads.iter().enumerate() {
        let cells: Vec<&Cell> = cells.iter().filter(|cell| cell.load() == *load).collect();
        let plot = format!("load-{nth}.svg");
        fs::write(dir.join(&plot), svg(load, &cells, records))?;
        table(&mut text, load, &cells, records);
        let _ = writeln!(text, "\n![what servers used]({plot})");
    }
    fs::write(dir.join("report.md"), text)
}

fn spreads(cell: &Cell, records: &Records) -> (usize, Vec<Option<Spread>>) {
    let name = cell.name();
    let of = |(_, find): &(&str, Find)| Spread::of(records.of(&name).filter_map(find).collect());
    (records.of(&name).count(), FIGURES.iter().map(of).collect())
}

fn table(text: &mut String, load: &str, cells: &[&Cell], records: &Records) {
    let heads: Vec<&str> = FIGURES.iter().map(|(head, _)| *head).collect();
    let _ = writeln!(text, "\n## {load}\n\n| servers | rounds | {} |", heads.join(" | "));
    let _ = writeln!(text, "| --- | --- |{}", " --- |".repeat(heads.len()));
    for cell in cells {
        let (rounds, spreads) = spreads(cell, records);
        let _ = write!(text, "| {} | {rounds} |", cell.server.name());
        for spread in spreads {
            let _ = match spread {
                None => write!(text, " |"),
                Some(Spread { least, median, most }) => {
                    write!(text, " {} ({} to {}) |", short(median), short(least), short(most))
                }
            };
        }
        text.push('\n');
    }
}

/// Three digits are more than the spread of most rounds deserves.
fn short(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

/// Bars: medians, with a line from the least to the most.
fn svg(load: &str, cells: &[&Cell], records: &Records) -> String {
    let height = 70.0 + ROW * cells.len() as f64;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"{WIDTH}\" \
         height=\"{height}\" fill=\"#ffffff\"/>\n<text x=\"10\" y=\"20\" font-size=\"13\">{load}\
         </text>\n"
    );
    let rows: Vec<Vec<Option<Spread>>> =
        cells.iter().map(|cell| spreads(cell, records).1).collect();
    for (column, figure) in DRAWN.into_iter().enumerate() {
        let x = LEFT + column as f64 * (PLOT + 20.0);
        let most = rows.iter().filter_map(|row| row[figure]).map(|spread| spread.most);
        let most = most.fold(f64::MIN_POSITIVE, f64::max);
        let scale = |value: f64| value / most * PLOT;
        let _ = writeln!(
            out,
            "<text x=\"{x}\" y=\"45\">{} (0 to {})</text>",
            FIGURES[figure].0,
            short(most)
        );
        for (nth, row) in rows.iter().enumerate() {
            let Some(Spread { least, median, most }) = row[figure] else { continue };
            let y = 55.0 + ROW * nth as f64;
            let (a, b) = (x + scale(least), x + scale(most));
            let _ = writeln!(
                out,
                "<rect x=\"{x}\" y=\"{y}\" width=\"{:.1}\" height=\"12\" fill=\"{}\"/><line \
                 x1=\"{a:.1}\" x2=\"{b:.1}\" y1=\"{2}\" y2=\"{2}\" stroke=\"#000000\"/>",
                scale(median),
                COLOURS[nth % COLOURS.len()],
                y + 6.0
            );
        }
    }
    for (nth, cell) in cells.iter().enumerate() {
        let y = 65.0 + ROW * nth as f64;
        let _ = writeln!(out, "<text x=\"10\" y=\"{y}\">{}</text>", cell.server.name());
    }
    out.push_str("</svg>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: no round, one, an even number. Guarantee: nothing; itself; the middle of two.
    #[test]
    fn a_spread_has_the_middle_and_the_ends() {
        assert_eq!(Spread::of(Vec::new()), None);
        let of = |values: &[f64]| Spread::of(values.to_vec()).unwrap();
        assert_eq!(of(&[2.0]), Spread { least: 2.0, median: 2.0, most: 2.0 });
        assert_eq!(of(&[4.0, 1.0, 3.0, 2.0]), Spread { least: 1.0, median: 2.5, most: 4.0 });
    }
}
