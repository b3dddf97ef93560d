//! What the edge's check lets through, the columns take: one request alone, behind others in a
//! batch, and joined with others into one message. So no client's request costs another's records.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

#[path = "../../wire/tests/requests/mod.rs"]
mod requests;

mod native;

use millrace_columns::{BlockSet, Compression, Options};
use millrace_schema::Attributes;
use millrace_wire::Signal;
use millrace_wire::limits::{ATTRIBUTES, Limits};
use millrace_wire::otlp::{self, Joined};
use millrace_wire::protobuf::{FIXED64, LENGTH, VARINT, put_varint, tag};
use proptest::prelude::*;
use prost::Message;

/// A field of bytes.
fn field(number: u32, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, tag(number, LENGTH).into());
    put_varint(&mut out, value.len() as u64);
    out.extend_from_slice(value);
    out
}

fn attribute(key: &str, value: &[u8]) -> Vec<u8> {
    [field(1, key.as_bytes()), field(2, value)].concat()
}

const TRUTH: [u8; 2] = [tag(2, VARINT) as u8, 1];

/// A key-value list of `count` members.
fn list(count: u32, name: &str) -> Vec<u8> {
    let members: Vec<u8> =
        (0..count).flat_map(|n| field(1, &attribute(&format!("{name}{n}"), &TRUTH))).collect();
    field(6, &members)
}

/// A traces request: a resource's fields, and spans.
fn traces(resource: &[u8], spans: &[Vec<u8>]) -> Vec<u8> {
    let spans: Vec<u8> = spans.iter().flat_map(|span| field(2, span)).collect();
    field(1, &[resource, &field(2, &spans)].concat())
}

fn resource(keys: std::ops::Range<u32>) -> Vec<u8> {
    let keys = keys.flat_map(|n| field(1, &attribute(&format!("k{n}"), &TRUTH)));
    field(1, &keys.collect::<Vec<u8>>())
}

fn passes(signal: Signal, request: &[u8]) -> bool {
    otlp::check(signal, request, &Limits::default()).is_ok()
}

fn variants() -> [Options; 3] {
    let options = |attributes, nested_depth| Options { attributes, nested_depth };
    [options(Attributes::Json, 8), options(Attributes::Json, 0), options(Attributes::Map, 8)]
}

/// Appends `requests` to one set; those that passed the check and were refused all the same.
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
    let inserts = set.take(Compression::None).into_iter();
    let blocks = inserts.flat_map(|insert| native::blocks(&insert.body.concat()));
    blocks.flat_map(|block| block.rows).collect()
}

/// Scenario: a batch gets many requests one after the other, each with a resource of as many keys
/// as are allowed and no key in common. Guarantee: all are taken; whether one is doesn't depend on
/// those before it.
#[test]
fn keys_of_other_requests_cost_no_request() {
    let requests: Vec<Vec<u8>> = (0..12)
        .map(|n| traces(&resource(n * ATTRIBUTES..(n + 1) * ATTRIBUTES), &[Vec::new()]))
        .collect();
    assert!(requests.iter().all(|request| passes(Signal::Traces, request)));
    assert_eq!(refused(Signal::Traces, &requests), Vec::<String>::new());
}

/// Scenario: sets that are large in ways a count of direct members doesn't show: lists beside each
/// other, a resource or scope message that occurs several times, events that bring keys of their
/// own. Guarantee: what the columns can't hold doesn't pass the check.
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
        (0..count).map(|day| [&[tag(7, FIXED64) as u8][..], &time(day)].concat()).collect()
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
    // Those that are within the limits do pass.
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
    /// rule into messages and appended to one batch, in each variant. Guarantee: what passed the
    /// check is taken, alone and joined, and is written as no more than the edge counted for it.
    #[test]
    fn what_passes_the_check_is_taken_alone_and_joined(
        requests in proptest::collection::vec(any_request(), 1..12),
    ) {
        let limits = Limits::default();
        for options in variants() {
            for signal in Signal::ALL {
                let mut batch = BlockSet::new(signal, &options);
                let (mut joined, mut message) = (Joined::default(), Vec::new());
                for (_, request) in requests.iter().filter(|(of, _)| *of == signal) {
                    let checked = otlp::check(signal, request, &limits).unwrap();
                    let outline = otlp::outline(signal, request, &limits).unwrap();
                    prop_assert_eq!(outline.records, checked.records);
                    prop_assert_eq!(&outline.days, &checked.days);
                    prop_assert!(outline.written_bytes <= checked.written_bytes);
                    let weighed = otlp::written_bytes(signal, request).unwrap();
                    prop_assert_eq!(weighed, outline.written_bytes);
                    let mut alone = BlockSet::new(signal, &options);
                    prop_assert_eq!(alone.append(request).unwrap().rows, checked.records);
                    prop_assert!(alone.written_bytes() as u64 <= outline.written_bytes);
                    if !joined.admit(&checked, &limits) {
                        batch.append(&message).unwrap();
                        joined.clear();
                        message.clear();
                        prop_assert!(joined.admit(&checked, &limits));
                    }
                    message.extend_from_slice(request);
                }
                batch.append(&message).unwrap();
            }
        }
    }
}

/// Scenario: requests of many days each, as many as the limit, joined by the edge's rule.
/// Guarantee: the messages are taken whole; joined by length alone they would not be.
#[test]
fn requests_of_many_days_are_joined_so_that_messages_are_taken() {
    let time = |day: u64| (day * 86_400_000_000_000).to_le_bytes();
    let request = |from: u64| {
        let spans =
            (from..from + 60).map(|day| [&[tag(7, FIXED64) as u8][..], &time(day)].concat());
        traces(&[], &spans.collect::<Vec<_>>())
    };
    let requests: Vec<Vec<u8>> = [0, 10, 100, 0, 40, 200].map(request).into();
    let limits = Limits::default();
    let mut set = BlockSet::new(Signal::Traces, &Options::default());
    assert!(set.append(&requests.concat()).is_err());
    let (mut joined, mut message, mut messages) = (Joined::default(), Vec::new(), 0);
    for request in &requests {
        let outline = otlp::outline(Signal::Traces, request, &limits).unwrap();
        if !joined.admit(&outline, &limits) {
            set.append(&message).unwrap();
            messages += 1;
            joined.clear();
            message.clear();
            assert!(joined.admit(&outline, &limits));
        }
        message.extend_from_slice(request);
    }
    set.append(&message).unwrap();
    assert_eq!(messages + 1, 4);
}

/// Scenario: a message of good resource groups with bad ones between them: too many days, cut off,
/// too long for their records. Guarantee: the good ones are stored as if they were alone, the bad
/// ones come back as one request; sent again, they are refused again for what they are.
#[test]
fn bad_groups_of_a_message_cost_its_good_groups_nothing() {
    let time = |day: u64| (day * 86_400_000_000_000).to_le_bytes();
    let days: Vec<Vec<u8>> =
        (0..101).map(|day| [&[tag(7, FIXED64) as u8][..], &time(day)].concat()).collect();
    let good = |n: u32| traces(&resource(n..n + 3), &[field(5, b"good"), Vec::new()]);
    let long = field(1, &field(1, &attribute("long", &field(1, &[b'x'; 200_000]))));
    let bad = [
        traces(&[], &days),
        field(1, &field(2, &field(2, &[tag(5, LENGTH) as u8, 9, 0]))),
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
        let taken = set.append_groups(&message).unwrap();
        let (error, refused) = taken.refused.unwrap();
        assert_eq!((taken.appended.rows, error.reason()), (6, "too_many_days"));
        assert_eq!(refused, bad.concat());
        assert!(set.append_groups(&refused).is_err());
        assert_eq!(set.written_bytes(), alone.written_bytes());
        // By rows: a dictionary may keep a value of a refused group, which no row has.
        assert!(rows(&mut set) == rows(&mut alone), "{options:?}");
        // Nothing of it can be taken: as a whole, for the first reason.
        assert_eq!(set.append_groups(&bad[0]).unwrap_err().reason(), "too_many_days");
        assert!(set.append_groups(&message[..message.len() - 1]).is_err());
        assert_eq!(set.rows(), 0);
    }
}
