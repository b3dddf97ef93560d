//! Tests files in UTF-16: byte order marks, units in pieces, rotation, restarts.

use std::fs::OpenOptions;
use std::io::Write;

use millrace_config::{Encoding, FilesReceiver, Multiline, StartAt};
use millrace_source_files::SourceSettings;

use crate::files::rig::{Rig, numbered};
use crate::files::rotation::gzip;

fn rig(start_at: StartAt) -> Rig {
    let folder = tempfile::tempdir().unwrap();
    let include = vec![format!("{}/logs/*.log", folder.path().display())];
    let encoding = Encoding::Utf16Le;
    let settings = FilesReceiver { include, start_at, encoding, ..FilesReceiver::default() };
    Rig::with(folder, vec![SourceSettings::Files(settings)])
}

fn append(rig: &Rig, name: &str, bytes: &[u8]) {
    let mut file = OpenOptions::new().append(true).create(true).open(rig.path(name)).unwrap();
    file.write_all(bytes).unwrap();
}

/// Lines as Windows writes them, big-endian: not the order of the settings.
fn high_first(lines: &[String]) -> Vec<u8> {
    let text: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
    text.encode_utf16().flat_map(u16::to_be_bytes).collect()
}

fn low_first(lines: &[String]) -> Vec<u8> {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

/// Lines with a line feed's byte in each (U+0A0A), and a pair of surrogates.
fn wide(file: &str, from: usize, to: usize) -> Vec<String> {
    numbered(file, from, to).iter().map(|line| format!("{line} \u{a0a}𝄞")).collect()
}

/// Scenario: a file whose byte order mark differs from the settings is written in odd pieces, is
/// renamed and compressed while the collector is off, and its successor has no mark. Guarantee:
/// each line is sent once, unaltered, also those after the restart, for which the mark is read
/// again; half a unit at the end waits.
#[test]
fn a_byte_order_mark_holds_through_restarts_and_rotation() {
    let mut rig = rig(StartAt::Beginning);
    let (first, second, third) = (wide("a", 0, 50), wide("a", 50, 60), wide("a", 60, 70));
    let whole = [&[0xfe, 0xff][..], &high_first(&first)].concat();
    rig.start();
    for piece in whole.chunks(333) {
        append(&rig, "a.log", piece);
    }
    // Also half of a unit of the next line.
    append(&rig, "a.log", &high_first(&second)[..1]);
    rig.until_exactly(first.clone());
    rig.stop();
    append(&rig, "a.log", &high_first(&second)[1..]);
    rig.rename("a.log", "a.log.1");
    gzip(&rig, "a.log.1", true);
    append(&rig, "a.log", &low_first(&third));
    rig.start();
    rig.until_exactly([first, second, third].concat());
    rig.until_metric("millrace_files_invalid_utf8_total", |count| count == 0);
    rig.stop();
}

/// Scenario: files are read from their end: one ends with half of a line, one with a complete line,
/// one has only a byte order mark. Guarantee: the remainder of the half line isn't read; all lines
/// after it are.
#[test]
fn reading_from_the_end_begins_with_a_whole_line() {
    let mut rig = rig(StartAt::End);
    let old = low_first(&wide("old", 0, 3));
    append(&rig, "half.log", &old[..old.len() - 11]);
    append(&rig, "whole.log", &old);
    append(&rig, "mark.log", &[0xfe, 0xff]);
    rig.start();
    rig.until_metric("millrace_files_open", |open| open == 3);
    append(&rig, "half.log", &old[old.len() - 11..]);
    append(&rig, "half.log", &low_first(&wide("half", 0, 2)));
    append(&rig, "whole.log", &low_first(&wide("whole", 0, 2)));
    append(&rig, "mark.log", &high_first(&wide("mark", 0, 2)));
    rig.until_exactly([wide("half", 0, 2), wide("whole", 0, 2), wide("mark", 0, 2)].concat());
    rig.stop();
}

/// Scenario: one directory has files of three sources: in UTF-8, in UTF-16, and with multiline
/// records. While the collector is off, and again while it runs, all are written and rotated:
/// renamed, and compressed. Guarantee: each record is sent once, read by its own source's form,
/// though every source observes the rotated files.
#[test]
fn rotated_files_are_read_as_the_source_of_their_name_says() {
    let folder = tempfile::tempdir().unwrap();
    let source = |name: &str, more: FilesReceiver| {
        let include = vec![format!("{}/logs/{name}.log", folder.path().display())];
        SourceSettings::Files(FilesReceiver { include, start_at: StartAt::Beginning, ..more })
    };
    let wide_rules = FilesReceiver { encoding: Encoding::Utf16Le, ..FilesReceiver::default() };
    let multiline = Some(Multiline { indented: true, ..Multiline::default() });
    let trace_rules = FilesReceiver { multiline, ..FilesReceiver::default() };
    let sources = vec![
        source("plain", FilesReceiver::default()),
        source("wide", wide_rules),
        source("trace", trace_rules),
    ];
    let mut rig = Rig::with(folder, sources);
    let traces = |from, to| -> Vec<String> {
        numbered("trace", from, to).iter().map(|line| format!("{line}\n  at here")).collect()
    };
    let plain_bytes = |lines: &[String]| -> Vec<u8> {
        lines.iter().flat_map(|line| format!("{line}\n").into_bytes()).collect()
    };
    let mut all = Vec::new();
    let mut write = |rig: &Rig, from: usize, to: usize| {
        let (plain, wide, trace) =
            (numbered("plain", from, to), wide("wide", from, to), traces(from, to));
        append(rig, "plain.log", &plain_bytes(&plain));
        append(rig, "wide.log", &low_first(&wide));
        append(rig, "trace.log", &plain_bytes(&trace));
        all.extend([plain, wide, trace].concat());
        all.clone()
    };
    let rotate = |rig: &Rig, number: usize| {
        for name in ["plain", "wide", "trace"] {
            let to = format!("{name}.log.{number}");
            rig.rename(&format!("{name}.log"), &to);
            if number == 2 {
                gzip(rig, &to, true);
            }
        }
    };
    let _ = write(&rig, 0, 20);
    rig.start();
    rig.until_exactly(write(&rig, 20, 40));
    rig.stop();
    for number in [1, 2] {
        let _ = write(&rig, 20 + 20 * number, 40 + 20 * number);
        rotate(&rig, number);
    }
    let _ = write(&rig, 80, 100);
    rig.start();
    rig.until_exactly(write(&rig, 100, 120));
    rig.stop();
}
