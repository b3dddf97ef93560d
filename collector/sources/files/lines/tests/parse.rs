//! Tests the fields of a line's text: by tables, and against serde_json.

use std::sync::Arc;

use common::{NOW, attribute, parsed, read, roles, source, text_attribute, tree};
use millrace_lines::{
    Container, DEPTH_MAX, FIELDS_MAX, LineReader, LogsRequest, NAME_BYTES_MAX, NESTED_BYTES_MAX,
    ParseFault, ParseRules, RecordCounts, RecordRules, Roles, TimeLayout, TimestampFormat,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValue, KeyValueList};
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use proptest::prelude::*;
use serde_json::Value as Json;

use crate::common;

/// 2016-10-06T00:17:09Z.
const T: u64 = 1_475_713_029_000_000_000;

/// A record of a plain line, with these attributes before the receiver's own.
fn record(body: &str, attributes: &[KeyValue]) -> LogRecord {
    let mut record = tree(0, "", body, false);
    record.attributes.splice(0..0, attributes.iter().cloned());
    record
}

fn one(parse: &ParseRules, line: &str) -> (LogRecord, RecordCounts) {
    let (mut records, counts) = read(&parsed(parse.clone()), format!("{line}\n").as_bytes());
    assert_eq!(records.len(), 1, "{line}");
    (records.remove(0), counts)
}

fn faults(faults: &[ParseFault]) -> RecordCounts {
    let mut counts = RecordCounts { records: 1, ..RecordCounts::default() };
    faults.iter().for_each(|fault| counts.parse_faults[*fault as usize] += 1);
    counts
}

fn any_value(value: Option<Value>) -> AnyValue {
    AnyValue { value }
}

fn int(key: &str, value: i64) -> KeyValue {
    attribute(key, Value::IntValue(value))
}

/// Converts a JSON value to OTLP's.
fn expected(json: &Json) -> AnyValue {
    any_value(match json {
        Json::Null => None,
        Json::Bool(flag) => Some(Value::BoolValue(*flag)),
        Json::String(text) => Some(Value::StringValue(text.clone())),
        Json::Number(number) => Some(match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => Value::IntValue(number),
            (None, Some(_)) => Value::StringValue(number.to_string()),
            (None, None) => Value::DoubleValue(number.as_f64().unwrap()),
        }),
        Json::Array(all) => {
            let values = all.iter().map(expected).collect();
            Some(Value::ArrayValue(ArrayValue { values }))
        }
        Json::Object(all) => {
            let values = all.iter().map(|(key, value)| member(key, value)).collect();
            Some(Value::KvlistValue(KeyValueList { values }))
        }
    })
}

fn member(key: &str, value: &Json) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(expected(value)), ..KeyValue::default() }
}

/// Scenario: an object with values of each type, nested ones, escapes in names and texts.
/// Guarantee: fields have their types; body, time and severity are assigned and are no attributes;
/// the receiver's attributes are unchanged.
#[test]
fn members_of_an_object_are_fields_of_the_record() {
    let line = r#" { "time":"2016-10-06T02:17:09.5+02:00", "level":"Warning" ,"msg":"a \"b\"\u00e4\n",
        "n":-7,"f":1.5,"yes":true,"no":null,"s\u0061":"x\ty","empty":"",
        "o":{"p":{"q":[1,"two",{"r":false},[]]}},"big":18446744073709551615 } "#;
    let (found, counts) = one(&ParseRules::json(roles()), &line.replace('\n', ""));
    let json: Json = serde_json::from_str(line).unwrap();
    let names = ["n", "f", "yes", "no", "sa", "empty", "o", "big"];
    let attributes = names.map(|name| member(name, &json[name]));
    let expected = LogRecord {
        time_unix_nano: T + 500_000_000,
        severity_number: 13,
        severity_text: "Warning".to_owned(),
        ..record("a \"b\"ä\n", &attributes)
    };
    assert_eq!((found, counts), (expected, faults(&[])));
}

/// Scenario: lines that aren't a JSON object, by one byte or altogether. Guarantee: each is the
/// record that it would be without a parser, and counted.
#[test]
fn what_is_no_object_goes_on_as_it_is() {
    for line in [
        "plain text",
        "[1]",
        "\"text\"",
        "{",
        "{}x",
        "{\"a\":1,}",
        "{\"a\":01}",
        "{\"a\":1.}",
        "{\"a\":.5}",
        "{\"a\":+1}",
        "{\"a\":-}",
        "{\"a\":1e}",
        "{\"a\":tru}",
        "{\"a\":nul}",
        "{\"a\" 1}",
        "{\"a\":}",
        "{a:1}",
        "{\"a\":\"b}",
        "{\"a\":\"\\x\"}",
        "{\"a\":\"\\u12\"}",
        "{\"msg\":\"\\q\"}",
        "{\"\\q\":1}",
        "{\"a\":[1 2]}",
        "{\"a\":[1,]}",
        "{\"a\":{\"b\":1}",
        "{\"a\":[}",
    ] {
        let (found, counts) = one(&ParseRules::json(roles()), line);
        assert_eq!(found, record(line, &[]), "{line}");
        assert_eq!(counts, faults(&[ParseFault::Malformed]), "{line}");
    }
}

/// Scenario: objects at each bound and one over it, a repeated name at the top and below.
/// Guarantee: at the bound all fields are parsed; over it the line is unchanged, and counted by the
/// exceeded bound.
#[test]
fn what_is_beyond_a_bound_goes_on_as_it_is() {
    let nested = |depth: usize| {
        let open = "{\"a\":".repeat(depth);
        format!("{{\"a\":{open}1{}}}", "}".repeat(depth))
    };
    let fields = |count: usize| {
        let fields: Vec<_> = (0..count).map(|number| format!("\"f{number}\":{number}")).collect();
        format!("{{{}}}", fields.join(","))
    };
    let elements = |count: usize| format!("{{\"a\":[{}0]}}", "0,".repeat(count - 2));
    let name = |length: usize| format!("{{\"{}\":1}}", "n".repeat(length));
    let text = |bytes: usize| format!("{{\"a\":{}}}", wrapped(bytes));
    for (fits, line, fault) in [
        (true, nested(DEPTH_MAX), ParseFault::TooDeep),
        (false, nested(DEPTH_MAX + 1), ParseFault::TooDeep),
        (true, fields(FIELDS_MAX), ParseFault::TooManyFields),
        (false, fields(FIELDS_MAX + 1), ParseFault::TooManyFields),
        (true, elements(FIELDS_MAX), ParseFault::TooManyFields),
        (false, elements(FIELDS_MAX + 1), ParseFault::TooManyFields),
        (true, name(NAME_BYTES_MAX), ParseFault::LongName),
        (false, name(NAME_BYTES_MAX + 1), ParseFault::LongName),
        (true, text(NESTED_BYTES_MAX as usize / 8 - 100), ParseFault::TooLarge),
        (false, text(NESTED_BYTES_MAX as usize / 8), ParseFault::TooLarge),
        (false, r#"{"a":1,"b":2,"a":3}"#.to_owned(), ParseFault::RepeatedName),
        (false, r#"{"o":{"a":1,"\u0061":3}}"#.to_owned(), ParseFault::RepeatedName),
        (false, r#"{"o":{},"o":{}}"#.to_owned(), ParseFault::RepeatedName),
        (
            false,
            r#"{"log.file.path":1,"line.log.file.path":2}"#.to_owned(),
            ParseFault::RepeatedName,
        ),
        (
            true,
            r#"{"o":{"a":1},"p":{"a":3},"a":[{"a":1},{"a":1}]}"#.to_owned(),
            ParseFault::TooDeep,
        ),
    ] {
        let (found, counts) = one(&ParseRules::json(roles()), &line);
        let start = &line[..line.len().min(60)];
        if fits {
            let json: Json = serde_json::from_str(&line).unwrap();
            let mut attributes = found.attributes[..found.attributes.len() - 1].to_vec();
            attributes.sort_by(|one, other| one.key.cmp(&other.key));
            let expected: Vec<_> =
                json.as_object().unwrap().iter().map(|(k, v)| member(k, v)).collect();
            assert!(attributes == expected, "{start}");
            assert_eq!(counts, faults(&[]), "{start}");
        } else {
            assert!(found == record(&line, &[]), "{start}");
            assert_eq!(counts, faults(&[fault]), "{start}");
        }
    }
}

/// A text of `bytes` in eight nested objects.
fn wrapped(bytes: usize) -> String {
    let (open, close) = ("{\"\":".repeat(8), "}".repeat(8));
    format!("{open}\"{}\"{close}", "x".repeat(bytes))
}

/// Scenario: fields with the names of the receiver's attributes, complete or as objects, and with
/// names of the resource. Guarantee: each is stored with the prefix `line.`; the receiver's own
/// attributes and the resource are unchanged.
#[test]
fn no_field_takes_the_place_of_what_the_receiver_writes() {
    let line = r#"{"log.file.path":"/forged","log":{"iostream":"stderr"},"k8s.pod.name":"forged",
        "k8s":1,"service.name":"forged","log.record.truncated":true,"log.level":"info","logs":1}"#;
    let (found, counts) = one(&ParseRules::json(roles()), &line.replace('\n', ""));
    let json: Json = serde_json::from_str(line).unwrap();
    let named = |name: &str, of: &str| member(name, &json[of]);
    let expected = record(
        &line.replace('\n', ""),
        &[
            named("line.log.file.path", "log.file.path"),
            named("line.log", "log"),
            named("line.k8s.pod.name", "k8s.pod.name"),
            named("line.k8s", "k8s"),
            named("line.service.name", "service.name"),
            named("line.log.record.truncated", "log.record.truncated"),
            named("log.level", "log.level"),
            named("logs", "logs"),
        ],
    );
    assert_eq!((found, counts), (expected, faults(&[])));
}

/// Scenario: fields for body, time and severity that don't fit, are repeated, or are missing.
/// Guarantee: the first that fits is used; every other one is an attribute; unreadable ones are
/// counted; without a body field the line is the body.
#[test]
fn fields_that_do_not_fit_their_place_are_attributes() {
    let json = ParseRules::json(roles());
    let line = r#"{"message":5,"msg":"text","ts":"now","time":"2016-10-06 00:17:09","level":true,"severity":"loud"}"#;
    let (found, counts) = one(&json, line);
    let flag = attribute("level", Value::BoolValue(true));
    let expected = LogRecord {
        time_unix_nano: T,
        severity_text: "loud".to_owned(),
        ..record("text", &[int("message", 5), text_attribute("ts", "now"), flag])
    };
    assert_eq!(found, expected);
    // A line is counted once for each reason.
    assert_eq!(counts, faults(&[ParseFault::Timestamp, ParseFault::Severity]));

    let line = r#"{"msg":"a","message":"b","level":"info","severity":"warn"}"#;
    let (found, _) = one(&json, line);
    let rest = [text_attribute("message", "b"), text_attribute("severity", "warn")];
    let expected =
        LogRecord { severity_number: 9, severity_text: "info".to_owned(), ..record("a", &rest) };
    assert_eq!(found, expected);

    let (found, counts) = one(&json, r#"{"a":1}"#);
    assert_eq!((found, counts), (record(r#"{"a":1}"#, &[int("a", 1)]), faults(&[])));
}

/// Scenario: times in each format, as text and as numbers, within a container's line. Guarantee:
/// the field's time is the record's, to the nanosecond; with another format the container's time
/// remains.
#[test]
fn a_fields_time_is_the_records() {
    let layout = TimeLayout::new("%d/%b/%Y:%H:%M:%S %z").unwrap();
    for (time_format, value, nanos) in [
        (TimestampFormat::Rfc3339, r#""2016-10-06T00:17:09,25Z""#, T + 250_000_000),
        (TimestampFormat::UnixSeconds, "1475713029.25", T + 250_000_000),
        (TimestampFormat::UnixSeconds, r#""1475713029""#, T),
        (TimestampFormat::UnixMillis, "1475713029250", T + 250_000_000),
        (TimestampFormat::UnixMicros, "1475713029250000.5", T + 250_000_500),
        (TimestampFormat::UnixNanos, "1475713029250000001", T + 250_000_001),
        (TimestampFormat::Layout(layout), r#""06/Oct/2016:02:17:09 +0200""#, T),
        (TimestampFormat::Rfc3339, "1475713029", 0),
        (TimestampFormat::UnixSeconds, "1.475713029e9", 0),
        (TimestampFormat::UnixSeconds, "0", 0),
        (TimestampFormat::UnixMillis, "null", 0),
        (TimestampFormat::UnixMillis, "{}", 0),
    ] {
        let parse = ParseRules::json(Roles { time_format, ..roles() });
        let form = Arc::new(RecordRules {
            container: Container::Cri,
            ..RecordRules::clone(&parsed(parse))
        });
        let file = format!("2020-01-01T00:00:00Z stdout F {{\"time\":{value},\"msg\":\"m\"}}\n");
        let (records, counts) = read(&form, file.as_bytes());
        let own = 1_577_836_800_000_000_000;
        assert_eq!(records[0].time_unix_nano, if nanos == 0 { own } else { nanos }, "{value}");
        assert_eq!(records[0].attributes.len(), 2 + usize::from(nanos == 0), "{value}");
        let is_counted = nanos == 0 && value != "{}";
        let expected: &[_] = if is_counted { &[ParseFault::Timestamp] } else { &[] };
        assert_eq!(counts, faults(expected), "{value}");
    }
}

/// Scenario: fields with times of broken clocks, at both ends of the accepted range, and an uptime,
/// in JSON, logfmt and by a pattern; in plain lines and in a container's, whose own time is years
/// old; and read by a machine whose clock is unset. Guarantee: a time outside the range isn't used
/// and is counted like one of another format; the record has the container's time however old, or
/// none. With an unset clock all times are accepted.
#[test]
fn a_fields_time_far_from_its_reading_is_not_used() {
    const SECOND: u64 = 1_000_000_000;
    const DAY: u64 = 86_400 * SECOND;
    let now = 20_800 * DAY;
    let framed = 1_577_836_800 * SECOND;
    let seconds = || Roles { time_format: TimestampFormat::UnixSeconds, ..roles() };
    let pattern = r#"time"?[:=](?P<time>[0-9.]+)"#;
    let forms =
        || [ParseRules::json(seconds()), ParseRules::logfmt(seconds()), regex(pattern, seconds())];
    for (time, is_used) in [
        ((now - 400 * DAY) / SECOND, true),
        ((now - 400 * DAY) / SECOND - 1, false),
        ((now + 2 * DAY) / SECOND, true),
        ((now + 2 * DAY) / SECOND + 1, false),
        (12, false),
    ] {
        for (index, parse) in forms().into_iter().enumerate() {
            let text = match index {
                0 => format!("{{\"time\":{time}}}"),
                _ => format!("time={time}"),
            };
            let plain = parsed(parse);
            let cri =
                Arc::new(RecordRules { container: Container::Cri, ..RecordRules::clone(&plain) });
            let line = format!("2020-01-01T00:00:00Z stdout F {text}");
            for (form, line, own) in [(plain, text, 0), (cri, line, framed)] {
                let (record, counts) = read_at(&form, &line, now);
                let expected = if is_used { time * SECOND } else { own };
                assert_eq!(record.time_unix_nano, expected, "{line}");
                assert_eq!(record.observed_time_unix_nano, now);
                assert_eq!(counts.parse_faults[ParseFault::Timestamp as usize] == 0, is_used);
                let (record, _) = read_at(&form, &line, DAY);
                assert_eq!(record.time_unix_nano, time * SECOND, "{line}");
            }
        }
    }
}

fn regex(pattern: &str, roles: Roles) -> ParseRules {
    ParseRules::regex(pattern, roles).unwrap()
}

/// The record of a line that is read at `now`.
fn read_at(form: &Arc<RecordRules>, line: &str, now: u64) -> (LogRecord, RecordCounts) {
    let (source, mut request) = (source(), LogsRequest::with_limit(usize::MAX));
    let mut reader = LineReader::new(Arc::clone(form), 0);
    reader.read_bytes(format!("{line}\n").as_bytes(), now, &mut request.begin_records(&source));
    let mut records = common::decoded(&request);
    (records.pop().unwrap(), reader.take_counts())
}

/// Scenario: lines of logfmt with each kind of value, and lines that aren't logfmt. Guarantee:
/// quoted values are text; numbers and booleans have their types only if none of the text is lost;
/// prose is unchanged.
#[test]
fn pairs_of_logfmt_are_fields_of_the_record() {
    let logfmt = ParseRules::logfmt(roles());
    let line = "time=2016-10-06T00:17:09Z level=err msg=\"a \\\"b\\\" \\u00e4\" n=-7 f=1.5 yes=true \
                quoted=\"7\" zero=007 version=1.10 hash=1e5 long=12345678901234567890 \
                empty= url=http://x/?a=b \t q=\"a b\" minus=- dot=1. none=-0 many=0.1234567890123456";
    let (found, counts) = one(&logfmt, line);
    let text = text_attribute;
    let attributes = [
        int("n", -7),
        attribute("f", Value::DoubleValue(1.5)),
        attribute("yes", Value::BoolValue(true)),
        text("quoted", "7"),
        text("zero", "007"),
        text("version", "1.10"),
        text("hash", "1e5"),
        text("long", "12345678901234567890"),
        text("empty", ""),
        text("url", "http://x/?a=b"),
        text("q", "a b"),
        text("minus", "-"),
        text("dot", "1."),
        text("none", "-0"),
        text("many", "0.1234567890123456"),
    ];
    let expected = LogRecord {
        time_unix_nano: T,
        severity_number: 17,
        severity_text: "err".to_owned(),
        ..record("a \"b\" ä", &attributes)
    };
    assert_eq!((found, counts), (expected, faults(&[])));
    for (line, fault) in [
        ("hello world", ParseFault::Malformed),
        ("a=1 word", ParseFault::Malformed),
        ("=1", ParseFault::Malformed),
        ("a=\"b", ParseFault::Malformed),
        ("a=\"b\"c=1", ParseFault::Malformed),
        ("a=\"\\x\"", ParseFault::Malformed),
        ("a\"b=1", ParseFault::Malformed),
        (" ", ParseFault::Malformed),
        ("a=1 a=2", ParseFault::RepeatedName),
    ] {
        let (found, counts) = one(&logfmt, line);
        assert_eq!((found, counts), (record(line, &[]), faults(&[fault])), "{line}");
    }
}

/// Scenario: a pattern with named, unnamed and optional groups, and lines that match or don't.
/// Guarantee: matched groups are fields, all text; other lines are unchanged.
#[test]
fn named_groups_are_fields_of_the_record() {
    let pattern = r"^(?P<time>\S+ \S+) \[(?P<level>\w+)\]( )(?P<http.status>\d+)?(?<msg>.*)$";
    let regex = ParseRules::regex(pattern, roles()).unwrap();
    let base = LogRecord {
        time_unix_nano: T + 669_000_000,
        severity_number: 9,
        severity_text: "INFO".to_owned(),
        ..record("", &[])
    };
    let with = |body: &str, attributes: &[KeyValue]| {
        let LogRecord { body, attributes, .. } = record(body, attributes);
        LogRecord { body, attributes, ..base.clone() }
    };
    let (found, counts) = one(&regex, "2016-10-06 00:17:09,669 [INFO] 200 größe");
    let expected = with(" größe", &[text_attribute("http.status", "200")]);
    assert_eq!((found, counts), (expected, faults(&[])));
    let (found, _) = one(&regex, "2016-10-06 00:17:09,669 [INFO] text");
    assert_eq!(found, with("text", &[]));
    let (found, counts) = one(&regex, "something else");
    let expected = (record("something else", &[]), faults(&[ParseFault::Malformed]));
    assert_eq!((found, counts), expected);
}

/// Scenario: patterns that are malformed, too large, or name no group. Guarantee: they are refused
/// with the reason.
#[test]
fn a_pattern_that_can_not_be_used_is_refused() {
    for (pattern, why) in [
        ("(?P<a>", "not a valid regular expression"),
        ("(?P<a>x)(?P<a>y)", "duplicate"),
        (r"(?P<a>\w{1000}{100})", "exceeds size limit"),
        ("(a)", "no group has a name"),
    ] {
        let error = ParseRules::regex(pattern, Roles::default()).unwrap_err().to_string();
        assert!(error.contains(why), "{pattern}: {error}");
    }
}

/// Scenario: bytes that aren't UTF-8 in names and texts of each format. Guarantee: they are
/// replaced as in any body, counted once, and parsed.
#[test]
fn bytes_that_are_no_text_are_replaced_before_a_line_is_parsed() {
    let regex = ParseRules::regex("^(?P<a>.*)$", roles()).unwrap();
    for (parse, line, key, value) in [
        (ParseRules::json(roles()), &b"{\"k\xff\":\"v\xfe\"}\n"[..], "k\u{fffd}", "v\u{fffd}"),
        (ParseRules::logfmt(roles()), b"k\xff=v\xfe\n", "k\u{fffd}", "v\u{fffd}"),
        (regex, b"v\xfe\n", "a", "v\u{fffd}"),
    ] {
        let (records, counts) = read(&parsed(parse), line);
        let body = String::from_utf8_lossy(&line[..line.len() - 1]).into_owned();
        assert_eq!(records, [record(&body, &[text_attribute(key, value)])]);
        assert_eq!(counts, RecordCounts { records: 1, invalid_utf8: 1, ..RecordCounts::default() });
    }
}

/// Scenario: a container's line without the container's format, which is a JSON object. Guarantee:
/// it is an unchanged record without fields.
#[test]
fn a_container_line_without_its_format_is_not_parsed() {
    let plain = RecordRules::clone(&parsed(ParseRules::json(roles())));
    let form = Arc::new(RecordRules { container: Container::Detect, ..plain });
    let (records, counts) = read(&form, b"{\"msg\":\"m\",\"a\":1}\n");
    assert_eq!(records, [record("{\"msg\":\"m\",\"a\":1}", &[])]);
    assert_eq!(counts, RecordCounts { records: 1, unparsed: 1, ..RecordCounts::default() });
}

/// Scenario: lines with nested members of long names until the request is full. Guarantee: its
/// written size is within a request's limit, by the product's own measure.
#[test]
fn nested_fields_count_toward_a_full_request() {
    let name = "n".repeat(NAME_BYTES_MAX);
    let open = format!("{{\"{name}\":").repeat(DEPTH_MAX);
    let members: Vec<_> = (0..200).map(|number| format!("\"{number}\":1")).collect();
    let line = format!("{open}{{{}}}{}\n", members.join(","), "}".repeat(DEPTH_MAX));
    let file = line.repeat(200);
    let source = source();
    let mut request = LogsRequest::with_limit(usize::MAX);
    let mut reader = LineReader::new(parsed(ParseRules::json(roles())), 0);
    let taken = reader.read_bytes(file.as_bytes(), NOW, &mut request.begin_records(&source));
    assert!(taken < file.len() && request.is_full());
    let records = common::decoded(&request);
    assert!(records.iter().all(|record| record.attributes.len() == 2));
}

/// Patterns before a last group.
const HEADS: &[&str] = &[
    "",
    "^",
    r"^(?P<a>\S+) (?P<b>[A-Z]+) ",
    r"^x(?P<a>.*?)(?P<b>\d)?",
    r"(?P<a>a|ab)(?P<b>b|c)?",
    r"(?P<a>[|(]+)\b",
    r"^(?:(?P<a>x+)|(?P<b>y))(=)?",
    r"a|b",
    r"(?P<a>\w*?)$",
];

/// Pieces of lines.
const MARKS: &[&[u8]] = &[
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"",
    b"\"",
    b":",
    b",",
    b"=",
    b" ",
    b"\n",
    b"\\",
    b"\\u00e4",
    b"\"k\":",
    b"\"log\":",
    b"\"log.file.path\":",
    b"{\"a\":",
    b"1",
    b"-0.5e1",
    b"true",
    b"null",
    b"\"x\"",
    b"k=",
    b"k8s.pod.name=",
    b"line.log.file.path=",
    b"level",
    b"\xff",
    b"\xe2\x82\xac",
];

/// Texts that a line may have, with characters that JSON escapes.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{0,12}",
        "[ -~]{0,40}",
        any::<String>(),
        proptest::collection::vec(
            prop_oneof![
                Just('"'),
                Just('\\'),
                Just('\n'),
                Just('\u{1d11e}'),
                Just('ä'),
                Just('\0')
            ],
            0..6
        )
        .prop_map(|all| all.into_iter().collect()),
        "[a-z]{100,300}",
    ]
}

fn name() -> impl Strategy<Value = String> {
    text().prop_filter("short", |name| name.len() < NAME_BYTES_MAX)
}

fn value() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        (-200_i64..200).prop_map(Json::from),
        any::<u64>().prop_map(Json::from),
        any::<f64>().prop_filter("finite", |value| value.is_finite()).prop_map(Json::from),
        text().prop_map(Json::from),
    ];
    leaf.prop_recursive(5, 60, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Json::from),
            proptest::collection::btree_map(name(), inner, 0..6)
                .prop_map(|all| Json::Object(all.into_iter().collect())),
        ]
    })
}

fn object() -> impl Strategy<Value = Json> {
    proptest::collection::btree_map(name(), value(), 0..10)
        .prop_map(|all| Json::Object(all.into_iter().collect()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    /// Scenario: random objects, written by serde_json, with and without white space. Guarantee:
    /// the attributes are exactly those values.
    #[test]
    fn fields_are_what_serde_json_wrote(object in object(), pretty in any::<bool>()) {
        let line = if pretty {
            serde_json::to_string_pretty(&object).unwrap().replace('\n', " ")
        } else {
            object.to_string()
        };
        let (found, counts) = one(&ParseRules::json(Roles::default()), &line);
        let mut attributes = found.attributes.clone();
        attributes.pop();
        attributes.sort_by(|one, other| one.key.cmp(&other.key));
        let members = object.as_object().unwrap().iter();
        let expected: Vec<_> = members.map(|(key, value)| member(key, value)).collect();
        prop_assert_eq!(attributes, expected);
        prop_assert_eq!(counts, faults(&[]));
    }

    /// Scenario: such lines with a byte changed, added or removed. Guarantee: they are parsed
    /// exactly if serde_json accepts them as an object, except for repeated names, control
    /// characters and halves of characters, which the rules define; otherwise the line is an
    /// unchanged record.
    #[test]
    fn damaged_objects_are_refused_as_serde_json_does(
        object in object(), at in any::<prop::sample::Index>(), byte in 32_u8..127, how in 0..3,
    ) {
        let mut line = object.to_string().into_bytes();
        let at = at.index(line.len());
        match how {
            0 => line[at] = byte,
            1 => line.insert(at, byte),
            _ => drop(line.remove(at)),
        }
        let line = String::from_utf8_lossy(&line).into_owned();
        prop_assume!(!line.is_empty());
        let (found, counts) = one(&ParseRules::json(Roles::default()), &line);
        let fault = ParseFault::ALL.into_iter().find(|fault| counts.parse_faults[*fault as usize] > 0);
        let read = serde_json::from_str::<Json>(&line);
        match fault {
            Some(fault) => {
                prop_assert_eq!(&found, &record(&line, &[]));
                let is_object = read.is_ok_and(|json| json.is_object());
                prop_assert!(!is_object || fault == ParseFault::RepeatedName, "{}: {}", fault, line);
            }
            None => {
                let is_lenient = read.as_ref().is_err_and(|error| {
                    let why = error.to_string();
                    ["control character", "surrogate", "hex escape", "out of range"]
                        .iter()
                        .any(|known| why.contains(known))
                });
                prop_assert!(is_lenient || read.is_ok_and(|json| json.is_object()), "{}", line);
            }
        }
    }

    /// Scenario: lines of characters that a parser interprets, and of any bytes. Guarantee: as many
    /// records as without a parser; each is as without one, or has fields with unique names, and
    /// the receiver's attributes last, once.
    #[test]
    fn any_line_is_a_record_and_forges_nothing(
        file in prop_oneof![
            proptest::collection::vec(proptest::sample::select(MARKS), 0..40)
                .prop_map(|marks| marks.concat()),
            proptest::collection::vec(any::<u8>(), 0..60),
        ],
        format in 0..3,
    ) {
        let pattern = r"(?P<log.file.path>\w+)?[{ ](?P<level>\w)?(?P<k>.*?)(?:=(?P<msg>.+))?$";
        let parse = match format {
            0 => ParseRules::json(roles()),
            1 => ParseRules::logfmt(roles()),
            _ => ParseRules::regex(pattern, roles()).unwrap(),
        };
        let (records, counts) = read(&parsed(parse), &file);
        let (plain, _) = read(&common::form(Container::None, None, 256 * 1024), &file);
        prop_assert_eq!(records.len(), plain.len());
        let failed = counts.parse_faults[..ParseFault::Timestamp as usize].iter().sum::<u64>();
        let mut same = 0;
        for (record, plain) in records.iter().zip(&plain) {
            same += u64::from(record == plain);
            prop_assert_eq!(record.attributes.last(), plain.attributes.last());
            let mut names: Vec<_> = record.attributes.iter().map(|one| &one.key).collect();
            names.sort();
            names.dedup();
            prop_assert_eq!(names.len(), record.attributes.len());
        }
        prop_assert!(same >= failed);
    }

    /// Scenario: patterns that end with a group for the remainder of the line, and the same ones in
    /// a form that isn't recognised as such, on random lines. Guarantee: the same fields.
    #[test]
    fn a_last_group_for_the_rest_is_what_the_pattern_would_find(
        head in proptest::sample::select(HEADS), line in "[ a-cA-C0-2=|(ä-]{0,30}",
    ) {
        let fast = ParseRules::regex(&format!("{head}(?P<rest>.*)$"), Roles::default()).unwrap();
        let slow = ParseRules::regex(&format!("(?:{head}(?P<rest>.*)$)"), Roles::default()).unwrap();
        let line = format!("x{line}");
        prop_assert_eq!(one(&fast, &line), one(&slow, &line));
    }

    /// Scenario: random pairs, quoted where necessary. Guarantee: the names and values are
    /// restored.
    #[test]
    fn pairs_are_read_as_they_were_written(
        pairs in proptest::collection::btree_map("[a-z._-]{1,12}", text(), 1..8),
    ) {
        let written = pairs.iter().map(|(name, value)| {
            let is_word = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_lowercase());
            let value = if is_word { value.clone() } else { Json::from(value.as_str()).to_string() };
            format!("{name}={value}")
        });
        let line = written.collect::<Vec<_>>().join(" ");
        let (found, counts) = one(&ParseRules::logfmt(Roles::default()), &line);
        prop_assert_eq!(counts, faults(&[]));
        let expected = pairs.iter().map(|(name, value)| match value.as_str() {
            "true" | "false" => attribute(name, Value::BoolValue(value == "true")),
            _ => text_attribute(name, value),
        });
        prop_assert_eq!(found.attributes.len(), pairs.len() + 1);
        for pair in expected {
            prop_assert!(found.attributes.contains(&pair), "{:?}", pair);
        }
    }
}
