//! Tests each format by a table: bytes of a file, and the records that they form.

use std::sync::Arc;

use common::{NOW, decoded, form, read, source, text_attribute, told, tree};
use millrace_lines::{
    Container, FileAttributes, FlushReason, LineReader, LogsRequest, MultilineRule, RecordCounts,
    RecordRules, TraceRuntime,
};
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use prost::Message;

use crate::common;

/// 2016-10-06T00:17:09Z.
const T: u64 = 1_475_713_029_000_000_000;
const TIME: &str = "2016-10-06T00:17:09Z";

fn bodies(
    container: Container,
    multiline: Option<&MultilineRule>,
    limit: usize,
    file: &[u8],
) -> Vec<String> {
    let (records, _) = read(&form(container, multiline.cloned(), limit), file);
    told(&records).into_iter().map(|(_, _, body, _)| body).collect()
}

/// Scenario: plain lines with ends of both kinds, empty ones, white space, an unfinished last one,
/// zeros. Guarantee: each line is an unchanged record without its end; empty ones are none.
#[test]
fn each_plain_line_is_a_record() {
    for (file, expected) in [
        (&b""[..], &[][..]),
        (b"one\ntwo\n", &["one", "two"]),
        (b"one\r\ntwo\r\n", &["one", "two"]),
        (b"one\n\n\r\ntwo", &["one", "two"]),
        (b"  one \t\n\ttwo\r", &["  one \t", "\ttwo"]),
        (b"a\rb\r\r\n", &["a\rb\r"]),
        (b"\0\0\n", &["\0\0"]),
        ("größe €\n".as_bytes(), &["größe €"]),
    ] {
        assert_eq!(bodies(Container::None, None, 100, file), expected, "{file:?}");
    }
}

/// Scenario: a plain line and one of a container. Guarantee: their requests decode to the trees
/// that an encoder of trees makes: a time only if the line has one, the stream, the shared
/// attributes.
#[test]
fn records_have_their_times_streams_and_shared_attributes() {
    let (plain, _) = read(&form(Container::None, None, 100), b"hello\n");
    assert_eq!(plain, [tree(0, "", "hello", false)]);
    let line = b"2016-10-06T00:17:09.669794202Z stderr F hello\n";
    let (container, _) = read(&form(Container::Cri, None, 100), line);
    assert_eq!(container, [tree(T + 669_794_202, "stderr", "hello", false)]);
}

/// Scenario: bytes that aren't UTF-8. Guarantee: each invalid sequence is replaced, the record is
/// counted once, and other bytes are unchanged.
#[test]
fn bytes_that_are_no_text_are_replaced_and_counted() {
    let (records, counts) = read(&form(Container::None, None, 100), b"a\xff\xfeb\nok\n\xe2\x82\n");
    let bodies: Vec<_> = told(&records).into_iter().map(|(_, _, body, _)| body).collect();
    assert_eq!(bodies, ["a\u{fffd}\u{fffd}b", "ok", "\u{fffd}"]);
    assert_eq!(counts, RecordCounts { records: 3, invalid_utf8: 2, ..RecordCounts::default() });
}

/// Scenario: lines around the limit, in characters of several bytes. Guarantee: a line at the limit
/// is complete, a longer one is cut after a character, marked and counted; the next line is
/// unchanged.
#[test]
fn a_line_over_the_limit_is_cut_at_a_character_and_marked() {
    for (file, body, is_cut) in [
        ("12345678\nnext\n", "12345678", false),
        ("12345678\r\nnext\n", "12345678", false),
        ("123456789\nnext\n", "12345678", true),
        ("1234567ä\nnext\n", "1234567", true),
        ("123456ä9\nnext\n", "123456ä", true),
        ("12345678\r9\nnext\n", "12345678", true),
    ] {
        let (records, counts) = read(&form(Container::None, None, 8), file.as_bytes());
        let told = told(&records);
        assert_eq!(told[0], (0, String::new(), body.to_owned(), is_cut), "{file:?}");
        assert_eq!(told[1].2, "next");
        assert_eq!(counts.cut, u64::from(is_cut));
        assert_eq!(counts.invalid_utf8, 0);
    }
}

/// Scenario: a line of 16 MiB of zeros, read 64 KiB at a time with a limit of 256 KiB. Guarantee:
/// each piece but the first four is consumed completely; one record is written and cut; nothing is
/// held; a restart repeats nothing and begins where the line does.
#[test]
fn a_line_of_zeros_is_passed_over_without_being_held() {
    let form = form(Container::None, None, 256 * 1024);
    let source = source();
    let mut reader = LineReader::new(Arc::clone(&form), 0);
    let mut request = LogsRequest::with_limit(usize::MAX);
    let mut buffer = Vec::new();
    for _ in 0..256 {
        buffer.extend_from_slice(&[0; 64 * 1024]);
        let taken = reader.read_bytes(&buffer, NOW, &mut request.begin_records(&source));
        buffer.drain(..taken);
        assert!(buffer.len() <= 256 * 1024);
        assert_eq!((reader.held_bytes(), reader.resume_offset()), (0, 0));
    }
    let mut resumed = LineReader::resume_from(form, reader.resume_point());
    for (reader, records) in [(&mut reader, 2), (&mut resumed, 1)] {
        let file =
            [vec![0; if records == 1 { 16 << 20 } else { 0 }], b"\nnext\n".to_vec()].concat();
        assert_eq!(reader.read_bytes(&file, NOW, &mut request.begin_records(&source)), file.len());
        assert_eq!(reader.resume_offset(), (16 << 20) + 6);
    }
    let told = told(&decoded(&request));
    let lengths: Vec<_> = told.iter().map(|(_, _, body, is_cut)| (body.len(), *is_cut)).collect();
    assert_eq!(lengths, [(256 * 1024, true), (4, false), (4, false)]);
    assert_eq!(
        reader.take_counts(),
        RecordCounts { records: 2, cut: 1, ..RecordCounts::default() }
    );
}

/// Scenario: lines of containerd and CRI-O: both streams, parts, tags, empty text, offsets, and
/// lines without the format. Guarantee: parts are joined per stream with the first one's time;
/// lines without the format are unchanged records, counted.
#[test]
fn lines_of_containerd_and_crio_are_read() {
    let out = |body: &str| (T, "stdout".to_owned(), body.to_owned(), false);
    let err = |body: &str| (T, "stderr".to_owned(), body.to_owned(), false);
    let bare = |body: &str| (0, String::new(), body.to_owned(), false);
    for (file, expected) in [
        (format!("{TIME} stdout F hello world\n"), vec![out("hello world")]),
        ("2016-10-06T02:17:09+02:00 stderr F x\r\n".to_owned(), vec![err("x")]),
        (format!("{TIME} stdout F \n{TIME} stdout F\n"), vec![out(""), out("")]),
        (format!("{TIME} stdout F:tag:more x\n"), vec![out("x")]),
        (format!("{TIME} stdout P a\r\n{TIME} stdout F b\n"), vec![out("a\rb")]),
        (
            format!(
                "{TIME} stdout P a\n{TIME} stderr P x\n2017{} stdout F b\n\n{TIME} stderr F y",
                &TIME[4..]
            ),
            vec![out("ab"), err("xy")],
        ),
        (format!("{TIME} stdout P never ended\n"), vec![out("never ended")]),
        (format!("{TIME} stdin F x"), vec![bare(&format!("{TIME} stdin F x"))]),
        (format!("{TIME} stdout X x\r\n"), vec![bare(&format!("{TIME} stdout X x"))]),
        (format!("\n\r\nno time\n{TIME} stdout F x\n"), vec![bare("no time"), out("x")]),
    ] {
        for container in [Container::Cri, Container::Detect] {
            let (records, counts) = read(&form(container, None, 200), file.as_bytes());
            assert_eq!(told(&records), expected, "{file}");
            let unparsed = expected.iter().filter(|(_, stream, ..)| stream.is_empty()).count();
            assert_eq!(counts.unparsed, unparsed as u64);
        }
    }
}

/// Scenario: a stream that never ends its line, mixed with the other one. Guarantee: the line is
/// cut at the limit, marked once, never holds more than the limit, and the other stream continues.
#[test]
fn a_stream_that_never_ends_its_line_is_cut_and_bounded() {
    let mut file = String::new();
    for number in 0..100 {
        file += &format!("{TIME} stdout P 0123456789\n{TIME} stderr F {number}\n");
    }
    file += &format!("{TIME} stdout F end\n{TIME} stdout F next\n");
    let form = form(Container::Cri, None, 64);
    let source = source();
    let mut request = LogsRequest::with_limit(usize::MAX);
    let mut reader = LineReader::new(form, 0);
    let mut at = 0;
    while at < file.len() {
        let to = (at + 50).min(file.len());
        at += reader.read_bytes(&file.as_bytes()[at..to], NOW, &mut request.begin_records(&source));
        assert!(reader.held_bytes() <= 128, "{}", reader.held_bytes());
    }
    let told = told(&decoded(&request));
    let stdout: Vec<_> = told.iter().filter(|(_, stream, ..)| stream == "stdout").collect();
    assert_eq!(stdout.len(), 2);
    assert_eq!((stdout[0].2.len(), stdout[0].3), (64, true));
    assert_eq!((stdout[1].2.as_str(), stdout[1].3), ("next", false));
    assert_eq!(told.len(), 102);
}

/// Scenario: Docker's lines: escapes, parts, members in any order and unknown ones, cut lines, and
/// lines that are no such object. Guarantee: the text is unescaped, parts are joined, unreadable
/// lines are unchanged records, counted.
#[test]
fn lines_of_docker_are_read() {
    let line =
        |log: &str| format!("{{\"log\":\"{log}\",\"stream\":\"stdout\",\"time\":\"{TIME}\"}}\n");
    let out = |body: &str| vec![(T, "stdout".to_owned(), body.to_owned(), false)];
    let mixed = format!(
        "{{ \"time\" : \"{TIME}\", \"attrs\":{{\"a\":[1,\"}}\",{{}}],\"b\":null}}, \
         \"stream\":\"stdout\" ,\"n\":-1.5e3, \"log\":\"x\\n\" }} \r\n"
    );
    for (file, expected) in [
        (line("hello\\n"), out("hello")),
        (line("hello\\r\\n"), out("hello")),
        (line("\\n"), out("")),
        (line("a\\\"b\\\\n\\t\\u00e4\\ud834\\udd1e\\u001b[0m\\n"), out("a\"b\\n\tä𝄞\u{1b}[0m")),
        (line("a\\ud834x\\n"), out("a\u{fffd}x")),
        (line("a") + &line("b\\\"") + &line("c\\n"), out("ab\"c")),
        (mixed, out("x")),
    ] {
        for container in [Container::DockerJson, Container::Detect] {
            let (records, counts) = read(&form(container, None, 400), file.as_bytes());
            assert_eq!(told(&records), expected, "{file}");
            assert_eq!(counts.unparsed, 0);
        }
    }
    for file in [
        "{}",
        "{\"log\":\"x\\n\",\"stream\":\"stdout\"}",
        "{\"log\":\"x\\n\",\"stream\":\"std\",\"time\":\"2016-10-06T00:17:09Z\"}",
        "{\"log\":\"x\\q\",\"stream\":\"stdout\",\"time\":\"2016-10-06T00:17:09Z\"}",
        "{\"log\":\"x\\n\",\"stream\":\"stdout\",\"time\":\"today\"}",
        "{\"log\":\"x\\n\",\"stream\":\"stdout\",\"time\":\"2016-10-06T00:17:09Z\"} {",
        "{\"log\":\"x",
        "{\"log\":1]",
    ] {
        let (records, counts) = read(&form(Container::Detect, None, 400), file.as_bytes());
        assert_eq!(told(&records), [(0, String::new(), file.to_owned(), false)]);
        assert_eq!(counts.unparsed, 1);
    }
    let long = line(&("\\\"ä".repeat(300) + "\\n"));
    let (records, counts) = read(&form(Container::DockerJson, None, 9), long.as_bytes());
    assert_eq!(told(&records), [(0, String::new(), "\"ä\"ä\"ä".to_owned(), true)]);
    assert_eq!(counts, RecordCounts { records: 1, cut: 1, ..RecordCounts::default() });
}

/// Scenario: stack traces by a starting pattern and by indentation, with empty lines, CRs, and
/// continuation lines at the beginning. Guarantee: lines are joined by LF; empty ones are retained
/// only within a record.
#[test]
fn lines_of_one_record_are_joined() {
    let dated = MultilineRule::from_pattern(r"^\d{4}-").unwrap();
    let empty = MultilineRule::from_pattern("^$").unwrap();
    let indented = MultilineRule::Indented;
    let (java, go) =
        (MultilineRule::Traces(TraceRuntime::Java), MultilineRule::Traces(TraceRuntime::Go));
    for (rule, file, expected) in [
        (&dated, "2024-a\n at b\n\n at c\n2024-d\n", &["2024-a\n at b\n\n at c", "2024-d"][..]),
        (&dated, "2024-a\r\n at b\r\n at c\r\n2024-d\r\n", &["2024-a\n at b\n at c", "2024-d"]),
        (&dated, "\n\nlost\nfound\n2024-a\n\n\n", &["lost\nfound", "2024-a"]),
        (&indented, "E: x\n\tat y\n at z\n\nE: 2\nE: 3", &["E: x\n\tat y\n at z", "E: 2", "E: 3"]),
        (&indented, "  first\nE: x\n\n  y\n", &["  first", "E: x\n\n  y"]),
        (&empty, "a\nb\n\nc\nd\n\n\n", &["a\nb", "c\nd"]),
        (
            &java,
            "a\nx.YError: z\n\tat b\nCaused by: c\nd",
            &["a\nx.YError: z\n\tat b\nCaused by: c", "d"],
        ),
        (
            &go,
            "panic: a\n\ngoroutine 1 [running]:\nm.n()\nd",
            &["panic: a\n\ngoroutine 1 [running]:\nm.n()", "d"],
        ),
    ] {
        assert_eq!(bodies(Container::None, Some(rule), 1000, file.as_bytes()), expected, "{file}");
        let lines = file.replace('\r', "");
        let cri: String = lines
            .lines()
            .map(|line| format!("{TIME} stdout F {line}\n{TIME} stderr F {line}\n"))
            .collect();
        let (records, _) = read(&form(Container::Cri, Some(rule.clone()), 1000), cri.as_bytes());
        for stream in ["stdout", "stderr"] {
            let told = told(&records).into_iter().filter(|(_, of, ..)| of == stream);
            let bodies: Vec<_> = told.map(|(_, _, body, _)| body).collect();
            assert_eq!(bodies, expected, "{file}");
        }
    }
}

/// Scenario: a record of more lines than the limit allows, in a plain file and in parts of a
/// container's lines. Guarantee: it is written as cut, and the line that didn't fit begins another;
/// every line is in one of the records.
#[test]
fn a_record_of_too_many_lines_goes_on_in_the_next() {
    let rule = Some(MultilineRule::from_pattern("^E").unwrap());
    let plain = form(Container::None, rule.clone(), 10);
    let expected = [("E 1\n 2\n 3", true), (" 4\n 5", false), ("E", false)];
    let (records, counts) = read(&plain, b"E 1\n 2\n 3\n 4\n 5\nE\n");
    let found = told(&records);
    let found: Vec<_> = found.iter().map(|(_, _, body, cut)| (body.as_str(), *cut)).collect();
    assert_eq!(found, expected);
    assert_eq!(counts.cut, 1);
    let parts = ["F E 1", "F  2", "F  3", "P  ", "F 4", "P  ", "F 5", "F E"];
    let cri: String = parts.map(|part| format!("{TIME} stdout {part}\n")).concat();
    let (records, _) = read(&form(Container::Cri, rule, 10), cri.as_bytes());
    let found = told(&records);
    let found: Vec<_> = found.iter().map(|(_, _, body, cut)| (body.as_str(), *cut)).collect();
    assert_eq!(found, expected);
}

/// Scenario: no bytes come for the time-out while a multiline record is open, then while a
/// container's line is unfinished. Guarantee: the first is written, the second remains.
#[test]
fn an_idle_file_ends_records_but_no_lines() {
    let source = source();
    let rule = Some(MultilineRule::Indented);
    let mut request = LogsRequest::with_limit(usize::MAX);
    let mut plain = LineReader::new(form(Container::None, rule.clone(), 100), 7);
    assert_eq!(plain.read_bytes(b"E\n at x\n at", NOW, &mut request.begin_records(&source)), 8);
    assert!(plain.has_open() && request.is_empty() && request.bytes().is_empty());
    assert_eq!((plain.resume_offset(), plain.offset()), (7, 15));
    plain.flush(FlushReason::Idle, NOW, &mut request.begin_records(&source));
    assert!(!plain.has_open());
    assert_eq!((plain.resume_offset(), plain.held_bytes()), (15, 0));
    assert_eq!(told(&decoded(&request))[0].2, "E\n at x");

    let mut container = LineReader::new(form(Container::Cri, rule, 100), 0);
    let line = format!("{TIME} stdout P E\n");
    container.read_bytes(line.as_bytes(), NOW, &mut request.begin_records(&source));
    assert!(!container.has_open() && container.held_bytes() > 0);
    container.flush(FlushReason::Idle, NOW, &mut request.begin_records(&source));
    assert_eq!((request.record_count(), container.resume_offset()), (1, 0));
    container.flush(
        FlushReason::File { unfinished_line: b"" },
        NOW,
        &mut request.begin_records(&source),
    );
    assert_eq!((request.record_count(), container.held_bytes()), (2, 0));
}

/// Scenario: reading begins within a line. Guarantee: its remainder is no record.
#[test]
fn the_rest_of_a_line_is_passed_over_on_request() {
    let source = source();
    let mut request = LogsRequest::with_limit(usize::MAX);
    let mut reader = LineReader::within_line(form(Container::None, None, 100), 5);
    assert_eq!(reader.read_bytes(b"rest", NOW, &mut request.begin_records(&source)), 4);
    assert_eq!(reader.read_bytes(b" of it\nnext\n", NOW, &mut request.begin_records(&source)), 12);
    assert_eq!(told(&decoded(&request)).len(), 1);
    assert_eq!(reader.resume_offset(), 21);
}

/// Scenario: several files in one request, one of them without records. Guarantee: each has a
/// separate group with its resource; the one without records has none.
#[test]
fn a_request_holds_the_records_of_several_files() {
    let mut request = LogsRequest::with_limit(usize::MAX);
    for (name, file) in [("a", "1\n2\n"), ("b", "\n\n"), ("c", "3\n")] {
        let source = FileAttributes::new(&[("service.name", name)], &[]);
        let mut reader = LineReader::new(form(Container::None, None, 100), 0);
        reader.read_bytes(file.as_bytes(), NOW, &mut request.begin_records(&source));
    }
    let tree = ExportLogsServiceRequest::decode(request.bytes()).unwrap();
    let of = |index: usize| {
        let group = &tree.resource_logs[index];
        let resource = group.resource.clone().unwrap().attributes;
        (resource, told(&group.scope_logs[0].log_records).len())
    };
    assert_eq!(of(0), (vec![text_attribute("service.name", "a")], 2));
    assert_eq!(of(1), (vec![text_attribute("service.name", "c")], 1));
    assert_eq!((tree.resource_logs.len(), request.record_count()), (2, 3));
    request.clear();
    assert!(request.is_empty() && request.bytes().is_empty());
}

/// Scenario: a limit of one byte, and one that the head of a second file's group alone would
/// exceed. Guarantee: a request that isn't full accepts a record of any file; a full one accepts
/// none.
#[test]
fn a_request_that_is_not_full_takes_a_record_of_any_file() {
    let source = source();
    let mut request = LogsRequest::with_limit(1);
    let mut reader = LineReader::new(form(Container::None, None, 100), 0);
    assert_eq!(reader.read_bytes(b"1\n2\n", NOW, &mut request.begin_records(&source)), 2);
    assert!(request.is_full());
    assert_eq!(reader.read_bytes(b"2\n", NOW, &mut request.begin_records(&source)), 0);
    let mut request = LogsRequest::with_limit(request.bytes().len() + 1);
    for expected in [2, 2, 0] {
        let mut reader = LineReader::new(form(Container::None, None, 100), 0);
        let is_full = request.is_full();
        assert_eq!(reader.read_bytes(b"1\n", NOW, &mut request.begin_records(&source)), expected);
        assert_eq!(is_full, expected == 0);
    }
}

/// Scenario: a container that wrote a line a day for a year, and one with a resource of 60 kB and
/// many short lines. Guarantee: a request is full before it exceeds the limits of days and of
/// written size; all lines are written.
#[test]
fn a_request_is_full_before_it_is_more_than_tables_take() {
    let mut days = String::new();
    for month in 1..=12 {
        for day in 1..=28 {
            days += &format!("2023-{month:02}-{day:02}T00:00:00Z stdout F x\n");
        }
    }
    let short = format!("{TIME} stdout F x\n").repeat(3000);
    let large = "x".repeat(60_000);
    let source = FileAttributes::new(&[("service.name", "shop"), ("large", &large)], &[]);
    for (file, records) in [(days, 336), (short, 3000)] {
        let mut reader = LineReader::new(form(Container::Cri, None, 100), 0);
        let mut request = LogsRequest::with_limit(usize::MAX);
        let (mut at, mut count, mut requests) = (0, 0, 0);
        while at < file.len() {
            at +=
                reader.read_bytes(&file.as_bytes()[at..], NOW, &mut request.begin_records(&source));
            let limits = millrace_wire::limits::WireLimits::default();
            let signal = millrace_wire::Signal::Logs;
            let checked =
                millrace_wire::otlp::check_request(signal, request.bytes(), &limits).unwrap();
            count += checked.records;
            requests += 1;
            request.clear();
        }
        assert_eq!(count, records);
        assert!(requests > 3, "{requests}");
    }
}

/// Scenario: a multiline record on one stream of a container without further lines, while the other
/// stream is always written; its last line is complete, or unfinished. Guarantee: it is written
/// once a line of the other stream is later by the time-out; a line in parts waits.
#[test]
fn a_streams_record_does_not_wait_for_the_other_stream_to_fall_silent() {
    for (tag, is_written) in [("F", true), ("P", false)] {
        let form = form(Container::Cri, Some(MultilineRule::Indented), 1000);
        let form =
            Arc::new(RecordRules { timeout_nanos: 1_000_000_000, ..RecordRules::clone(&form) });
        let file = format!(
            "2016-10-06T00:17:09Z stderr F E: x\n2016-10-06T00:17:09.5Z stderr {tag}  at y\n\
             2016-10-06T00:17:10.4Z stdout F a\n2016-10-06T00:17:10.5Z stdout F b\n\
             2016-10-06T00:17:10.6Z stdout F c\n"
        );
        let (mut reader, mut request) =
            (LineReader::new(form, 0), LogsRequest::with_limit(usize::MAX));
        let (source, mut lengths) = (source(), Vec::new());
        for line in file.split_inclusive('\n') {
            reader.read_bytes(line.as_bytes(), NOW, &mut request.begin_records(&source));
            lengths.push(reader.take_counts().records);
        }
        assert_eq!(lengths, [0, 0, 0, 1, 1 + u64::from(is_written)]);
        let records = told(&decoded(&request));
        assert_eq!(records.iter().any(|(_, _, body, _)| body == "E: x\n at y"), is_written);
    }
}

/// Scenario: usual beginnings of services' lines, with patterns of pods. Guarantee: each pattern is
/// accepted, and begins a record where it matches and nowhere else.
#[test]
fn patterns_of_pods_find_usual_beginnings() {
    for (pattern, begins, goes_on) in [
        (r"^\d{4}-\d{2}-\d{2}", "2026-11-25 04:00:00 x", "2026-1"),
        (
            r"^\[?\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}([.,]\d+)?",
            "[2026-11-25T04:00:00,1] x",
            "at x",
        ),
        (
            r"^(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [ \d]\d \d{2}:\d{2}:\d{2}",
            "Nov  5 04:00:00 x",
            "Nov x",
        ),
        (r"^(?i:trace|debug|info|warn(?:ing)?|error|fatal)\b", "Warning: x", "Warnings"),
        (r"^\S+ \S+ \[[^\]]+\]", "a b [c] d", "a [c]"),
        (r"^.*\b(ERROR|WARN)\b", "x: ERROR y", "x: ERRORS y"),
        (r"^[^\s]", "x", " x"),
        (r"^größe|^x", "größe", "grosse"),
        (r"^\{", "{", "a{"),
    ] {
        let rule = MultilineRule::from_foreign_pattern(pattern).unwrap();
        let file = format!("{begins}\n{goes_on}\n{begins}\n");
        let records = bodies(Container::None, Some(&rule), 1000, file.as_bytes());
        assert_eq!(records, [format!("{begins}\n{goes_on}"), begins.to_owned()], "{pattern}");
    }
}

/// Scenario: patterns of pods with thousands of states, with exponential automata, or malformed.
/// Guarantee: they are refused at once, before any line is matched.
#[test]
fn patterns_of_pods_that_cost_much_are_refused() {
    let began = std::time::Instant::now();
    for pattern in ["^[ab]*a[ab]{1900}Z", "^[ab]*a[ab]{16}Z", "^.*x.{20}", r"^(?u)\w{100}", "^("] {
        let error = MultilineRule::from_foreign_pattern(pattern).unwrap_err();
        assert!(error.to_string().contains("not a valid regular expression"), "{error}");
    }
    assert!(began.elapsed().as_secs() < 5, "{:?}", began.elapsed());
}

/// Scenario: malformed patterns, or ones that take too much memory. Guarantee: they are refused
/// with a reason.
#[test]
fn patterns_that_cannot_be_used_are_refused() {
    for pattern in ["(", r"\w{1000}{10}"] {
        let error = MultilineRule::from_pattern(pattern).unwrap_err();
        assert!(error.to_string().starts_with("not a valid regular expression"), "{error}");
    }
}
