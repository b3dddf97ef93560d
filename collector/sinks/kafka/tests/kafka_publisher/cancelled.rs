//! Requests whose clients are answered, or gone, before Kafka has confirmed them: what is not sent
//! any more, and how the others are reported.

use millrace_pipeline::cancellation::{CancelOutcome, Canceller};

use super::*;

fn canceller() -> Canceller {
    Canceller::new(Instant::now() + PATIENCE)
}

/// Scenario: a broker that answers nothing, more messages than the client library may have, and
/// clients that are answered before the publisher's own timeout. Guarantee: the few that the
/// library accepted may be stored and are counted so; all others are never sent; no budget is held
/// once no client waits. Slow: the broker answers late, and the publisher waits for its own
/// timeout.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_was_not_handed_over_is_never_sent() {
    let mock = mock();
    let rig = Rig::ready(&mock, |settings| settings.linger_millis = 0);
    mock.broker_round_trip_time(1, SLOW).unwrap();
    let requests: Vec<(Canceller, PendingDelivery)> = (0..100)
        .map(|n| {
            let canceller = canceller();
            let bytes = spans([format!("span {n}")]);
            let delivery = rig.publish_for(canceller.cancellation(), &bytes, 1).unwrap();
            (canceller, delivery)
        })
        .collect();
    let cancelled: Vec<CancelOutcome> =
        requests.iter().map(|(canceller, _)| canceller.cancel()).collect();
    let unsent = cancelled.iter().filter(|it| **it == CancelOutcome::Unsent).count() as u64;
    let sent = 100 - unsent;
    assert!((1..=16).contains(&sent), "{sent}");
    wait_until("the library to let go", || rig.budget.used_bytes() == 0);
    assert_eq!(rig.metric("millrace_records_in_flight{signal=\"traces\"}"), 0);
    let refused = |reason: &str| {
        rig.metric(&format!(
            "millrace_records_refused_total{{reason=\"{reason}\",signal=\"traces\"}}"
        ))
    };
    assert_eq!((refused("timeout"), refused("unconfirmed")), (unsent, sent));
    mock.broker_round_trip_time(1, Duration::ZERO).unwrap();
    let mut after = None;
    wait_until("a request to be accepted", || {
        after = rig.publish(&spans(["after".to_owned()]), 1).ok();
        after.is_some()
    });
    assert_eq!(after.unwrap().await, Ok(DeliveryReceipt::default()));
    assert!(stored(&mock) <= sent as i64 + 1, "{} of {sent}", stored(&mock));
}

/// Scenario: of three requests that share a message one is cancelled before it is sent. Guarantee:
/// the others are stored and answered, the cancelled one is not sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_cancelled_request_is_removed_from_its_message() {
    let mock = mock();
    let rig = Rig::ready(&mock, |settings| settings.linger_millis = 60_000);
    let [first, cancelled, last] = ["first", "cancelled", "last"].map(|name| {
        let canceller = canceller();
        let bytes = spans([name.to_owned()]);
        let delivery = rig.publish_for(canceller.cancellation(), &bytes, 1).unwrap();
        (canceller, delivery)
    });
    assert_eq!(cancelled.0.cancel(), CancelOutcome::Unsent);
    assert!(rig.publisher.flush(PATIENCE));
    assert_eq!(first.1.await, Ok(DeliveryReceipt::default()));
    assert_eq!(last.1.await, Ok(DeliveryReceipt::default()));
    assert_eq!(first.0.cancel(), CancelOutcome::MayBeStored);
    let names = read(&mock, "otlp_traces", 1, |m| names(m.payload().unwrap()));
    assert_eq!(names, [["first", "last"]]);
    assert_eq!(rig.metric("millrace_records_out_total{signal=\"traces\"}"), 2);
    assert_eq!(rig.metric("millrace_records_in_flight{signal=\"traces\"}"), 0);
    wait_until("the budget to be free", || rig.budget.used_bytes() == 0);
}

/// Scenario: the broker is down while a client abandons its request and sends the same bytes again.
/// Guarantee: retries are refused while the topic stores nothing; at the timeout the first copy is
/// withdrawn and counted as one that may be stored; the retry after it is stored, once. Slow: a
/// delivery timeout of 10 s passes.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_request_that_was_withdrawn_is_stored_by_its_retry_alone() {
    let mock = mock();
    let rig = Rig::ready(&mock, |settings| {
        settings.linger_millis = 0;
        settings.delivery_timeout_seconds = 10;
    });
    mock.broker_down(1).unwrap();
    let bytes = spans(["again".to_owned()]);
    let first = canceller();
    let delivery = rig.publish_for(first.cancellation(), &bytes, 1).unwrap();
    assert_eq!(first.cancel(), CancelOutcome::MayBeStored);
    drop(delivery);
    wait_until("the topic to take nothing", || !rig.readiness.is_ready());
    assert!(matches!(rig.publish(&bytes, 1), Err(PublishError::Unavailable(_))));
    let refused = "millrace_records_refused_total{reason=\"unconfirmed\",signal=\"traces\"}";
    assert_eq!(rig.metric(refused), 0);
    wait_until("the first to be withdrawn", || rig.metric(refused) == 1);
    mock.broker_up(1).unwrap();
    let mut retry = None;
    wait_until("a retry to be accepted", || {
        retry = rig.publish(&bytes, 1).ok();
        retry.is_some()
    });
    assert_eq!(retry.unwrap().await, Ok(DeliveryReceipt::default()));
    assert_eq!(stored(&mock), 1);
    assert_eq!(rig.metric("millrace_records_out_total{signal=\"traces\"}"), 1);
    assert_eq!(rig.metric("millrace_records_in_flight{signal=\"traces\"}"), 0);
    wait_until("the budget to be free", || rig.budget.used_bytes() == 0);
}

/// Scenario: a broker's answer arrives after a client was answered. Guarantee: the client learns
/// that its request may be stored, and once Kafka confirms it, it counts only as stored.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_request_that_is_confirmed_late_counts_once() {
    let mock = mock();
    let rig = Rig::ready(&mock, |settings| settings.linger_millis = 0);
    mock.broker_round_trip_time(1, Duration::from_secs(1)).unwrap();
    let canceller = canceller();
    let delivery = rig.publish_for(canceller.cancellation(), &spans(["late".to_owned()]), 1);
    assert_eq!(canceller.cancel(), CancelOutcome::MayBeStored);
    drop(delivery);
    let count = |name: &str| rig.metric(&format!("millrace_records_{name}"));
    assert_eq!(count("in_flight{signal=\"traces\"}"), 1);
    wait_until("the broker's answer", || count("out_total{signal=\"traces\"}") == 1);
    assert_eq!(count("in_flight{signal=\"traces\"}"), 0);
    assert_eq!(count("refused_total{reason=\"unconfirmed\",signal=\"traces\"}"), 0);
}
