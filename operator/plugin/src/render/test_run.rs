//! Test records: one by its hops, many by what was stored of them.

use super::{Cell, Page, Paint, Palette, Table, count};
use crate::load::{RUN_ATTRIBUTE, SERVICE};
use crate::report::{InKafka, TestRun};

/// One record, hop by hop.
#[must_use]
pub fn hops(run: &TestRun, palette: Palette) -> String {
    let mut page = Page::new(palette);
    let word = match run.signal {
        "traces" => "span",
        "logs" => "log record",
        _ => "point of a gauge",
    };
    let title = palette.paint(&format!("{}/{}", run.namespace, run.name), Paint::Bold);
    page.line(&format!("{title}: one {word}, run {}", run.run));
    let mut table = Table::new(2);
    let edge = run.pods.join(", ");
    let taken = format!("took it: HTTP 200 after {}", elapsed(run.taken_millis));
    table.row(vec!["edge".into(), Cell::of(edge), Cell::of(taken).painted(Paint::Good)]);
    let kafka = match run.in_kafka {
        InKafka::Yes => "has it: this pool answers after Kafka",
        InKafka::OrOnDisk => "has it, or the edge's buffer on disk: it answers after either",
        InKafka::NotTold => "not told: this pool answers before Kafka has it (acknowledge)",
    };
    table.row(vec!["kafka".into(), Cell::of(run.topics.join(", ")), kafka.into()]);
    let (gateway, row) = match run.stored_millis {
        Some(millis) if run.seen.repeated == 0 => (
            "consumed it: the row is there",
            good(format!("there, once, after {}", elapsed(millis))),
        ),
        Some(millis) => (
            "consumed it: the row is there",
            bad(format!("there {} times, after {}", run.seen.repeated + 1, elapsed(millis))),
        ),
        None => (
            "not told: consumed or waiting",
            bad(format!("NOT there {} later", elapsed(run.waited_millis))),
        ),
    };
    table.row(vec!["gateway".into(), Cell::of(&*run.name), gateway.into()]);
    table.row(vec!["row".into(), Cell::of(&*run.seen.table), row]);
    page.table(&table);
    ending(&mut page, run);
    page.finish()
}

/// Many records, by what was stored of them.
#[must_use]
pub fn tally(run: &TestRun, palette: Palette) -> String {
    let mut page = Page::new(palette);
    let title = palette.paint(&format!("{}/{}", run.namespace, run.name), Paint::Bold);
    page.line(&format!(
        "{title}: {} test records of {} in {} requests, seed {}, run {}",
        count(run.records),
        run.signal,
        count(run.requests),
        run.seed,
        run.run
    ));
    let mut table = Table::new(2);
    let mut row = |word: &str, number: u64, note: String, paint: Paint| {
        let number = Cell::number(Some(count(number))).painted(paint);
        table.row(vec![word.into(), number, Cell::of(note)]);
    };
    let taken =
        format!("taken by {} edge pods within {}", run.pods.len(), elapsed(run.taken_millis));
    row("sent", run.records.into(), taken, Paint::Plain);
    let stored = match run.stored_millis {
        Some(millis) => format!("in {}, all there after {}", run.seen.table, elapsed(millis)),
        None => format!("in {}, waited for {}", run.seen.table, elapsed(run.waited_millis)),
    };
    row("stored", run.seen.found, stored, Paint::Plain);
    let alarm = |number: u64| if number == 0 { Paint::Plain } else { Paint::Bad };
    let numbers: Vec<String> = run.seen.missing_first.iter().map(u32::to_string).collect();
    let named = match numbers.len() as u64 {
        0 => String::new(),
        named if named < run.missing => format!("numbers {} and more", numbers.join(", ")),
        _ => format!("numbers {}", numbers.join(", ")),
    };
    row("missing", run.missing, named, alarm(run.missing));
    row("repeated", run.seen.repeated, String::new(), alarm(run.seen.repeated));
    if run.seen.unexpected > 0 {
        let note = "rows of this run with numbers that were not sent".to_owned();
        row("unexpected", run.seen.unexpected, note, Paint::Bad);
    }
    page.table(&table);
    page.line("");
    let verdict = match run.each_once() {
        true => palette.paint("EACH RECORD IS STORED ONCE", Paint::Good),
        false => palette.paint("NOT EACH RECORD IS STORED ONCE", Paint::Bad),
    };
    page.line(&verdict);
    ending(&mut page, run);
    page.finish()
}

fn good(text: String) -> Cell {
    Cell::of(text).painted(Paint::Good)
}

fn bad(text: String) -> Cell {
    Cell::of(text).painted(Paint::Bad)
}

/// How its rows are found by hand, and what may be wrong.
fn ending(page: &mut Page, run: &TestRun) {
    if !run.hints.is_empty() {
        page.heading("WHAT MAY BE WRONG");
        for hint in &run.hints {
            page.wrapped("  ", "    ", hint, Paint::Plain);
        }
    }
    let by = match run.signal {
        "metrics" => format!("ScopeVersion is {}", run.run),
        _ => format!("TraceId begins with {}", run.run),
    };
    page.line("");
    page.wrapped(
        "",
        "",
        &format!(
            "Its rows stay until they expire: ServiceName is {SERVICE}, {by}, the attribute \
             {RUN_ATTRIBUTE} names the run."
        ),
        Paint::Dim,
    );
}

/// A time span, as exact as it matters.
fn elapsed(millis: u64) -> String {
    match millis {
        0..1_000 => format!("{millis} ms"),
        1_000..60_000 => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
        _ => super::ago(i64::try_from(millis / 1_000).unwrap_or(i64::MAX)),
    }
}
