//! A suite's results for people: tables in Markdown, with the plots. Made from records, and from
//! what ClickHouse says of them where they are stored there.

use std::fmt::Write;
use std::fs;
use std::io;
use std::path::Path;

use serde_json::Value;

use super::figures::{FIGURES, Spread, short, spreads};
use super::matrix::{Cell, Matrix};
use super::plot;
use super::record::Records;
use super::store::Told;

/// Writes `report.md`, and the plots of each load.
pub(crate) fn write(
    dir: &Path,
    matrix: &Matrix,
    records: &Records,
    told: Option<&Told>,
) -> io::Result<()> {
    let cells = matrix.cells();
    let mut text = format!(
        "# Suite {}\n\nMedian (least to most) of up to {} rounds. CPU and memory: of all servers \
         together, and of the one that had most. Samples: `samples.jsonl`, {} lines.\n",
        matrix.name,
        matrix.repeats,
        records.samples().len()
    );
    if let Some(Told { run, rows, .. }) = told {
        let _ = writeln!(
            text,
            "\nIn ClickHouse as run `{run}`: {} results, {} samples in {} rows.",
            rows["results"], rows["samples"], rows["rows"]
        );
    }
    let mut loads: Vec<String> = cells.iter().map(Cell::load).collect();
    loads.dedup();
    for (nth, load) in loads.iter().enumerate() {
        let cells: Vec<&Cell> = cells.iter().filter(|cell| cell.load() == *load).collect();
        let (bars, times) = (format!("load-{nth}.svg"), format!("load-{nth}-time.svg"));
        fs::write(dir.join(&bars), plot::bars(load, &cells, records))?;
        fs::write(dir.join(&times), plot::over_time(load, &cells, records))?;
        table(&mut text, load, &cells, records);
        let _ = writeln!(text, "\n![what servers used]({bars})\n\n![second by second]({times})");
        if let Some(told) = told {
            percentiles(&mut text, &cells, told);
        }
    }
    fs::write(dir.join("report.md"), text)
}

/// What ClickHouse made of the rows.
fn percentiles(text: &mut String, cells: &[&Cell], told: &Told) {
    text.push_str(
        "\nPercentiles over the rounds, by ClickHouse from the stored rows:\n\n\
         | servers | figure | rounds | least | 10 | 25 | median | 75 | 90 | most |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for cell in cells {
        let name = cell.name();
        for (figure, _) in FIGURES {
            let is_it = |row: &&Value| row["cell"] == name.as_str() && row["name"] == figure;
            let Some(row) = told.percentiles.iter().find(is_it) else { continue };
            let values = row["percentiles"].as_array().into_iter().flatten();
            let values: Vec<String> = values.filter_map(Value::as_f64).map(short).collect();
            let (servers, rounds) = (cell.server.name(), &row["rounds"]);
            let _ = writeln!(text, "| {servers} | {figure} | {rounds} | {} |", values.join(" | "));
        }
    }
}

fn table(text: &mut String, load: &str, cells: &[&Cell], records: &Records) {
    let rows: Vec<_> = cells.iter().map(|cell| (cell, spreads(cell, records))).collect();
    let measured = rows.iter().filter(|(_, (rounds, _))| *rounds > 0);
    // A figure that no round of this load has is left out.
    let told: Vec<usize> = (0..FIGURES.len())
        .filter(|nth| measured.clone().all(|(_, (_, spreads))| spreads[*nth].is_some()))
        .collect();
    let heads: Vec<&str> = told.iter().map(|nth| FIGURES[*nth].0).collect();
    let _ = writeln!(text, "\n## {load}\n\n| servers | rounds | {} |", heads.join(" | "));
    let _ = writeln!(text, "| --- | --- |{}", " --- |".repeat(heads.len()));
    for (cell, (rounds, spreads)) in &rows {
        let _ = write!(text, "| {} | {rounds} |", cell.server.name());
        for nth in &told {
            let _ = match spreads[*nth] {
                None => write!(text, " |"),
                Some(Spread { least, median, most }) => {
                    write!(text, " {} ({} to {}) |", short(median), short(least), short(most))
                }
            };
        }
        text.push('\n');
    }
}
