//! Changes of pools, with the judge's figures.

use millrace_crds::v1alpha1::RolloutFigures;
use millrace_reports::RolloutLine;
use millrace_reports::units::{ago, bytes, count};

use crate::html::{Cell, Html};
use crate::pipeline::ITEMS_MAX;

/// All pools; one at rest in one line.
pub(crate) fn section(html: &mut Html, lines: &[RolloutLine]) {
    if lines.is_empty() {
        return;
    }
    html.raw("<h2>Rollouts</h2>\n<ul class=\"plain\">\n");
    for line in lines.iter().take(ITEMS_MAX) {
        one(html, line);
    }
    html.raw("</ul>\n").left_out(lines.len(), ITEMS_MAX);
}

fn one(html: &mut Html, line: &RolloutLine) {
    let class = match &*line.stage {
        _ if line.is_settled() => "good",
        "RolledBack" | "Aborted" | "Refused" | "RollingBack" => "bad",
        _ => "warn",
    };
    html.put("<li class=\"state ", class, "\">")
        .put("", line.kind, " ")
        .put("<b>", &line.pool, "</b>: ")
        .put("<b>", &line.stage, "</b>");
    if let Some(seconds) = line.for_seconds {
        html.put(" <span class=\"dim\">for ", ago(seconds), "</span>");
    }
    if !line.reason.is_empty() {
        html.put("<br>", &line.reason, ": ").put("", &line.message, "");
    }
    html.raw("<dl class=\"facts\">");
    for (what, before, after) in [
        ("image", &line.image_before, &line.image_after),
        ("configuration", &line.config_before, &line.config_after),
    ] {
        match (before, after) {
            (Some(before), Some(after)) if before != after => {
                html.fact(what, format_args!("{before} → {after}"));
            }
            (_, Some(after)) => {
                html.fact(what, after);
            }
            _ => {}
        }
    }
    for (what, value) in [
        ("pods ready", line.pods_ready.clone()),
        ("pods with the change", line.pods.map(|pods| pods.to_string())),
        ("attempts", line.attempts.map(|attempts| attempts.to_string())),
        ("annotation", line.annotation.clone()),
    ] {
        if let Some(value) = value {
            html.fact(what, value);
        }
    }
    html.raw("</dl>");
    if let Some(report) = &line.report {
        html.put("<p>The judge: ", &report.verdict, "</p>");
        let figures = [("before", &report.before), ("after", &report.after)];
        let rows = figures.iter().filter_map(|(word, figures)| Some(row(word, figures.as_ref()?)));
        let heads = ["pods", ">number", ">records", ">per cpu-second", ">cpu", ">memory"];
        html.table("The judge's figures", &heads, &rows.collect::<Vec<_>>());
    }
    html.raw("</li>\n");
}

fn row(word: &str, figures: &RolloutFigures) -> Vec<Cell> {
    let memory = u64::try_from(figures.memory_bytes).ok();
    vec![
        Cell::words(word),
        Cell::figure(Some(figures.pods)),
        Cell::figure(Some(count(figures.records))),
        Cell::figure(figures.records_per_cpu_second.map(count)),
        Cell::figure(Some(format_args!("{}m", figures.cpu_millicores))),
        Cell::figure(memory.map(bytes)),
    ]
}
