//! Misses and false hits over a corpus of made-up secrets and near misses.

use std::ops::Range;

use millrace_processing::redact::{ReadySet, RedactScratch, Redactor};
use serde_json::json;

use super::redactor;

/// A line of the corpus: its text, and the ranges that are secret.
struct Line {
    text: String,
    secrets: Vec<Range<usize>>,
}

/// Reads a file of the corpus. A line begins with `+` if it has secrets, in white square brackets;
/// with `-` if it has none; with `#` if it's a remark.
fn lines(name: &str) -> Vec<Line> {
    let path =
        format!("{}/tests/redact/corpus/{}.txt", env!("CARGO_MANIFEST_DIR"), camel_case(name));
    let file = std::fs::read_to_string(path).expect("a file of the corpus");
    let lines = file.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| parse(&line[2..], line.starts_with('+'))).collect()
}

fn camel_case(name: &str) -> String {
    name[..1].to_lowercase() + &name[1..]
}

fn parse(line: &str, has_secrets: bool) -> Line {
    let (mut text, mut secrets, mut start) = (String::new(), Vec::new(), 0);
    for character in line.chars() {
        match character {
            '\u{27e6}' => start = text.len(),
            '\u{27e7}' => secrets.push(start..text.len()),
            '\u{23ce}' => text.push('\n'),
            '\u{240d}' => text.push('\r'),
            '\u{2027}' => {}
            other => text.push(other),
        }
    }
    assert_eq!(secrets.is_empty(), !has_secrets, "{line}");
    Line { text, secrets }
}

fn hits(redactor: &Redactor, text: &str) -> Vec<Range<usize>> {
    let mut scratch = RedactScratch::default();
    redactor.find(text.as_bytes(), &mut scratch);
    scratch.hits().iter().map(|hit| hit.range()).collect()
}

/// The counts of one set over the corpus.
#[derive(Debug, PartialEq, Eq)]
struct Counts {
    secrets: usize,
    /// Secrets of which a byte isn't in a hit.
    misses: usize,
    near_misses: usize,
    /// Hits in lines that have no such secret, or next to those that a line has.
    false_hits: usize,
    /// Hits in ordinary log lines.
    ordinary_hits: usize,
}

/// The counts of a set, and the lines with misses and false hits.
fn count(set: ReadySet) -> (Counts, Vec<String>) {
    let mut remarks = Vec::new();
    let redactor = redactor(json!({"sets": [set.name()]}));
    let mut counts =
        Counts { secrets: 0, misses: 0, near_misses: 0, false_hits: 0, ordinary_hits: 0 };
    for line in lines(set.name()) {
        let hits = hits(&redactor, &line.text);
        counts.secrets += line.secrets.len();
        counts.near_misses += usize::from(line.secrets.is_empty());
        for secret in &line.secrets {
            if !hits.iter().any(|hit| hit.start <= secret.start && secret.end <= hit.end) {
                remarks.push(format!("missed: {}", line.text));
                counts.misses += 1;
            }
        }
        for hit in hits {
            let overlaps = |secret: &Range<usize>| hit.start < secret.end && secret.start < hit.end;
            if !line.secrets.iter().any(overlaps) {
                remarks.push(format!("false hit {:?}: {}", &line.text[hit], line.text));
                counts.false_hits += 1;
            }
        }
    }
    for line in lines("ordinary") {
        for hit in hits(&redactor, &line.text) {
            remarks.push(format!("false hit {:?}: {}", &line.text[hit], line.text));
            counts.ordinary_hits += 1;
        }
    }
    (counts, remarks)
}

/// Scenario: each ready set over its own file of secrets and near misses, and over ordinary log
/// lines.
/// Guarantee: the counts of misses and false hits, which the documentation states.
#[test]
fn misses_and_false_hits_are_counted() {
    // Set, secrets, misses, near misses, false hits, hits in ordinary lines.
    let table = [
        (ReadySet::Email, 100, 7, 82, 3, 0),
        (ReadySet::Bearer, 70, 2, 32, 0, 0),
        (ReadySet::Basic, 70, 1, 30, 0, 0),
        (ReadySet::Jwt, 56, 1, 23, 2, 0),
        (ReadySet::Card, 70, 5, 89, 0, 0),
        (ReadySet::Iban, 55, 4, 49, 0, 0),
        (ReadySet::PrivateKey, 44, 2, 20, 0, 0),
        (ReadySet::CloudKey, 81, 6, 54, 0, 0),
        (ReadySet::Ipv4, 83, 5, 50, 5, 0),
        (ReadySet::Ipv6, 70, 4, 58, 1, 0),
    ];
    assert_eq!(table.map(|row| row.0), ReadySet::ALL);
    for (set, secrets, misses, near_misses, false_hits, ordinary_hits) in table {
        let expected = Counts { secrets, misses, near_misses, false_hits, ordinary_hits };
        let (counts, remarks) = count(set);
        assert_eq!(counts, expected, "{}: {remarks:#?}", set.name());
    }
}

/// Scenario: the secrets of all sets, with all sets on, before any other text and after any.
/// Guarantee: hits are those of the line alone, at each position in blocks and vectors.
#[test]
fn hits_do_not_depend_on_the_position_in_the_text() {
    let redactor = redactor(json!({}));
    let filler = "all is well \u{2713} in here, (really) -- ".repeat(4);
    let starts: Vec<usize> = filler.char_indices().map(|(at, _)| at).collect();
    for set in ReadySet::ALL {
        for (index, line) in lines(set.name()).iter().enumerate() {
            let alone = hits(&redactor, &format!(";{};", line.text));
            for step in 0..8 {
                let start = starts[(index * 8 + step) % starts.len()];
                let text = format!("{};{};{}", &filler[start..], line.text, &filler[..start]);
                let before = filler.len() - start;
                let moved: Vec<_> =
                    alone.iter().map(|hit| hit.start + before..hit.end + before).collect();
                assert_eq!(hits(&redactor, &text), moved, "{text}");
            }
        }
    }
}
