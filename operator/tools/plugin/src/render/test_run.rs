//! Renders test records: one by its hops, many by their stored rows.

use super::{Paint, Palette, TextCell, TextPage, TextTable, format_count, format_plural};
use crate::load::{RUN_ATTRIBUTE, SERVICE};
use crate::report::{InKafka, TestRun};

/// Renders one record, hop by hop.
#[must_use]
pub fn render_hops(run: &TestRun, palette: Palette) -> String {
    let mut page = TextPage::new(palette);
    let word = match run.signal {
        "traces" => "span",
        "logs" => "log record",
        _ => "point of a gauge",
    };
    let title = palette.paint(&format!("{}/{}", run.namespace, run.name), Paint::Bold);
    page.push_line(&format!("{title}: one {word}, run {}", run.run));
    let mut table = TextTable::new(2);
    let edge = run.pods.join(", ");
    let accepted = format!("accepted: HTTP 200 after {}", format_millis(run.accepted_millis));
    table.push_row(vec![
        "edge".into(),
        TextCell::text(edge),
        TextCell::text(accepted).with_paint(Paint::Good),
    ]);
    let kafka = match run.in_kafka {
        InKafka::Yes => "stored: this pool acknowledges after Kafka",
        InKafka::OrOnDisk => {
            "stored, or in the edge's disk buffer: this pool acknowledges after either"
        }
        InKafka::NotTold => "unknown: this pool acknowledges before Kafka (acknowledge)",
    };
    table.push_row(vec!["kafka".into(), TextCell::text(run.topics.join(", ")), kafka.into()]);
    let (gateway, row) = match run.stored_millis {
        Some(millis) if run.rows.repeated == 0 => (
            "consumed: the row exists",
            good_cell(format!("stored once, after {}", format_millis(millis))),
        ),
        Some(millis) => (
            "consumed: the row exists",
            bad_cell(format!(
                "stored {} times, after {}",
                run.rows.repeated + 1,
                format_millis(millis)
            )),
        ),
        None => (
            "unknown: consumed or still in Kafka",
            bad_cell(format!("NOT stored after {}", format_millis(run.waited_millis))),
        ),
    };
    table.push_row(vec!["gateway".into(), TextCell::text(&*run.name), gateway.into()]);
    table.push_row(vec!["row".into(), TextCell::text(&*run.rows.table), row]);
    page.push_table(&table);
    push_ending(&mut page, run);
    page.into_text()
}

/// Renders many records, by their stored rows.
#[must_use]
pub fn render_tally(run: &TestRun, palette: Palette) -> String {
    let mut page = TextPage::new(palette);
    let title = palette.paint(&format!("{}/{}", run.namespace, run.name), Paint::Bold);
    page.push_line(&format!(
        "{title}: {} of {} in {}, seed {}, run {}",
        format_plural(run.records, "test record"),
        run.signal,
        format_plural(run.requests, "request"),
        run.seed,
        run.run
    ));
    let mut table = TextTable::new(2);
    let mut row = |word: &str, number: u64, note: String, paint: Paint| {
        let number = TextCell::number(Some(format_count(number))).with_paint(paint);
        table.push_row(vec![word.into(), number, TextCell::text(note)]);
    };
    let accepted = format!(
        "accepted by {} within {}",
        format_plural(run.pods.len() as u64, "edge pod"),
        format_millis(run.accepted_millis)
    );
    row("sent", run.records.into(), accepted, Paint::Plain);
    let stored = match run.stored_millis {
        Some(millis) => {
            format!("in {}, all stored after {}", run.rows.table, format_millis(millis))
        }
        None => format!("in {}, waited for {}", run.rows.table, format_millis(run.waited_millis)),
    };
    row("stored", run.rows.found, stored, Paint::Plain);
    let alarm = |number: u64| if number == 0 { Paint::Plain } else { Paint::Bad };
    let numbers: Vec<String> = run.rows.missing_first.iter().map(u32::to_string).collect();
    let named = match numbers.len() as u64 {
        0 => String::new(),
        named if named < run.missing => format!("numbers {} and more", numbers.join(", ")),
        _ => format!("numbers {}", numbers.join(", ")),
    };
    row("missing", run.missing, named, alarm(run.missing));
    row("repeated", run.rows.repeated, String::new(), alarm(run.rows.repeated));
    if run.rows.unexpected > 0 {
        let note = "rows of this run with numbers that were not sent".to_owned();
        row("unexpected", run.rows.unexpected, note, Paint::Bad);
    }
    page.push_table(&table);
    page.push_line("");
    let verdict = match run.each_once() {
        true => palette.paint("EACH RECORD IS STORED ONCE", Paint::Good),
        false => palette.paint("NOT EACH RECORD IS STORED ONCE", Paint::Bad),
    };
    page.push_line(&verdict);
    push_ending(&mut page, run);
    page.into_text()
}

fn good_cell(text: String) -> TextCell {
    TextCell::text(text).with_paint(Paint::Good)
}

fn bad_cell(text: String) -> TextCell {
    TextCell::text(text).with_paint(Paint::Bad)
}

/// Adds how to find the rows by hand, and possible causes.
fn push_ending(page: &mut TextPage, run: &TestRun) {
    if !run.hints.is_empty() {
        page.push_heading("POSSIBLE CAUSES");
        for hint in &run.hints {
            page.push_wrapped("  ", "    ", hint, Paint::Plain);
        }
    }
    let by = match run.signal {
        "metrics" => format!("ScopeVersion is {}", run.run),
        _ => format!("TraceId begins with {}", run.run),
    };
    page.push_line("");
    page.push_wrapped(
        "",
        "",
        &format!(
            "The rows remain until they expire: ServiceName is {SERVICE}, {by}, the attribute \
             {RUN_ATTRIBUTE} names the run."
        ),
        Paint::Dim,
    );
}

/// Formats a time span with the useful precision.
fn format_millis(millis: u64) -> String {
    match millis {
        0..1_000 => format!("{millis} ms"),
        1_000..60_000 => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
        _ => super::format_duration(i64::try_from(millis / 1_000).unwrap_or(i64::MAX)),
    }
}
