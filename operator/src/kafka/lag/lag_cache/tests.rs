//! Tests of the private parts of `kafka/lag_board.rs`.

use super::*;
use std::sync::atomic::AtomicUsize;

/// A source that never answers its first request and counts them all.
#[derive(Default)]
struct Hanging {
    asked: AtomicUsize,
}

impl LagSource for Hanging {
    fn observe_lag<'a>(
        &'a self,
        _query: &'a LagQuery,
    ) -> BoxFuture<'a, Result<LagObservation, StepError>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        futures::future::pending().boxed()
    }
}

fn query() -> LagQuery {
    LagQuery {
        namespace: "ns".into(),
        kafka: serde_json::from_str(r#"{"bootstrapServers":["k:9092"]}"#).unwrap(),
        group: "g".into(),
        topics: vec!["otlp_traces".into()],
        bound: Duration::from_secs(60),
    }
}

/// Scenario: a broker that hangs. Guarantee: a reconcile continues without it after two seconds,
/// the lag is unknown and not zero, and the broker is not queried again at once.
#[tokio::test(start_paused = true)]
async fn a_broker_that_hangs_does_not_hold_a_pool_up() {
    let source = Arc::new(Hanging::default());
    let board = LagCache::new(source.clone());
    let start = tokio::time::Instant::now();
    let error = board.observe_lag(&query()).await.unwrap_err();
    assert_eq!(error.reason, Reason::LagUnknown);
    assert_eq!(start.elapsed(), FIRST_ANSWER_MAX);
    assert!(board.observe_lag(&query()).await.is_err());
    assert_eq!(source.asked.load(Ordering::SeqCst), 1);
}
