//! Bytes of log files: any bytes, in any pieces, come to the same records and the same places to
//! resume from; what is written is a request like any other; what is held is bounded. Likewise as a
//! record of the kernel's log: one record, whatever they are.
//!
//! The first byte of an input chooses the form (its high half the parser), the second one the limit,
//! the third one the length of the pieces (its highest bits the encoding); the rest is the file.

use std::sync::{Arc, LazyLock};

use millrace_lines::{
    Container, FileAttributes, FlushReason, KernelMoment, KernelRecord, KernelWriter, LineReader,
    LogsRequest, MultilineRule, ParseRules, RecordRules, Resume, Roles, TextEncoding,
    TimestampFormat, TraceRuntime,
};
use millrace_wire::Signal;
use millrace_wire::limits::WireLimits;
use millrace_wire::otlp::check_request;

use crate::reference;

/// Parsers: none, and one of each format with each kind of time.
static PARSERS: LazyLock<Vec<Option<ParseRules>>> = LazyLock::new(|| {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let roles = |time_format| Roles {
        body: names(&["message", "msg", "m"]),
        timestamp: names(&["time", "t"]),
        time_format,
        severity: names(&["level", "l"]),
    };
    let pattern = r"^(?P<t>\S+) \[?(?P<l>\w+)\]? (?P<m>.*)$";
    vec![
        None,
        Some(ParseRules::json(roles(TimestampFormat::Rfc3339))),
        Some(ParseRules::json(roles(TimestampFormat::UnixSeconds))),
        Some(ParseRules::json(roles(TimestampFormat::UnixNanos))),
        Some(ParseRules::logfmt(roles(TimestampFormat::UnixMillis))),
        Some(ParseRules::logfmt(roles(TimestampFormat::Rfc3339))),
        ParseRules::regex(pattern, roles(TimestampFormat::Rfc3339)).ok(),
    ]
});
static START: LazyLock<Option<MultilineRule>> =
    LazyLock::new(|| MultilineRule::from_pattern("^E|^$").ok());
const NOW: u64 = 1;

/// A log file.
pub fn file(data: &[u8]) {
    let &[control, limit, piece, ref file @ ..] = data else { return };
    let containers = [Container::None, Container::Cri, Container::DockerJson, Container::Detect];
    let encodings =
        [TextEncoding::Utf8, TextEncoding::Utf16Le, TextEncoding::Utf16Be, TextEncoding::Latin1];
    let form = Arc::new(RecordRules {
        container: containers[usize::from(control) % 4],
        encoding: encodings[usize::from(piece >> 6)],
        multiline: multiline(control, limit),
        parse: PARSERS[usize::from(control >> 4) % PARSERS.len()].clone(),
        max_record_bytes: 4 + usize::from(limit),
        timeout_nanos: u64::MAX,
    });
    let source = FileAttributes::new(&[("service.name", "fuzz")], &[]);
    kernel(&source, file);
    let mut once = LineReader::new(Arc::clone(&form), 0);
    let whole = read(&mut once, &source, file, file.len().max(1), None);

    let mut pieces = LineReader::new(Arc::clone(&form), 0);
    let mut lost = Vec::new();
    let step = 1 + usize::from(piece) % 64;
    assert_eq!(read(&mut pieces, &source, file, step, Some(&mut lost)), whole);
    assert_eq!(once.take_counts(), pieces.take_counts());
    // One of the places where it could have been lost.
    if let Some((from, before)) = lost.get(usize::from(limit) % lost.len().max(1)) {
        let mut resumed = LineReader::resume_from(form, *from).of_file(file);
        let rest = read(&mut resumed, &source, file, file.len().max(1), None);
        assert_eq!([&whole[..*before], &rest[..]].concat(), whole);
    }
}

/// Which lines are one record; the limit's byte also chooses the runtime of stack traces.
fn multiline(control: u8, limit: u8) -> Option<MultilineRule> {
    const OF: [TraceRuntime; 5] = [
        TraceRuntime::Java,
        TraceRuntime::Python,
        TraceRuntime::Go,
        TraceRuntime::NodeJs,
        TraceRuntime::Rust,
    ];
    match (control >> 2) % 4 {
        0 => None,
        1 => START.clone(),
        2 => Some(MultilineRule::Indented),
        _ => Some(MultilineRule::Traces(OF[usize::from(limit) % OF.len()])),
    }
}

/// A record of the kernel's log.
fn kernel(source: &FileAttributes, record: &[u8]) {
    let moment = KernelMoment { boot_id: "b", zero_unix_nano: NOW, now_unix_nano: NOW };
    let mut request = LogsRequest::with_limit(1);
    let record = KernelRecord::read(record);
    KernelWriter::default().write(&record, &moment, &mut request.begin_records(source));
    assert_eq!(request.record_count(), 1);
    keep(&mut request, &mut Vec::new());
}

/// Reads to the file's end, each record into a request of its own. Notes places to resume from,
/// with the records that were written until then.
fn read(
    reader: &mut LineReader,
    source: &FileAttributes,
    file: &[u8],
    step: usize,
    mut places: Option<&mut Vec<(Resume, usize)>>,
) -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    let mut request = LogsRequest::with_limit(1);
    let mut given = reader.offset() as usize;
    while given < file.len() {
        given = (given + step).min(file.len());
        loop {
            let from = reader.offset() as usize;
            reader.read_bytes(&file[from..given], NOW, &mut request.begin_records(source));
            assert!(reader.held_bytes() <= 2 * (4 + 255));
            if request.is_empty() {
                break;
            }
            keep(&mut request, &mut records);
        }
        if let Some(places) = &mut places {
            places.push((reader.resume_point(), records.len()));
        }
    }
    let rest = &file[reader.offset() as usize..];
    reader.flush(
        FlushReason::File { unfinished_line: rest },
        NOW,
        &mut request.begin_records(source),
    );
    keep(&mut request, &mut records);
    assert_eq!(reader.resume_offset(), file.len() as u64);
    records
}

/// What a line or a flush has written, as one.
fn keep(request: &mut LogsRequest, records: &mut Vec<Vec<u8>>) {
    let checked = check_request(Signal::Logs, request.bytes(), &WireLimits::default());
    let found = checked.map(|checked| checked.records);
    assert_eq!(found, Ok(request.record_count()), "not the records that were counted");
    assert_eq!(reference::records(Signal::Logs, request.bytes()), Some(request.record_count()));
    records.push(request.bytes().to_vec());
    request.clear();
}
