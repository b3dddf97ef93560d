//! Tests of bounds, and of correct results at them: many keys, many distinct values, many days,
//! long strings, big batches.

use std::collections::BTreeMap;

use millrace_columns::{
    AppendError, BlockSet, BodyCompression, Day, INSERT_ROWS, MAX_DAYS, Options,
};
use millrace_schema::AttributeStorage;
use millrace_wire::Signal;
use native::Value;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, KeyValueList};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use oracle::Oracle;
use prost::Message;

use crate::native;
use crate::oracle;

const NANOS_PER_DAY: u64 = 86_400_000_000_000;

fn request(spans: Vec<Span>) -> ExportTraceServiceRequest {
    let attributes = vec![attribute("service.name", Any::StringValue("bounds".into()))];
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(Resource { attributes, ..Resource::default() }),
            scope_spans: vec![ScopeSpans { spans, ..ScopeSpans::default() }],
            ..ResourceSpans::default()
        }],
    }
}

fn attribute(key: &str, value: Any) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}

/// Appends `request`, takes all rows and compares them with the expected ones. Returns the number
/// of Native blocks.
fn verify(set: &mut BlockSet, request: &ExportTraceServiceRequest, options: Options) -> usize {
    let Options { attributes, nested_depth } = options;
    let expected = Oracle { attributes, nested_depth }.traces(request);
    set.append(&request.encode_to_vec()).unwrap();
    let mut found = BTreeMap::new();
    let mut blocks = 0;
    for insert in set.take_inserts(BodyCompression::Lz4) {
        let read = native::blocks(&native::unframe(&insert.body.concat()));
        blocks += read.len();
        let rows: Vec<Vec<Value>> = read.into_iter().flat_map(|block| block.rows).collect();
        found.insert((insert.table, insert.day.0), rows);
    }
    assert!(found == expected, "rows differ");
    blocks
}

/// Guarantee: ten thousand keys, each on one row, are all stored, in several blocks of one insert,
/// and the memory is proportional to the values rather than to rows x keys.
#[test]
fn ten_thousand_keys_are_stored_in_bounded_memory() {
    let spans = (0..10_000_i64)
        .map(|n| Span {
            start_time_unix_nano: n as u64,
            attributes: vec![attribute(&format!("key.{n}"), Any::IntValue(n))],
            ..Span::default()
        })
        .collect();
    let mut set = BlockSet::new(Signal::Traces, &Options::default());
    let request = request(spans);
    set.append(&request.encode_to_vec()).unwrap();
    // Rows x keys would be 100 MB.
    assert!(set.memory_bytes() < 16 << 20, "{}", set.memory_bytes());
    set.clear();
    assert!(verify(&mut set, &request, Options::default()) > 1);
    // Paths that are no longer used are dropped.
    for _ in 0..3 {
        set.append(&request_of_one().encode_to_vec()).unwrap();
        set.clear();
    }
    assert!(set.memory_bytes() < 8 << 20, "{}", set.memory_bytes());
}

/// Returns the rows of each Native block of each insert.
fn block_rows(set: &mut BlockSet) -> Vec<Vec<usize>> {
    let rows = |body: &[Vec<u8>]| {
        let read = native::blocks(&native::unframe(&body.concat()));
        read.iter().map(|block| block.rows.len()).collect()
    };
    set.take_inserts(BodyCompression::Lz4).iter().map(|insert| rows(&insert.body)).collect()
}

/// Scenario: a batch with so many keys that they end its blocks, appended to a new set and to one
/// that had other keys, a list's members of the same names and a refused request. Guarantee: the
/// same blocks, since a server recognises a repeated insert by their number. Slow: 40,000 keys are
/// written four times and read back, each block with all of its rows for each of its keys.
#[test]
fn blocks_that_end_by_their_keys_follow_from_requests_alone() {
    let keyed = |keys: std::ops::Range<i64>, name: &str| {
        let span = |n: i64| Span {
            start_time_unix_nano: n as u64,
            attributes: vec![attribute(&format!("{name}.{n}"), Any::IntValue(n))],
            ..Span::default()
        };
        request(keys.map(span).collect()).encode_to_vec()
    };
    let members = |values: std::ops::Range<i64>| {
        let values = values.map(|n| attribute(&n.to_string(), Any::IntValue(n))).collect();
        let list = Any::KvlistValue(KeyValueList { values });
        let attributes = vec![attribute("key", list)];
        request(vec![Span { attributes, ..Span::default() }]).encode_to_vec()
    };
    let refused = |mut request: Vec<u8>| {
        request.extend_from_slice(b"\x0a\xff");
        request
    };
    let batch = [
        keyed(0..9_000, "key"),
        refused(members(9_000..9_500)),
        keyed(9_000..20_000, "key"),
        members(100..400),
        keyed(20_000..40_000, "other"),
    ];
    for nested_depth in [0, 3] {
        let options = Options { nested_depth, ..Options::default() };
        let mut used = BlockSet::new(Signal::Traces, &options);
        used.append(&keyed(0..700, "key")).unwrap();
        used.take_inserts(BodyCompression::Lz4);
        used.append(&members(0..900)).unwrap();
        used.append(&refused(members(0..2_000))).unwrap_err();
        used.take_inserts(BodyCompression::Lz4);
        let mut new = BlockSet::new(Signal::Traces, &options);
        let [new, used] = [&mut new, &mut used].map(|set| {
            let outcomes: Vec<bool> = batch.iter().map(|it| set.append(it).is_ok()).collect();
            assert_eq!(outcomes, [true, false, true, true, true]);
            block_rows(set)
        });
        assert_eq!(new, used);
        assert!(new.iter().map(Vec::len).sum::<usize>() > 2, "{new:?}");
    }
}

/// Scenario: a set that was used for one row. Guarantee: it retains under 64 KiB, compressor
/// included, since a gateway has a set for each partition.
#[test]
fn a_set_of_one_row_keeps_little_memory() {
    for signal in Signal::ALL {
        let mut set = BlockSet::new(signal, &Options::default());
        for _ in 0..2 {
            match signal {
                Signal::Traces => set.append(&request_of_one().encode_to_vec()).unwrap(),
                // A group with a scope with one empty log record, or one metric without data.
                _ => set.append(&[10, 4, 18, 2, 18, 0]).unwrap(),
            };
            set.take_inserts(BodyCompression::Lz4);
        }
        assert!(set.memory_bytes() < 64 << 10, "{signal}: {}", set.memory_bytes());
    }
}

fn request_of_one() -> ExportTraceServiceRequest {
    request(vec![Span {
        attributes: vec![attribute("one", Any::BoolValue(true))],
        ..Span::default()
    }])
}

/// Guarantee: dictionaries use indexes of one, two and four bytes as they grow.
#[test]
fn dictionaries_widen_their_indexes() {
    for distinct in [255, 256, 257, 65_536, 65_537] {
        let spans: Vec<Span> = (0..distinct)
            .map(|n| Span { name: format!("operation {n}"), ..Span::default() })
            .collect();
        for attributes in [AttributeStorage::Json, AttributeStorage::Map] {
            let options = Options { attributes, ..Options::default() };
            verify(&mut BlockSet::new(Signal::Traces, &options), &request(spans.clone()), options);
        }
    }
}

/// Guarantee: strings are complete at all lengths around a length's second byte, and when longer
/// than a frame.
#[test]
fn long_strings_are_whole() {
    let spans = [0, 1, 127, 128, 129, 16_383, 16_384, 3 << 20]
        .into_iter()
        .map(|length| Span {
            name: "x".repeat(length),
            trace_state: "y".repeat(length),
            attributes: vec![attribute("long", Any::StringValue("z".repeat(length)))],
            ..Span::default()
        })
        .collect();
    let options = Options::default();
    verify(&mut BlockSet::new(Signal::Traces, &options), &request(spans), options);
}

/// Guarantee: a request of a hundred days is accepted, with an insert for each day; with one more
/// day it is refused as a unit and leaves nothing behind; a later request may have other days.
#[test]
fn a_request_of_too_many_days_is_refused_whole() {
    let days = |from: u64, count: usize| {
        let spans = (from..from + count as u64)
            .map(|day| Span { start_time_unix_nano: day * NANOS_PER_DAY, ..Span::default() })
            .collect();
        request(spans).encode_to_vec()
    };
    let mut set = BlockSet::new(Signal::Traces, &Options::default());
    let refused = set.append(&days(0, MAX_DAYS + 1)).unwrap_err();
    assert_eq!(refused, AppendError::TooManyDays { signal: Signal::Traces });
    assert_eq!(refused.reason(), "too_many_days");
    assert_eq!((set.row_count(), set.batch_bytes()), (0, 0));
    set.append(&days(1000, MAX_DAYS)).unwrap();
    set.append(&days(1, 1)).unwrap();
    let inserts = set.take_inserts(BodyCompression::None);
    let found: Vec<Day> = inserts.iter().map(|insert| insert.day).collect();
    let expected: Vec<Day> = [1].into_iter().chain(1000..1000 + MAX_DAYS as u16).map(Day).collect();
    assert_eq!(found, expected);
}

/// Guarantee: rows before and after midnight are in different inserts, though they alternate.
#[test]
fn midnight_divides_inserts() {
    let midnight = 20_000 * NANOS_PER_DAY;
    let spans = (0..10)
        .map(|n| Span {
            name: format!("{n}"),
            start_time_unix_nano: if n % 2 == 0 { midnight } else { midnight - 1 },
            ..Span::default()
        })
        .collect();
    let options = Options::default();
    let mut set = BlockSet::new(Signal::Traces, &options);
    assert_eq!(verify(&mut set, &request(spans), options), 2);
}

/// Scenario: a million and a half rows of one day in one request, and in three of which the second
/// is refused after a hundred days. Guarantee: both make the same two inserts, cut by their number
/// of rows alone. Slow: a million and a half rows are written three times.
#[test]
fn a_message_of_many_rows_becomes_several_inserts_at_fixed_rows() {
    let all = u64::from(INSERT_ROWS) * 3 / 2;
    let spans = |count: u64| request(vec![Span::default(); count as usize]).encode_to_vec();
    let mut whole = BlockSet::new(Signal::Traces, &Options::default());
    whole.append(&spans(all)).unwrap();
    let whole = whole.take_inserts(BodyCompression::Lz4);
    let found: Vec<(u16, u64)> = whole.iter().map(|it| (it.number, it.rows)).collect();
    assert_eq!(found, [(0, u64::from(INSERT_ROWS)), (1, all - u64::from(INSERT_ROWS))]);

    let mut parts = BlockSet::new(Signal::Traces, &Options::default());
    parts.append(&spans(all / 2)).unwrap();
    let bad = (0..=MAX_DAYS as u64)
        .map(|day| Span { start_time_unix_nano: day * NANOS_PER_DAY, ..Span::default() });
    parts.append(&request(bad.collect()).encode_to_vec()).unwrap_err();
    parts.append(&spans(all - all / 2)).unwrap();
    assert!(parts.take_inserts(BodyCompression::Lz4) == whole, "cut elsewhere, or other bytes");
    // When the rows are written early, before and behind the border, the insert is cut there too.
    for part in [all / 2, all / 4, all - all / 2 - all / 4] {
        parts.append(&spans(part)).unwrap();
        parts.seal_blocks(BodyCompression::Lz4);
    }
    let found: Vec<(u16, u64)> = parts
        .take_inserts(BodyCompression::Lz4)
        .iter()
        .map(|insert| (insert.number, insert.rows))
        .collect();
    assert_eq!(found, [(0, u64::from(INSERT_ROWS)), (1, all - u64::from(INSERT_ROWS))]);
}

/// Guarantee: a set that has grown to its batch's size allocates no more memory for similar
/// batches.
#[test]
fn memory_is_reused() {
    let spans = (0..5000_u64)
        .map(|n| Span {
            name: format!("operation {}", n % 100),
            start_time_unix_nano: n,
            attributes: vec![attribute("n", Any::IntValue(n as i64))],
            ..Span::default()
        })
        .collect();
    let request = request(spans).encode_to_vec();
    let mut set = BlockSet::new(Signal::Traces, &Options::default());
    let mut held = 0;
    for round in 0..4 {
        set.append(&request).unwrap();
        set.take_inserts(BodyCompression::Lz4);
        assert!(round == 0 || set.memory_bytes() == held, "{} != {held}", set.memory_bytes());
        held = set.memory_bytes();
    }
}
