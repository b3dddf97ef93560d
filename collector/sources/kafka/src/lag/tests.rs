//! Tests of `lag.rs`.

use millrace_certificates::Authority;
use millrace_config::{GroupProtocol, MessageTimes};
use millrace_pipeline::batch::BatchLimits;
use millrace_pipeline::budget::Budget;
use millrace_pipeline::drain::Drain;
use millrace_pipeline::readiness::Readiness;
use millrace_pipeline::sink::{
    Completion, DeadLetter, DeadLetterSink, Encoder, Insert, QueueFull, Sink,
};
use millrace_wire::Signal;

use super::*;
use crate::group::finish::WorkerDrain;
use crate::group::status::SourceStatus;
use crate::settings::{DeliveryMode, SourceSettings, SourceTopic};
use crate::topics::query_client::QueryClient;

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

/// Scenario: partitions that lag, don't lag, were never committed, and are committed below what
/// retention left. Guarantee: the messages that exist and aren't stored, and the age of the oldest.
#[test]
fn lag_counts_what_exists_and_is_not_stored() {
    let point = |commit_point, oldest_millis| LagPoint {
        commit_point,
        oldest_millis,
        since: at(90),
        low: None,
    };
    let behind = compute_lag(&point(Some(40), Some(70_000)), 0, 100, at(100));
    assert_eq!(behind, (60, Duration::from_secs(30)));
    assert_eq!(compute_lag(&point(Some(100), Some(70_000)), 0, 100, at(100)), (0, Duration::ZERO));
    assert_eq!(compute_lag(&point(None, None), 30, 100, at(100)), (70, Duration::from_secs(10)));
    assert_eq!(compute_lag(&point(Some(5), None), 30, 100, at(100)).0, 70);
    let future = compute_lag(&point(Some(5), Some(500_000)), 0, 100, at(100));
    assert_eq!(future.1, Duration::ZERO, "a producer's clock may be ahead");
}

/// Scenario: the machine's clock steps back by a day, then ahead by one. Guarantee: the number of
/// messages doesn't change; the age is zero, or too long by the step, never an error.
#[test]
fn a_clock_that_steps_changes_ages_alone() {
    let day = Duration::from_secs(86_400);
    let noon = at(10 * 86_400);
    let point =
        |oldest| LagPoint { commit_point: Some(40), oldest_millis: oldest, since: noon, low: None };
    let stamp = i64::try_from(10 * 86_400_000_u64 - 5_000).ok();
    for (oldest, age) in [(None, Duration::ZERO), (stamp, Duration::from_secs(5))] {
        assert_eq!(compute_lag(&point(oldest), 0, 100, noon), (60, age));
        assert_eq!(compute_lag(&point(oldest), 0, 100, noon - day), (60, Duration::ZERO));
        assert_eq!(compute_lag(&point(oldest), 0, 100, noon + day), (60, age + day));
    }
}

struct FullSink;

impl Sink for FullSink {
    fn new_encoder(&self, _: Signal) -> Box<dyn Encoder> {
        unreachable!("nothing is read")
    }

    fn submit(&self, work: Insert, completion: Completion) -> Result<(), Box<QueueFull<Insert>>> {
        Err(Box::new(QueueFull { work, completion }))
    }
}

impl DeadLetterSink for FullSink {
    fn submit(
        &self,
        work: DeadLetter,
        completion: Completion,
    ) -> Result<(), Box<QueueFull<DeadLetter>>> {
        Err(Box::new(QueueFull { work, completion }))
    }
}

/// Scenario: at the start of a gateway the file of the brokers' authority is missing; later it
/// exists. Guarantee: the lag is measured from then on, as the workers read from then on.
#[test]
fn the_lag_is_measured_once_a_client_can_be_created() {
    let folder = tempfile::tempdir().unwrap();
    let authority = folder.path().join("ca.pem");
    let budget = Budget::new(1 << 20);
    let settings = SourceSettings {
        connection: vec![
            ("bootstrap.servers", "127.0.0.1:9".to_owned()),
            ("security.protocol", "ssl".to_owned()),
            ("ssl.ca.location", authority.display().to_string()),
        ],
        tokens: None,
        group: "group".into(),
        instance: None,
        topics: vec![SourceTopic { name: "topic".into(), signal: Signal::Logs }],
        workers: 1,
        fetch_queue_bytes: 0,
        session_timeout: Duration::from_secs(20),
        protocol: GroupProtocol::Classic,
        batch: BatchLimits { max_rows: 1, max_bytes: 1, max_age: Duration::ZERO },
        delivery: DeliveryMode::AtLeastOnce,
        record_times: MessageTimes::default(),
    };
    let shared = Arc::new(WorkerContext {
        settings,
        sink: Arc::new(FullSink),
        dead_letters: Arc::new(FullSink),
        telemetry: Arc::new(Telemetry::new(budget.clone(), "0", "system").unwrap()),
        budget,
        drain: Drain::new(Duration::ZERO),
        status: SourceStatus::new(Readiness::default().add_part("kafka source"), 1),
        query_client: QueryClient::default(),
        finish: WorkerDrain::new(1),
        lag: LagTracker::default(),
    });
    assert!(find_client(&shared).is_none(), "the authority's file is missing");
    let measuring = Arc::clone(&shared);
    let thread = std::thread::spawn(move || measure_lag(&measuring));
    std::fs::write(&authority, Authority::new("brokers").pem()).unwrap();
    let deadline = Instant::now() + LAG_INTERVAL * 10;
    while !shared.query_client.is_created() && Instant::now() < deadline {
        std::thread::sleep(DRAIN_CHECK_INTERVAL);
    }
    assert!(shared.query_client.is_created() && !thread.is_finished());
    shared.drain.begin();
    thread.join().unwrap();
}
