//! Tests that the columns accept every request that passes the edge's check: alone, behind others
//! in a batch, and joined with others into one message. So no client's request costs another's
//! records.

use crate::native;

use millrace_columns::{BlockSet, BodyCompression, Options};
use millrace_schema::AttributeStorage;
use millrace_wire::Signal;
use millrace_wire::limits::{ATTRIBUTES, WireLimits};
use millrace_wire::otlp::{self, CombinedOutline, TimeRange};
use millrace_wire::protobuf::{FIXED64, LENGTH, VARINT, field_tag, put_varint};
use proptest::prelude::*;
use prost::Message;

use crate::requests;

/// Returns a field of bytes.
fn field(number: u32, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, field_tag(number, LENGTH).into());
    put_varint(&mut out, value.len() as u64);
    out.extend_from_slice(value);
    out
}

fn attribute(key: &str, value: &[u8]) -> Vec<u8> {
    [field(1, key.as_bytes()), field(2, value)].concat()
}

const TRUTH: [u8; 2] = [field_tag(2, VARINT) as u8, 1];

/// Returns a key-value list of `count` members.
fn list(count: u32, name: &str) -> Vec<u8> {
    let members: Vec<u8> =
        (0..count).flat_map(|n| field(1, &attribute(&format!("{name}{n}"), &TRUTH))).collect();
    field(6, &members)
}

/// Returns a traces request: a resource's fields, and spans.
fn traces(resource: &[u8], spans: &[Vec<u8>]) -> Vec<u8> {
    let spans: Vec<u8> = spans.iter().flat_map(|span| field(2, span)).collect();
    field(1, &[resource, &field(2, &spans)].concat())
}

fn resource(keys: std::ops::Range<u32>) -> Vec<u8> {
    let keys = keys.flat_map(|n| field(1, &attribute(&format!("k{n}"), &TRUTH)));
    field(1, &keys.collect::<Vec<u8>>())
}

fn passes(signal: Signal, request: &[u8]) -> bool {
    otlp::check_request(signal, request, &WireLimits::default()).is_ok()
}

fn variants() -> [Options; 3] {
    let options = |attributes, nested_depth| Options { attributes, nested_depth };
    [
        options(AttributeStorage::Json, 8),
        options(AttributeStorage::Json, 0),
        options(AttributeStorage::Map, 8),
    ]
}

/// Appends `requests` to one set; returns those that passed the check and were still refused.
fn refused(signal: Signal, requests: &[Vec<u8>]) -> Vec<String> {
    let mut refused = Vec::new();
    for options in variants() {
        let mut set = BlockSet::new(signal, &options);
        for (number, request) in requests.iter().enumerate() {
            if let Err(error) = set.append(request)
                && passes(signal, request)
            {
                refused.push(format!("{options:?} request {number}: {error}"));
            }
        }
    }
    refused
}

/// Takes all rows.
fn rows(set: &mut BlockSet) -> Vec<Vec<native::Value>> {
    let inserts = set.take_inserts(BodyCompression::None).into_iter();
    let blocks = inserts.flat_map(|insert| native::blocks(&insert.body.concat()));
    blocks.flat_map(|block| block.rows).collect()
}

/// Scenario: a batch gets many requests, each with a resource of the maximum number of keys and no
/// key in common. Guarantee: all are accepted; earlier requests don't change the result of a later
/// one.
#[test]
fn keys_of_other_requests_cost_no_request() {
    let requests: Vec<Vec<u8>> = (0..12)
        .map(|n| traces(&resource(n * ATTRIBUTES..(n + 1) * ATTRIBUTES), &[Vec::new()]))
        .collect();
    assert!(requests.iter().all(|request| passes(Signal::Traces, request)));
    assert_eq!(refused(Signal::Traces, &requests), Vec::<String>::new());
}

/// Scenario: sets that are large in ways that a count of direct members doesn't show: adjacent
/// lists, a resource or scope message that occurs several times, events with keys of their own.
/// Guarantee: sets that the columns can't store don't pass the check.
#[test]
fn large_sets_that_pass_are_taken() {
    let two_lists = [
        field(9, &attribute("one", &list(10_000, "a"))),
        field(9, &attribute("two", &list(10_000, "b"))),
    ];
    let mut deep = list(3_000, "leaf");
    for level in 0..6 {
        let more: Vec<u8> = (0..3_000)
            .flat_map(|n| field(1, &attribute(&format!("{level}.{n}"), &TRUTH)))
            .collect();
        deep = field(6, &[more, field(1, &attribute("in", &deep))].concat());
    }
    let merged = [resource(0..10_000), resource(10_000..20_000)].concat();
    let event = |event: u32, count: u32| {
        let keys = (0..count).flat_map(|n| field(3, &attribute(&format!("{event}.{n}"), &TRUTH)));
        field(11, &keys.collect::<Vec<u8>>())
    };
    let events = |count: u32| (0..count).flat_map(|n| event(n, 1_000)).collect::<Vec<u8>>();
    let days = |count: u64| -> Vec<Vec<u8>> {
        let time = |day: u64| (day * 86_400_000_000_000).to_le_bytes();
        (0..count).map(|day| [&[field_tag(7, FIXED64) as u8][..], &time(day)].concat()).collect()
    };
    let requests = [
        traces(&[], &[two_lists.concat()]),
        traces(&[], &[field(9, &attribute("deep", &deep))]),
        traces(&merged, &[Vec::new()]),
        traces(&[], &[events(60)]),
        traces(&[], &[events(70)]),
        traces(&[], &[events(40), events(40), events(40)]),
        traces(&[], &days(100)),
        traces(&[], &days(101)),
    ];
    assert_eq!(refused(Signal::Traces, &requests), Vec::<String>::new());
    // Sets within the limits pass.
    for (number, within) in [(3, true), (5, true), (6, true), (7, false)] {
        assert_eq!(passes(Signal::Traces, &requests[number]), within, "{number}");
    }
}

fn any_request() -> BoxedStrategy<(Signal, Vec<u8>)> {
    prop_oneof![
        requests::traces().prop_map(|request| (Signal::Traces, request.encode_to_vec())),
        requests::logs().prop_map(|request| (Signal::Logs, request.encode_to_vec())),
        requests::metrics().prop_map(|request| (Signal::Metrics, request.encode_to_vec())),
    ]
    .boxed()
}

proptest! {
    /// Scenario: random requests of all signals, with every field and oddity, joined by the edge's
    /// rule into messages and appended to one batch, in each variant. Guarantee: requests that
    /// passed the check are accepted, alone and joined, and their written size is at most what the
    /// edge counted.
    #[test]
    fn what_passes_the_check_is_taken_alone_and_joined(
        requests in proptest::collection::vec(any_request(), 1..12),
    ) {
        let limits = WireLimits::default();
        for options in variants() {
            for signal in Signal::ALL {
                let mut batch = BlockSet::new(signal, &options);
                let (mut joined, mut message) = (CombinedOutline::default(), Vec::new());
                for (_, request) in requests.iter().filter(|(of, _)| *of == signal) {
                    let checked = otlp::check_request(signal, request, &limits).unwrap();
                    let outline = otlp::outline_request(signal, request, &limits).unwrap();
                    prop_assert_eq!(outline.records, checked.records);
                    prop_assert_eq!(&outline.days, &checked.days);
                    prop_assert!(outline.written_bytes <= checked.written_bytes);
                    let weighed = otlp::written_bytes(signal, request).unwrap();
                    prop_assert_eq!(weighed, outline.written_bytes);
                    let mut alone = BlockSet::new(signal, &options);
                    prop_assert_eq!(alone.append(request).unwrap().rows, checked.records);
                    prop_assert!(alone.written_bytes() as u64 <= outline.written_bytes);
                    if !joined.try_add(&checked, &limits) {
                        batch.append(&message).unwrap();
                        joined.clear();
                        message.clear();
                        prop_assert!(joined.try_add(&checked, &limits));
                    }
                    message.extend_from_slice(request);
                }
                batch.append(&message).unwrap();
            }
        }
    }
}

/// Scenario: requests of many days each, up to the limit, joined by the edge's rule. Guarantee: the
/// messages are accepted completely; joined by length alone they would not be.
#[test]
fn requests_of_many_days_are_joined_so_that_messages_are_taken() {
    let time = |day: u64| (day * 86_400_000_000_000).to_le_bytes();
    let request = |from: u64| {
        let spans =
            (from..from + 60).map(|day| [&[field_tag(7, FIXED64) as u8][..], &time(day)].concat());
        traces(&[], &spans.collect::<Vec<_>>())
    };
    let requests: Vec<Vec<u8>> = [0, 10, 100, 0, 40, 200].map(request).into();
    let limits = WireLimits::default();
    let mut set = BlockSet::new(Signal::Traces, &Options::default());
    assert!(set.append(&requests.concat()).is_err());
    let (mut joined, mut message, mut messages) = (CombinedOutline::default(), Vec::new(), 0);
    for request in &requests {
        let outline = otlp::outline_request(Signal::Traces, request, &limits).unwrap();
        if !joined.try_add(&outline, &limits) {
            set.append(&message).unwrap();
            messages += 1;
            joined.clear();
            message.clear();
            assert!(joined.try_add(&outline, &limits));
        }
        message.extend_from_slice(request);
    }
    set.append(&message).unwrap();
    assert_eq!(messages + 1, 4);
}

/// Scenario: a message of valid resource groups with invalid ones between them: too many days, cut
/// off, too long for their records. Guarantee: the valid ones are stored as if they were alone, and
/// the invalid ones are returned as one request; when sent again, it is refused again for its own
/// reasons.
#[test]
fn bad_groups_of_a_message_cost_its_good_groups_nothing() {
    let time = |day: u64| (day * 86_400_000_000_000).to_le_bytes();
    let days: Vec<Vec<u8>> =
        (0..101).map(|day| [&[field_tag(7, FIXED64) as u8][..], &time(day)].concat()).collect();
    let good = |n: u32| traces(&resource(n..n + 3), &[field(5, b"good"), Vec::new()]);
    let long = field(1, &field(1, &attribute("long", &field(1, &[b'x'; 200_000]))));
    let bad = [
        traces(&[], &days),
        field(1, &field(2, &field(2, &[field_tag(5, LENGTH) as u8, 9, 0]))),
        traces(&long, &vec![Vec::new(); 1_000]),
    ];
    let message =
        [good(1), bad[0].clone(), good(2), bad[1].clone(), bad[2].clone(), good(3)].concat();
    for options in variants() {
        let mut alone = BlockSet::new(Signal::Traces, &options);
        for n in 1..4 {
            alone.append(&good(n)).unwrap();
        }
        let mut set = BlockSet::new(Signal::Traces, &options);
        let taken = set.append_groups(&message, &TimeRange::ALL).unwrap();
        let (error, refused) = taken.refused.unwrap();
        assert_eq!((taken.appended.rows, error.reason()), (6, "too_many_days"));
        assert_eq!(refused, bad.concat());
        assert!(set.append_groups(&refused, &TimeRange::ALL).is_err());
        assert_eq!(set.written_bytes(), alone.written_bytes());
        // Compare rows: a dictionary may retain a value of a refused group, which no row has.
        assert!(rows(&mut set) == rows(&mut alone), "{options:?}");
        // No part can be accepted: the request is refused as a unit, for the first reason.
        assert_eq!(
            set.append_groups(&bad[0], &TimeRange::ALL).unwrap_err().reason(),
            "too_many_days"
        );
        assert!(set.append_groups(&message[..message.len() - 1], &TimeRange::ALL).is_err());
        assert_eq!(set.row_count(), 0);
    }
}

/// Scenario: messages with a resource group whose spans have 40 days, some of them not accepted,
/// before and behind valid groups. Guarantee: it is refused for its times and opens no partition;
/// the valid groups are stored as if they were alone; a span without a time is accepted.
#[test]
fn a_group_with_a_time_out_of_range_costs_its_neighbours_nothing() {
    const DAY: u64 = 86_400_000_000_000;
    let span = |nanos: u64| [&[field_tag(7, FIXED64) as u8][..], &nanos.to_le_bytes()].concat();
    let good = |days: &[u64]| {
        let spans: Vec<Vec<u8>> = days.iter().map(|day| span(day * DAY)).collect();
        traces(&resource(1..2), &spans)
    };
    let bad = traces(&[], &(0..40).map(|day| span((20_000 + day) * DAY)).collect::<Vec<_>>());
    let times = TimeRange::around(20_035 * DAY, 10 * DAY, DAY);
    let message = [good(&[20_025, 0]), bad.clone(), good(&[20_036])].concat();
    for options in variants() {
        let mut alone = BlockSet::new(Signal::Traces, &options);
        alone.append(&good(&[20_025, 0])).unwrap();
        alone.append(&good(&[20_036])).unwrap();
        let mut set = BlockSet::new(Signal::Traces, &options);
        let taken = set.append_groups(&message, &times).unwrap();
        let (error, refused) = taken.refused.unwrap();
        assert_eq!((taken.appended.rows, error.reason()), (3, "time_out_of_range"));
        assert_eq!(refused, bad);
        assert!(rows(&mut set) == rows(&mut alone), "{options:?}");
        set.append_groups(&bad, &times).unwrap_err();
        assert!(set.take_inserts(BodyCompression::None).is_empty());
        assert_eq!(set.append_groups(&bad, &TimeRange::ALL).unwrap().appended.rows, 40);
    }
}
