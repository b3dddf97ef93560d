//! Renders the newest dead letters, which are read only if a reader opens them.

use millrace_reports::units::{format_bytes, format_duration, format_plural};
use millrace_reports::{DeadLetterEntry, DeadLetterReport};

use crate::html::{Html, HtmlCell};

/// The parameter of a page's address that opens the dead letters. Such a page does not reload.
pub const DEAD_LETTERS_PARAMETER: &str = "dead-letters=1";
/// Maximum rows, as many as one pod reports.
const ROWS_MAX: usize = 50;

/// Renders the dead letters, or the link that opens them.
pub(crate) fn push_dead_letters(html: &mut Html, report: Option<&DeadLetterReport>, now: i64) {
    let Some(DeadLetterReport { dead_letters, answered, pods }) = report else {
        html.wrap_text("<p><a href=\"?", DEAD_LETTERS_PARAMETER, "#dead-letters\">")
            .raw("Newest dead letters</a></p>\n");
        return;
    };
    html.raw(
        "<h3 id=\"dead-letters\">Newest dead letters</h3>\n<p class=\"dim\">Stored since the ",
    )
    .raw("gateway pods started, without their content. ")
    .wrap_text("", format_args!("{answered} of {}", format_plural(*pods as u64, "pod")), "")
    .raw(" reported. kubectl millrace dead-letters list reads all from Kafka.</p>\n");
    if dead_letters.is_empty() {
        html.raw("<p>None reported.</p>\n");
        return;
    }
    let row = |one: &DeadLetterEntry| {
        let offset = one.offset.map_or("?".to_owned(), |offset| offset.to_string());
        let DeadLetterEntry { source_topic, source_partition, source_offset, .. } = one;
        vec![
            HtmlCell::text(format_args!("{} ago", format_duration(now - one.stored_at_seconds))),
            HtmlCell::text(&one.signal),
            HtmlCell::text(&one.reason),
            HtmlCell::figure(Some(format_bytes(one.bytes))),
            HtmlCell::text(format_args!("{} {}:{offset}", one.topic, one.partition)),
            HtmlCell::text(format_args!("{source_topic} {source_partition}:{source_offset}")),
        ]
    };
    let rows: Vec<_> = dead_letters.iter().take(ROWS_MAX).map(row).collect();
    let heads = ["stored", "signal", "reason", ">size", "position", "read from"];
    html.push_table("Newest dead letters", &heads, &rows)
        .push_omitted(dead_letters.len(), ROWS_MAX);
}
