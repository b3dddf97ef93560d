//! Renders tables with their waiting steps, and the sources that edge pools read themselves.

use millrace_crds::v1alpha1::TelemetrySchema;
use millrace_reports::units::{format_bytes, format_count, format_duration};
use millrace_reports::{PlannedStep, PoolSources};

use crate::html::{Html, HtmlCell};
use crate::pipeline::limits::ITEMS_MAX;

/// Renders the tables of a pipeline; `steps` are those whose statements are known.
pub(crate) fn push_tables(html: &mut Html, schemas: &[TelemetrySchema], steps: &[PlannedStep]) {
    html.raw("<h2>Tables</h2>\n");
    for schema in schemas.iter().take(ITEMS_MAX) {
        push_schema(html, schema);
    }
    if steps.is_empty() {
        return;
    }
    html.raw("<h3>Planned statements</h3>\n<ol>");
    for step in steps.iter().take(ITEMS_MAX) {
        html.wrap_text("<li>", &step.object, ": ")
            .wrap_text("", &step.what, " ")
            .wrap_text("<span class=\"dim\">(", &step.class, ")</span>")
            .wrap_text("<pre tabindex=\"0\">", &step.statement, "</pre></li>\n");
    }
    html.raw("</ol>\n").push_omitted(steps.len(), ITEMS_MAX);
}

fn push_schema(html: &mut Html, schema: &TelemetrySchema) {
    let status = schema.status.as_ref();
    html.wrap_text(
        "<p>TelemetrySchema <b>",
        schema.metadata.name.as_deref().unwrap_or("?"),
        "</b></p>",
    )
    .raw("<dl class=\"facts\">");
    for (term, value) in [
        ("database", status.and_then(|it| it.database.clone())),
        ("revision", status.and_then(|it| it.revision.clone())),
        ("hash of the pending plan", status.and_then(|it| it.plan_hash.clone())),
    ] {
        html.push_fact(term, value.as_deref().unwrap_or("none"));
    }
    html.raw("</dl>\n");
    let Some(status) = status else { return };
    if !status.plan_pending.is_empty() {
        html.raw("<h3>Pending steps</h3>\n<ol>");
        for step in status.plan_pending.iter().take(ITEMS_MAX) {
            html.wrap_text("<li>", step, "</li>");
        }
        html.raw("</ol>\n");
    }
    if !status.drift.is_empty() {
        html.raw("<h3>Live tables that differ</h3>\n");
        let rows = status.drift.iter().take(ITEMS_MAX);
        let rows = rows.map(|it| vec![HtmlCell::text(&it.table), HtmlCell::text(&it.difference)]);
        html.push_table(
            "Live tables that differ",
            &["table", "difference"],
            &rows.collect::<Vec<_>>(),
        );
    }
}

/// Renders targets and log files.
pub(crate) fn push_sources(html: &mut Html, all: &[PoolSources]) {
    if all.is_empty() {
        return;
    }
    html.raw("<h2>Targets and files</h2>\n");
    for one in all.iter().take(ITEMS_MAX) {
        html.wrap_text("<h3>", &one.pool, "</h3>\n<dl class=\"facts\">");
        if let Some(targets) = &one.targets {
            html.push_fact("targets", format_count(targets.total))
                .push_fact("assigned to a pod", format_count(targets.assigned))
                .push_fact("up", format_count(targets.up))
                .push_fact("down", format_count(targets.down))
                .push_fact("waiting", format_count(targets.waiting))
                .push_fact("rejected", format_count(targets.rejected))
                .push_fact("monitors", format_count(targets.monitors))
                .push_fact("monitors applied in part", format_count(targets.invalid_monitors))
                .push_fact("samples per second", format_count(targets.samples_per_second));
        }
        if let Some(nodes) = &one.nodes {
            html.push_fact("nodes that read logs", format_count(nodes.reading))
                .push_fact("nodes not reporting", format_count(nodes.unreachable))
                .push_fact("files behind", format_bytes(nodes.behind_bytes.unsigned_abs()));
            if let Some(worst) = &nodes.furthest_behind {
                let since = worst.seconds.map(|it| format!(" for {}", format_duration(it)));
                let most = format_bytes(worst.bytes.unsigned_abs());
                let since = since.unwrap_or_default();
                html.push_fact("furthest behind", format_args!("{}: {most}{since}", worst.name));
            }
        }
        if let Some(lost) = &one.logs_lost {
            html.push_fact("lost from files", format_bytes(lost.bytes.unsigned_abs())).push_fact(
                "lost from kernel logs",
                format_args!("{} records", format_count(lost.records)),
            );
        }
        html.raw("</dl>\n");
    }
}
