//! Renders the services that send the most bytes.

use millrace_reports::units::{format_bytes, format_plural};
use millrace_reports::{ProducerRate, ProducerReport};

use crate::html::{Html, HtmlCell};

/// Maximum rows: who fills the tables is among the first.
const ROWS_MAX: usize = 20;

/// Renders the table; nothing if no pod reported.
pub(crate) fn push_producers(html: &mut Html, report: &ProducerReport) {
    let ProducerReport { producers, answered, pods } = report;
    if *answered == 0 {
        return;
    }
    html.raw(
        "<h2>Top producers</h2>\n<p class=\"dim\">Estimated from a sample of the last 5 to 10 ",
    )
    .raw("minutes: uncompressed OTLP after rules. ")
    .wrap_text("", format_args!("{answered} of {}", format_plural(*pods as u64, "edge pod")), "")
    .raw(" reported.</p>\n");
    if producers.is_empty() {
        html.raw("<p>Nothing was sent.</p>\n");
        return;
    }
    let name = |name: &str| HtmlCell::text(if name.is_empty() { "–" } else { name });
    let row = |one: &ProducerRate| {
        vec![
            name(&one.service),
            name(&one.namespace),
            HtmlCell::figure(Some(format!("{}/s", format_bytes(one.bytes_per_second as u64)))),
            HtmlCell::figure(Some(format!("{:.1} %", one.share * 100.0))),
        ]
    };
    let rows: Vec<_> = producers.iter().take(ROWS_MAX).map(row).collect();
    let heads = ["service", "namespace", ">bytes", ">share"];
    html.push_table("Top producers", &heads, &rows).push_omitted(producers.len(), ROWS_MAX);
}
