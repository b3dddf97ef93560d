//! Shared by the tests: a caller with a buffer, and requests decoded by the reference library.
#![allow(dead_code)]

use std::sync::Arc;

use millrace_lines::{
    Container, FileAttributes, FlushReason, LineReader, LogsRequest, MultilineRule, ParseRules,
    RecordCounts, RecordRules, Roles, TRUNCATED, TextEncoding, TimestampFormat,
};
use millrace_wire::Signal;
use millrace_wire::limits::WireLimits;
use millrace_wire::otlp::check_request;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use prost::Message;

pub(crate) const NOW: u64 = 1_764_000_000_000_000_000;

/// A pseudo-random generator with the same numbers in each run.
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }

    pub(crate) fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

pub(crate) fn form(
    container: Container,
    multiline: Option<MultilineRule>,
    limit: usize,
) -> Arc<RecordRules> {
    let encoding = TextEncoding::Utf8;
    let timeout_nanos = u64::MAX;
    let max_record_bytes = limit;
    Arc::new(RecordRules {
        container,
        encoding,
        multiline,
        parse: None,
        max_record_bytes,
        timeout_nanos,
    })
}

/// A form of plain lines whose text is parsed.
pub(crate) fn parsed(parse: ParseRules) -> Arc<RecordRules> {
    let max_record_bytes = 256 * 1024;
    let (container, multiline) = (Container::None, None);
    let (encoding, parse) = (TextEncoding::Utf8, Some(parse));
    let timeout_nanos = u64::MAX;
    Arc::new(RecordRules { container, encoding, multiline, parse, max_record_bytes, timeout_nanos })
}

/// The default roles of fields, and a time.
pub(crate) fn roles() -> Roles {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Roles {
        body: names(&["message", "msg"]),
        timestamp: names(&["time", "ts"]),
        time_format: TimestampFormat::Rfc3339,
        severity: names(&["level", "severity"]),
    }
}

pub(crate) fn source() -> FileAttributes {
    FileAttributes::new(&[("service.name", "shop")], &[("log.file.path", "/var/log/shop.log")])
}

/// Returns a request's records of that source, after the product's check.
pub(crate) fn decoded(request: &LogsRequest) -> Vec<LogRecord> {
    let checked = check_request(Signal::Logs, request.bytes(), &WireLimits::default()).unwrap();
    assert_eq!(checked.records, request.record_count());
    assert!(checked.written_bytes <= WireLimits::default().written_bytes);
    let tree = ExportLogsServiceRequest::decode(request.bytes()).unwrap();
    let mut records = Vec::new();
    for group in tree.resource_logs {
        let resource = group.resource.unwrap();
        assert_eq!(resource.attributes, [text_attribute("service.name", "shop")]);
        assert_eq!(group.scope_logs.len(), 1);
        records.extend(group.scope_logs.into_iter().flat_map(|scope| scope.log_records));
    }
    records
}

pub(crate) fn text_attribute(key: &str, value: &str) -> KeyValue {
    attribute(key, Value::StringValue(value.to_owned()))
}

pub(crate) fn attribute(key: &str, value: Value) -> KeyValue {
    let value = Some(AnyValue { value: Some(value) });
    KeyValue { key: key.to_owned(), value, ..KeyValue::default() }
}

/// A record as a message tree, as an encoder of trees would make it.
pub(crate) fn tree(time: u64, stream: &str, body: &str, is_cut: bool) -> LogRecord {
    let mut attributes = Vec::new();
    if !stream.is_empty() {
        attributes.push(text_attribute("log.iostream", stream));
    }
    attributes.push(text_attribute("log.file.path", "/var/log/shop.log"));
    if is_cut {
        attributes.push(attribute(TRUNCATED, Value::BoolValue(true)));
    }
    LogRecord {
        time_unix_nano: time,
        observed_time_unix_nano: NOW,
        body: Some(AnyValue { value: Some(Value::StringValue(body.to_owned())) }),
        attributes,
        ..LogRecord::default()
    }
}

/// Reads the complete file in one piece, to its end.
pub(crate) fn read(form: &Arc<RecordRules>, file: &[u8]) -> (Vec<LogRecord>, RecordCounts) {
    let source = source();
    let mut request = LogsRequest::with_limit(usize::MAX);
    let mut reader = LineReader::new(Arc::clone(form), 0);
    let mut records = request.begin_records(&source);
    let taken = reader.read_bytes(file, NOW, &mut records);
    reader.flush(FlushReason::File { unfinished_line: &file[taken..] }, NOW, &mut records);
    drop(records);
    assert_eq!(reader.offset(), file.len() as u64);
    assert_eq!(reader.resume_offset(), file.len() as u64);
    assert_eq!(reader.held_bytes(), 0);
    let counts = reader.take_counts();
    assert_eq!(counts.records, request.record_count());
    (decoded(&request), counts)
}

/// `(time, stream, body, is cut)` of each record.
pub(crate) fn told(records: &[LogRecord]) -> Vec<(u64, String, String, bool)> {
    let of = |record: &LogRecord, key: &str| {
        let found = record.attributes.iter().find(|one| one.key == key);
        found.and_then(|one| one.value.clone()?.value)
    };
    let told = records.iter().map(|record| {
        let Some(Value::StringValue(body)) = record.body.clone().and_then(|body| body.value) else {
            panic!("no text: {record:?}");
        };
        let stream = match of(record, "log.iostream") {
            Some(Value::StringValue(stream)) => stream,
            _ => String::new(),
        };
        let is_cut = of(record, TRUNCATED) == Some(Value::BoolValue(true));
        (record.time_unix_nano, stream, body, is_cut)
    });
    told.collect()
}
