//! Renders changes of pools, with the figures of the analysis.

use millrace_crds::v1alpha1::RolloutFigures;
use millrace_reports::RolloutLine;
use millrace_reports::units::{format_bytes, format_count, format_duration};

use crate::html::{Html, HtmlCell};
use crate::pipeline::limits::ITEMS_MAX;

/// Renders all pools; a stable one in one line.
pub(crate) fn push_rollouts(html: &mut Html, lines: &[RolloutLine]) {
    if lines.is_empty() {
        return;
    }
    html.raw("<h2>Rollouts</h2>\n<ul class=\"plain\">\n");
    for line in lines.iter().take(ITEMS_MAX) {
        push_rollout(html, line);
    }
    html.raw("</ul>\n").push_omitted(lines.len(), ITEMS_MAX);
}

fn push_rollout(html: &mut Html, line: &RolloutLine) {
    let class = match &*line.stage {
        _ if line.is_stable() => "good",
        "RolledBack" | "Aborted" | "Refused" | "RollingBack" => "bad",
        _ => "warn",
    };
    html.wrap_text("<li class=\"state ", class, "\">")
        .wrap_text("", line.kind, " ")
        .wrap_text("<b>", &line.pool, "</b>: ")
        .wrap_text("<b>", &line.stage, "</b>");
    if let Some(seconds) = line.for_seconds {
        html.wrap_text(" <span class=\"dim\">for ", format_duration(seconds), "</span>");
    }
    if !line.reason.is_empty() {
        html.wrap_text("<br>", &line.reason, ": ").wrap_text("", &line.message, "");
    }
    html.raw("<dl class=\"facts\">");
    for (what, before, after) in [
        ("image", &line.image_before, &line.image_after),
        ("configuration", &line.config_before, &line.config_after),
    ] {
        match (before, after) {
            (Some(before), Some(after)) if before != after => {
                html.push_fact(what, format_args!("{before} → {after}"));
            }
            (_, Some(after)) => {
                html.push_fact(what, after);
            }
            _ => {}
        }
    }
    for (what, value) in [
        ("pods ready", line.pods_ready.clone()),
        ("pods with the new unit", line.pods.map(|pods| pods.to_string())),
        ("attempts", line.attempts.map(|attempts| attempts.to_string())),
        ("action", line.action.map(|action| action.as_str().to_owned())),
    ] {
        if let Some(value) = value {
            html.push_fact(what, value);
        }
    }
    html.raw("</dl>");
    if let Some(report) = &line.report {
        html.wrap_text("<p>Verdict: ", &report.verdict, "</p>");
        let figures = [("before", &report.before), ("after", &report.after)];
        let rows =
            figures.iter().filter_map(|(word, figures)| Some(figures_row(word, figures.as_ref()?)));
        let heads = ["pods", ">number", ">records", ">per cpu-second", ">cpu", ">memory"];
        html.push_table("Figures of the analysis", &heads, &rows.collect::<Vec<_>>());
    }
    html.raw("</li>\n");
}

fn figures_row(word: &str, figures: &RolloutFigures) -> Vec<HtmlCell> {
    let memory = u64::try_from(figures.memory_bytes).ok();
    vec![
        HtmlCell::text(word),
        HtmlCell::figure(Some(figures.pods)),
        HtmlCell::figure(Some(format_count(figures.records))),
        HtmlCell::figure(figures.records_per_cpu_second.map(format_count)),
        HtmlCell::figure(Some(format_args!("{}m", figures.cpu_millicores))),
        HtmlCell::figure(memory.map(format_bytes)),
    ]
}
