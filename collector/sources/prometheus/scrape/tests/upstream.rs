//! Tests with the bodies that Prometheus' own parser tests accept and refuse.

use common::{LIMITS, S, scrape_pieces, target};
use millrace_scrape::{BodyFormat, SeriesMemory};

use crate::common;

const CASES: &str = include_str!("data/upstream.txt");

fn unescape(text: &str) -> Vec<u8> {
    let (mut out, mut bytes) = (Vec::new(), text.bytes());
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => match bytes.next().unwrap() {
                b'n' => out.push(b'\n'),
                b'x' => {
                    let mut digit = || char::from(bytes.next().unwrap()).to_digit(16).unwrap();
                    out.push((digit() << 4 | digit()) as u8);
                }
                other => out.push(other),
            },
            other => out.push(other),
        }
    }
    out
}

/// Scenario: each body of their tests is parsed. Guarantee: accepted and refused bodies are the
/// same, except for those that the file names.
#[test]
fn what_prometheus_accepts_is_accepted() {
    let (mut wrong, mut count) = (Vec::new(), 0);
    for line in CASES.lines().filter(|line| !line.starts_with("# ")) {
        // `taken` marks bodies that Prometheus refuses and this parser accepts.
        let mut words = line.splitn(3, ' ');
        let format = match words.next().unwrap() {
            "open" => BodyFormat::OpenMetrics,
            _ => BodyFormat::Prometheus,
        };
        let theirs = words.next().unwrap();
        let body = unescape(words.next().unwrap());
        let how = (format, LIMITS);
        let came = scrape_pieces(&target(), &mut SeriesMemory::default(), how, 10 * S, &[&body]);
        let is_right = match theirs {
            "refuse" => came.fault.is_some(),
            _ => came.fault.is_none(),
        };
        if !is_right {
            wrong.push(format!("{line} => {:?}", came.fault.map(|fault| fault.to_string())));
        }
        count += 1;
    }
    assert!(count > 150);
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
}
