//! Tests of lines: every form of a sample, and every fault.

use super::{BodyFormat, LineKind, LineParser};
use crate::limits::FaultKind;

type Read = (String, Vec<(String, String)>, f64, Option<i64>);

fn read_as(format: BodyFormat, line: &str) -> Result<Read, FaultKind> {
    let mut parser = LineParser::default();
    if parser.read(line.as_bytes(), format)? != LineKind::Sample {
        return Err(FaultKind::Name);
    }
    let sample = parser.sample;
    let text =
        |span: super::LineSpan| String::from_utf8(span.slice_of(line.as_bytes()).to_vec()).unwrap();
    let labels = parser.labels.iter().map(|it| (text(it.name.span), text(it.value.span))).collect();
    Ok((text(sample.name.span), labels, sample.value, sample.time))
}

fn read(line: &str) -> Result<Read, FaultKind> {
    read_as(BodyFormat::Prometheus, line)
}

/// Scenario: samples have every form of the text format. Guarantee: name, labels, value and time
/// are parsed.
#[test]
fn samples_are_read() {
    let made = |name: &str, labels: &[(&str, &str)], value, time| {
        let own = |text: &&str| (*text).to_owned();
        let labels = labels.iter().map(|(name, value)| (own(name), own(value))).collect();
        Ok((name.to_owned(), labels, value, time))
    };
    assert_eq!(read("up 1"), made("up", &[], 1.0, None));
    assert_eq!(read("a:b_c{} 2"), made("a:b_c", &[], 2.0, None));
    assert_eq!(read("up{a=\"b\"} 1 5"), made("up", &[("a", "b")], 1.0, Some(5_000_000)));
    assert_eq!(
        read(" \tup { a = \"x,}\" , b=\"\\\"\", }\t1e3\t-2 "),
        made("up", &[("a", "x,}"), ("b", "\\\"")], 1000.0, Some(-2_000_000))
    );
    assert_eq!(read("{\"a.b\",\"c d\"=\"é\"} 1"), made("a.b", &[("c d", "é")], 1.0, None));
    assert_eq!(read("{a=\"b\",\"m\"} 1"), made("m", &[("a", "b")], 1.0, None));
    let open = read_as(BodyFormat::OpenMetrics, "up 1 1.5 # {a=\"b\"} 0.5 2");
    assert_eq!(open, made("up", &[], 1.0, Some(1_500_000_000)));
}

/// Scenario: each line has one fault. Guarantee: it is refused with that fault.
#[test]
fn broken_lines_are_refused_by_what_is_wrong() {
    for (line, fault) in [
        ("1up 1", FaultKind::Name),
        ("up-x 1", FaultKind::Name),
        ("{a=\"b\"} 1", FaultKind::Name),
        ("up", FaultKind::Value),
        ("up x", FaultKind::Value),
        ("up 1 x", FaultKind::Timestamp),
        ("up 1 1.5", FaultKind::Timestamp),
        ("up 1 1 1", FaultKind::Trailing),
        ("up{1=\"x\"} 1", FaultKind::LabelName),
        ("up{a:b=\"x\"} 1", FaultKind::LabelValue),
        ("up{a} 1", FaultKind::LabelValue),
        ("up{a=b} 1", FaultKind::LabelValue),
        ("up{a=\"b} 1", FaultKind::Quote),
        ("up{a=\"b\\", FaultKind::Quote),
        ("up{a=\"b\";c=\"d\"} 1", FaultKind::Brace),
        ("up{a=\"b\",a=\"c\"} 1", FaultKind::LabelTwice),
        ("up{a=\"b\" 1", FaultKind::Brace),
        ("up 1 # {} 1", FaultKind::Trailing),
    ] {
        assert_eq!(read(line), Err(fault), "{line}");
    }
    let open = |line| read_as(BodyFormat::OpenMetrics, line);
    assert_eq!(open(""), Err(FaultKind::NoSample));
    assert_eq!(open("# a comment"), Err(FaultKind::NoSample));
    assert_eq!(open("#EOF"), Err(FaultKind::NoSample));
    assert_eq!(open("up{a=\"b\"c=\"d\"} 1"), Err(FaultKind::Brace));
    assert_eq!(open("up 1 # x"), Err(FaultKind::Exemplar));
    assert_eq!(open("up 1 # {} 1 1 1"), Err(FaultKind::Trailing));
}

/// Scenario: a line has any bytes. Guarantee: the result is a sample or a fault, never a panic.
#[test]
fn any_line_is_read_or_refused() {
    use proptest::prelude::{any, prop_oneof, proptest};
    use proptest::strategy::Strategy;
    let like = "[a{}\"\\\\=,# 0-9.eé\t-]{0,40}".prop_map(String::into_bytes);
    let bytes = proptest::collection::vec(any::<u8>(), 0..60);
    proptest!(|(line in prop_oneof![like, bytes])| {
        let line: Vec<u8> = line.into_iter().filter(|byte| *byte != b'\n').collect();
        for format in [BodyFormat::Prometheus, BodyFormat::OpenMetrics] {
            let _ = LineParser::default().read(&line, format);
        }
    });
}

/// Scenario: responses have various content types. Guarantee: only text and OpenMetrics are
/// accepted.
#[test]
fn formats_are_told_by_their_type() {
    let of = BodyFormat::of_content_type;
    assert_eq!(of("text/plain; version=0.0.4; charset=utf-8"), Some(BodyFormat::Prometheus));
    assert_eq!(of(""), Some(BodyFormat::Prometheus));
    assert_eq!(of("Application/OpenMetrics-Text; version=1.0.0"), Some(BodyFormat::OpenMetrics));
    assert_eq!(of("text/html"), None);
    assert_eq!(of("application/vnd.google.protobuf; proto=x"), None);
}

/// Scenario: a comment, a description and a sample have bytes that aren't UTF-8. Guarantee: only
/// the comment is accepted, as by Prometheus: it is ignored.
#[test]
fn a_comment_may_be_in_another_encoding() {
    let read = |line: &[u8], format| LineParser::default().read(line, format);
    assert_eq!(read(b"# f\xfcr uns", BodyFormat::Prometheus), Ok(LineKind::Nothing));
    assert_eq!(read(b"# HELP a f\xfcr", BodyFormat::Prometheus), Err(FaultKind::NotText));
    assert_eq!(read(b"a{b=\"\xfc\"} 1", BodyFormat::Prometheus), Err(FaultKind::NotText));
    assert_eq!(read(b"# f\xfcr uns", BodyFormat::OpenMetrics), Err(FaultKind::NotText));
}
