//! Tests that buffers are reused: once a set has had a batch, appending a similar one allocates
//! only the list of blocks of each table and day.

use std::fmt::Debug;

use millrace_columns::{BlockSet, BodyCompression, Options};
use millrace_schema::AttributeStorage;
use millrace_wire::Signal;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{Gauge, Sum};
use proptest::strategy::{BoxedStrategy, Strategy as _, ValueTree as _};
use proptest::test_runner::TestRunner;
use prost::Message;

use crate::heap::allocations;
use crate::requests;

/// Returns random requests, the same in every run, changed by `same_day`.
fn batch<M: Message + Debug>(
    strategy: &BoxedStrategy<M>,
    same_day: impl Fn(&mut M),
) -> Vec<Vec<u8>> {
    let mut runner = TestRunner::deterministic();
    let mut request = || {
        let mut request = strategy.new_tree(&mut runner).unwrap().current();
        same_day(&mut request);
        request.encode_to_vec()
    };
    (0..200).map(|_| request()).collect()
}

/// A time in the year 2026. A set retains the blocks of two days for the next batch.
const NOW: u64 = 1_790_000_000_000_000_000;

fn traces() -> Vec<Vec<u8>> {
    batch(&requests::traces(), |request| {
        let scopes = request.resource_spans.iter_mut().flat_map(|group| &mut group.scope_spans);
        for span in scopes.flat_map(|scope| &mut scope.spans) {
            span.start_time_unix_nano = NOW;
        }
    })
}

fn logs() -> Vec<Vec<u8>> {
    batch(&requests::logs(), |request| {
        let scopes = request.resource_logs.iter_mut().flat_map(|group| &mut group.scope_logs);
        for record in scopes.flat_map(|scope| &mut scope.log_records) {
            record.time_unix_nano = NOW;
        }
    })
}

fn metrics() -> Vec<Vec<u8>> {
    batch(&requests::metrics(), |request| {
        let scopes = request.resource_metrics.iter_mut().flat_map(|group| &mut group.scope_metrics);
        for metric in scopes.flat_map(|scope| &mut scope.metrics) {
            let Some(data) = &mut metric.data else { continue };
            let times: Vec<&mut u64> = match data {
                Data::Gauge(Gauge { data_points }) | Data::Sum(Sum { data_points, .. }) => {
                    data_points.iter_mut().map(|point| &mut point.time_unix_nano).collect()
                }
                Data::Histogram(of) => {
                    of.data_points.iter_mut().map(|point| &mut point.time_unix_nano).collect()
                }
                Data::ExponentialHistogram(of) => {
                    of.data_points.iter_mut().map(|point| &mut point.time_unix_nano).collect()
                }
                Data::Summary(of) => {
                    of.data_points.iter_mut().map(|point| &mut point.time_unix_nano).collect()
                }
            };
            times.into_iter().for_each(|time| *time = NOW);
        }
    })
}

/// Scenario: the same batch of two hundred random requests of a signal, in several rounds.
/// Guarantee: from the second round on, appending allocates once for each table and day, however
/// many requests and records the batch has.
#[test]
fn appending_a_batch_like_the_last_allocates_once_per_table_and_day() {
    for attributes in [AttributeStorage::Json, AttributeStorage::Map] {
        for (signal, batch, tables) in [
            (Signal::Traces, traces(), 1),
            (Signal::Logs, logs(), 1),
            (Signal::Metrics, metrics(), 5),
        ] {
            let options = Options { attributes, ..Options::default() };
            let mut set = BlockSet::new(signal, &options);
            let mut counts = Vec::new();
            for _ in 0..4 {
                counts.push(allocations(|| {
                    for request in &batch {
                        set.append(request).unwrap();
                    }
                }));
                set.take_inserts(BodyCompression::Lz4);
            }
            assert_eq!(counts[1..], [tables; 3], "{signal} {attributes:?}");
        }
    }
}
