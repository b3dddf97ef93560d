//! Tables with the steps that wait, and what edge pools read by themselves.

use millrace_crds::v1alpha1::TelemetrySchema;
use millrace_reports::units::{ago, bytes, count};
use millrace_reports::{PlannedStep, Sources};

use crate::html::{Cell, Html};
use crate::pipeline::ITEMS_MAX;

/// The tables of a pipeline; `steps` are those whose statements are known.
pub(crate) fn section(html: &mut Html, schemas: &[TelemetrySchema], steps: &[PlannedStep]) {
    html.raw("<h2>Tables</h2>\n");
    for schema in schemas.iter().take(ITEMS_MAX) {
        one(html, schema);
    }
    if steps.is_empty() {
        return;
    }
    html.raw("<h3>Planned statements</h3>\n<ol>");
    for step in steps.iter().take(ITEMS_MAX) {
        html.put("<li>", &step.object, ": ")
            .put("", &step.what, " ")
            .put("<span class=\"dim\">(", &step.class, ")</span>")
            .put("<pre tabindex=\"0\">", &step.statement, "</pre></li>\n");
    }
    html.raw("</ol>\n").left_out(steps.len(), ITEMS_MAX);
}

fn one(html: &mut Html, schema: &TelemetrySchema) {
    let status = schema.status.as_ref();
    html.put("<p>TelemetrySchema <b>", schema.metadata.name.as_deref().unwrap_or("?"), "</b></p>")
        .raw("<dl class=\"facts\">");
    for (term, value) in [
        ("database", status.and_then(|it| it.database.clone())),
        ("revision", status.and_then(|it| it.revision.clone())),
        ("hash of the waiting plan", status.and_then(|it| it.plan_hash.clone())),
    ] {
        html.fact(term, value.as_deref().unwrap_or("none"));
    }
    html.raw("</dl>\n");
    let Some(status) = status else { return };
    if !status.plan_pending.is_empty() {
        html.raw("<h3>Steps that wait</h3>\n<ol>");
        for step in status.plan_pending.iter().take(ITEMS_MAX) {
            html.put("<li>", step, "</li>");
        }
        html.raw("</ol>\n");
    }
    if !status.drift.is_empty() {
        html.raw("<h3>Live tables that differ</h3>\n");
        let rows = status.drift.iter().take(ITEMS_MAX);
        let rows = rows.map(|it| vec![Cell::words(&it.table), Cell::words(&it.difference)]);
        html.table("Live tables that differ", &["table", "difference"], &rows.collect::<Vec<_>>());
    }
}

/// Targets and log files.
pub(crate) fn sources(html: &mut Html, all: &[Sources]) {
    if all.is_empty() {
        return;
    }
    html.raw("<h2>Targets and files</h2>\n");
    for one in all.iter().take(ITEMS_MAX) {
        html.put("<h3>", &one.pool, "</h3>\n<dl class=\"facts\">");
        if let Some(targets) = &one.targets {
            html.fact("targets", count(targets.total))
                .fact("given to a pod", count(targets.shared))
                .fact("up", count(targets.up))
                .fact("down", count(targets.down))
                .fact("left out", count(targets.left_out))
                .fact("refused", count(targets.refused))
                .fact("monitors", count(targets.monitors))
                .fact("monitors not taken whole", count(targets.broken_monitors))
                .fact("samples per second", count(targets.samples_per_second));
        }
        if let Some(nodes) = &one.nodes {
            html.fact("nodes that read logs", count(nodes.reading))
                .fact("nodes that are silent", count(nodes.silent))
                .fact("files behind", bytes(nodes.behind_bytes.unsigned_abs()));
            if let Some(worst) = &nodes.worst {
                let since = worst.seconds.map(|it| format!(" for {}", ago(it)));
                let most = bytes(worst.bytes.unsigned_abs());
                let since = since.unwrap_or_default();
                html.fact("furthest behind", format_args!("{}: {most}{since}", worst.name));
            }
        }
        if let Some(lost) = &one.logs_lost {
            html.fact("lost of files", bytes(lost.bytes.unsigned_abs()))
                .fact("lost of kernels' logs", format_args!("{} records", count(lost.records)));
        }
        html.raw("</dl>\n");
    }
}
