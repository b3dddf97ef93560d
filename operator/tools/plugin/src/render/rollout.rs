//! Renders rollouts, with the figures of the analysis.

use millrace_crds::v1alpha1::{RolloutFigures, RolloutReport};

use super::{
    Paint, Palette, TextCell, TextPage, TextTable, format_bytes, format_count, format_duration,
    format_plural, push_gaps,
};
use crate::facts::Gap;
use crate::report::RolloutLine;

/// Renders all pools of a pipeline.
#[must_use]
pub fn render_rollouts(lines: &[RolloutLine], not_read: &[Gap], palette: Palette) -> String {
    let mut page = TextPage::new(palette);
    for line in lines {
        push_rollout(&mut page, line);
    }
    push_gaps(&mut page, not_read);
    page.into_text()
}

fn push_rollout(page: &mut TextPage, line: &RolloutLine) {
    let palette = page.palette();
    let paint = match &*line.stage {
        "Stable" => Paint::Good,
        "RolledBack" | "Aborted" | "Refused" | "RollingBack" => Paint::Bad,
        _ => Paint::Warn,
    };
    let pods = line.pods_ready.as_deref().unwrap_or("?/?");
    let since = line.for_seconds.map(|seconds| format!(" for {}", format_duration(seconds)));
    page.push_line(&format!(
        "{} {}  {}{}, pods {pods}",
        line.kind,
        palette.paint(&line.pool, Paint::Bold),
        palette.paint(&line.stage, paint),
        since.unwrap_or_default()
    ));
    if !line.reason.is_empty() {
        page.push_wrapped(
            "  ",
            "    ",
            &format!("{}: {}", line.reason, line.message),
            Paint::Plain,
        );
    }
    let mut table = TextTable::new(2);
    for (what, before, after) in [
        ("image", &line.image_before, &line.image_after),
        ("configuration", &line.config_before, &line.config_after),
    ] {
        match (before, after) {
            (Some(before), Some(after)) if before != after => {
                table.push_row(vec![what.into(), TextCell::text(format!("{before} -> {after}"))]);
            }
            (_, Some(after)) => table.push_row(vec![what.into(), TextCell::text(&**after)]),
            _ => {}
        }
    }
    if let Some(pods) = line.pods {
        table
            .push_row(vec!["with the new unit".into(), TextCell::text(format_plural(pods, "pod"))]);
    }
    if let Some(attempts) = line.attempts {
        table.push_row(vec!["attempts".into(), TextCell::text(attempts.to_string())]);
    }
    if let Some(action) = line.action {
        table.push_row(vec![
            "action".into(),
            TextCell::text(action.as_str()).with_paint(Paint::Warn),
        ]);
    }
    page.push_table(&table);
    if let Some(report) = &line.report {
        push_figures(page, report);
    }
}

fn push_figures(page: &mut TextPage, report: &RolloutReport) {
    page.push_line(&format!("  verdict {}", super::sanitize_text(&report.verdict)));
    let mut table = TextTable::new(4);
    table.push_head(&["", ">PODS", ">RECORDS", ">PER CPU-SECOND", ">CPU", ">MEMORY"]);
    for (word, figures) in [("before", &report.before), ("after", &report.after)] {
        if let Some(figures) = figures {
            table.push_row(figures_row(word, figures));
        }
    }
    page.push_table(&table);
}

fn figures_row(word: &str, figures: &RolloutFigures) -> Vec<TextCell> {
    let memory = u64::try_from(figures.memory_bytes).ok();
    vec![
        word.into(),
        TextCell::number(Some(figures.pods.to_string())),
        TextCell::number(Some(format_count(figures.records))),
        TextCell::number(figures.records_per_cpu_second.map(format_count)),
        TextCell::number(Some(format!("{}m", figures.cpu_millicores))),
        TextCell::number(memory.map(format_bytes)),
    ]
}
