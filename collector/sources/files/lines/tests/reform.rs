//! Tests a file that is read by one form after another, with restarts.

use std::sync::Arc;

use common::{Chance, NOW, decoded, form, source, told};
use millrace_lines::{
    Container, FlushReason, LineReader, LogsRequest, MultilineRule, RecordRules, TraceRuntime,
};

use crate::common;

/// The number of files in the test: the seeds are 0 to this.
const FILES: u64 = 2000;

/// Beginnings and continuations by each rule.
const TEXTS: &[&str] = &["E", " at x", "\tat y", "Caused by: z", "goroutine 1 [running]:", "plain"];

/// Longer than all lines of a record here.
const LIMIT: usize = 10_000;

fn forms(container: Container) -> Vec<Arc<RecordRules>> {
    let rules = [
        None,
        Some(MultilineRule::Indented),
        Some(MultilineRule::from_foreign_pattern("^E").unwrap()),
        Some(MultilineRule::Traces(TraceRuntime::Java)),
        Some(MultilineRule::Traces(TraceRuntime::Go)),
    ];
    rules.into_iter().map(|rule| form(container, rule, LIMIT)).collect()
}

/// Makes a file, and the lines of each stream, each with its number.
fn file(chance: &mut Chance, container: Container) -> (Vec<u8>, [Vec<String>; 2]) {
    let (mut file, mut lines) = (String::new(), [Vec::new(), Vec::new()]);
    for number in 0..chance.below(30) {
        let line = format!("{} {number}", chance.one(TEXTS));
        if container == Container::None {
            file.push_str(&format!("{line}\n"));
            lines[0].push(line);
            continue;
        }
        let stream = chance.below(2);
        let head = format!("2016-10-06T00:17:09Z {}", ["stdout", "stderr"][stream]);
        let (first, rest) = line.split_at(if chance.below(3) == 0 { 1 } else { 0 });
        if !first.is_empty() {
            file.push_str(&format!("{head} P {first}\n"));
        }
        file.push_str(&format!("{head} F {rest}\n"));
        lines[stream].push(line);
    }
    (file.into_bytes(), lines)
}

/// Scenario: a file is read in pieces; its form changes between them at random, its records time
/// out, and its reader is lost and resumed. Guarantee: each line of each stream is read once,
/// unaltered and in order.
#[test]
fn a_file_read_by_changing_forms_loses_repeats_and_mixes_nothing() {
    for seed in 0..FILES {
        let mut chance = Chance(seed);
        let container = chance.one(&[Container::None, Container::Cri, Container::Detect]);
        let (file, lines) = file(&mut chance, container);
        let forms = forms(container);
        let some = |chance: &mut Chance| Arc::clone(&forms[chance.below(forms.len())]);
        let (source, mut request) = (source(), LogsRequest::with_limit(usize::MAX));
        let mut reader = LineReader::new(some(&mut chance), 0);
        let mut end = 0;
        while end < file.len() {
            end = (end + 1 + chance.below(60)).min(file.len());
            let out = &mut request.begin_records(&source);
            match chance.below(8) {
                0 => _ = reader.switch_form(&some(&mut chance), NOW, out),
                1 => reader.flush(FlushReason::Idle, NOW, out),
                2 => {
                    reader = LineReader::resume_from(some(&mut chance), reader.resume_point());
                    let _ = reader.switch_form(&some(&mut chance), NOW, out);
                }
                _ => {}
            }
            let from = usize::try_from(reader.offset()).unwrap();
            reader.read_bytes(&file[from..end], NOW, out);
        }
        reader.flush(
            FlushReason::File { unfinished_line: b"" },
            NOW,
            &mut request.begin_records(&source),
        );
        let mut came = [Vec::new(), Vec::new()];
        for (_, stream, body, is_cut) in told(&decoded(&request)) {
            assert!(!is_cut, "seed {seed}");
            came[usize::from(stream == "stderr")].extend(body.lines().map(str::to_owned));
        }
        assert_eq!(came, lines, "seed {seed}");
    }
}
