//! Rollouts, with the judge's figures.

use millrace_crds::v1alpha1::{RolloutFigures, RolloutReport};

use super::{Cell, Page, Paint, Palette, Table, ago, bytes, count, gaps};
use crate::facts::Gap;
use crate::report::RolloutLine;

/// All pools of a pipeline.
#[must_use]
pub fn rollouts(lines: &[RolloutLine], not_read: &[Gap], palette: Palette) -> String {
    let mut page = Page::new(palette);
    for line in lines {
        one(&mut page, line);
    }
    gaps(&mut page, not_read);
    page.finish()
}

fn one(page: &mut Page, line: &RolloutLine) {
    let palette = page.palette();
    let paint = match &*line.stage {
        "Stable" => Paint::Good,
        "RolledBack" | "Aborted" | "Refused" | "RollingBack" => Paint::Bad,
        _ => Paint::Warn,
    };
    let pods = line.pods_ready.as_deref().unwrap_or("?/?");
    let since = line.for_seconds.map(|seconds| format!(" for {}", ago(seconds)));
    page.line(&format!(
        "{} {}  {}{}, pods {pods}",
        line.kind,
        palette.paint(&line.pool, Paint::Bold),
        palette.paint(&line.stage, paint),
        since.unwrap_or_default()
    ));
    if !line.reason.is_empty() {
        page.wrapped("  ", "    ", &format!("{}: {}", line.reason, line.message), Paint::Plain);
    }
    let mut table = Table::new(2);
    for (what, before, after) in [
        ("image", &line.image_before, &line.image_after),
        ("configuration", &line.config_before, &line.config_after),
    ] {
        match (before, after) {
            (Some(before), Some(after)) if before != after => {
                table.row(vec![what.into(), Cell::of(format!("{before} -> {after}"))]);
            }
            (_, Some(after)) => table.row(vec![what.into(), Cell::of(&**after)]),
            _ => {}
        }
    }
    if let Some(pods) = line.pods {
        table.row(vec!["with the change".into(), Cell::of(format!("{pods} pods"))]);
    }
    if let Some(attempts) = line.attempts {
        table.row(vec!["attempts".into(), Cell::of(attempts.to_string())]);
    }
    if let Some(word) = &line.annotation {
        table.row(vec!["annotation".into(), Cell::of(&**word).painted(Paint::Warn)]);
    }
    page.table(&table);
    if let Some(report) = &line.report {
        figures(page, report);
    }
}

fn figures(page: &mut Page, report: &RolloutReport) {
    page.line(&format!("  verdict {}", super::harmless(&report.verdict)));
    let mut table = Table::new(4);
    table.head(&["", ">PODS", ">RECORDS", ">PER CPU-SECOND", ">CPU", ">MEMORY"]);
    for (word, figures) in [("before", &report.before), ("after", &report.after)] {
        if let Some(figures) = figures {
            table.row(row(word, figures));
        }
    }
    page.table(&table);
}

fn row(word: &str, figures: &RolloutFigures) -> Vec<Cell> {
    let memory = u64::try_from(figures.memory_bytes).ok();
    vec![
        word.into(),
        Cell::number(Some(figures.pods.to_string())),
        Cell::number(Some(count(figures.records))),
        Cell::number(figures.records_per_cpu_second.map(count)),
        Cell::number(Some(format!("{}m", figures.cpu_millicores))),
        Cell::number(memory.map(bytes)),
    ]
}
