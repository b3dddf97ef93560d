//! Tests of test records.

use std::collections::BTreeSet;

use jiff::Timestamp;
use millrace_crds::v1alpha1::Signal;
use proptest::prelude::*;

use super::{FILLER_BYTES_MAX, RECORDS_MAX, REQUEST_RECORDS, TestLoad};

fn load(signal: Signal, run: u64, seed: u64, records: u32) -> TestLoad {
    TestLoad { signal, run, seed, records, began: Timestamp::from_second(1_790_000_000).unwrap() }
}

proptest! {
    /// Scenario: loads of any run, seed and size. Guarantee: the requests have each number from 1
    /// on once, none is empty or too large, the run is the first half of every trace id, and
    /// fillers are bounded.
    #[test]
    fn a_load_has_each_number_once(
        run in 1_u64..,
        seed: u64,
        records in 1_u32..=350,
    ) {
        let load = load(Signal::Traces, run, seed, records);
        let mut ids = BTreeSet::new();
        for request in 0..load.request_count() {
            let body = load.request_body(request);
            let spans = body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
            prop_assert!((1..=REQUEST_RECORDS as usize).contains(&spans.len()));
            for span in spans {
                let id = span["spanId"].as_str().unwrap();
                prop_assert!(ids.insert(u32::from_str_radix(id, 16).unwrap()), "{} twice", id);
                let trace = span["traceId"].as_str().unwrap();
                prop_assert!(trace.len() == 32 && trace.starts_with(&load.run_id()), "{}", trace);
                let filler = span["attributes"][2]["value"]["stringValue"].as_str().unwrap();
                prop_assert!(filler.len() as u64 <= FILLER_BYTES_MAX);
            }
        }
        prop_assert_eq!(ids, (1..=records).collect());
    }
}

/// Scenario: the same seed again, another seed, the largest load. Guarantee: the content depends on
/// the seed; a load of the maximum has that many records.
#[test]
fn content_follows_from_the_seed() {
    for signal in Signal::ALL {
        let one = load(signal, 7, 1, 120).request_body(1);
        assert_eq!(one, load(signal, 7, 1, 120).request_body(1));
        assert_ne!(one, load(signal, 7, 2, 120).request_body(1));
    }
    let most = load(Signal::Logs, 7, 1, RECORDS_MAX);
    let sum: u32 = (0..most.request_count()).map(|request| most.records_of(request)).sum();
    assert_eq!((sum, most.request_count()), (RECORDS_MAX, 100));
}
