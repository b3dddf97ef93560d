//! Messages that Kafka doesn't answer for in time: what their senders hear, and what is stored.

use super::*;

/// How long messages may take here.
const PATIENCE_HERE: Duration = Duration::from_secs(3);
/// How long the broker takes for an answer meanwhile: past anybody's patience.
const SLOW: Duration = Duration::from_secs(30);

/// A publisher with a linger of zero: each request is a message.
fn rig(mock: &Mock) -> Rig {
    Rig::ready(mock, |settings| {
        settings.linger_millis = 0;
        settings.delivery_timeout_seconds = PATIENCE_HERE.as_secs() as u32;
    })
}

/// How many messages the topic's one partition has had.
fn stored(mock: &Mock) -> i64 {
    let consumer: BaseConsumer =
        ClientConfig::new().set("bootstrap.servers", mock.bootstrap_servers()).create().unwrap();
    consumer.fetch_watermarks("otlp_traces", 0, PATIENCE).unwrap().1
}

/// Scenario: a broker stores two messages and answers for neither; the first is overdue while the
/// second is not. Guarantee: both senders hear that nobody knows, and the client library sends
/// neither again by itself; the publisher goes on once the broker answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_was_under_way_is_not_sent_again_unasked() {
    let mock = mock();
    let rig = rig(&mock);
    // The first message waits for the broker, and on a busy machine longer than it may.
    let mut tries = 0;
    while rig.publish(&spans(["before".to_owned()]), 1).unwrap().await != Ok(Delivered::default()) {
        tries += 1;
        assert!(tries < 20, "nothing is delivered");
    }
    let before = stored(&mock);
    mock.broker_round_trip_time(1, SLOW).unwrap();
    let older = rig.publish(&spans(["older".to_owned()]), 1).unwrap();
    // Not a wait for anything: the second has to be younger by less than the time-out.
    tokio::time::sleep(PATIENCE_HERE / 2).await;
    let younger = rig.publish(&spans(["younger".to_owned()]), 1).unwrap();
    assert!(matches!(older.await, Err(Refused::Unconfirmed(_))));
    // At once, while the younger could still be sent again in time.
    mock.broker_round_trip_time(1, Duration::ZERO).unwrap();
    let younger = younger.await;
    wait_until("kafka to be reached", || rig.readiness.is_ready());
    let after = rig.publish(&spans(["after".to_owned()]), 1).unwrap();
    assert_eq!(after.await, Ok(Delivered::default()));
    assert_eq!(stored(&mock), before + 3, "older, younger, after");
    assert!(matches!(younger, Err(Refused::Unconfirmed(_))));
    assert_eq!(rig.budget.used_bytes(), 0);
}

/// Scenario: a broker that answers nothing, and more messages than may be with the client library.
/// Guarantee: the senders of those that weren't sent hear that they weren't taken, and none of
/// them is stored later.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_waited_too_long_was_not_taken_and_stays_away() {
    let mock = mock();
    let rig = rig(&mock);
    mock.broker_round_trip_time(1, SLOW).unwrap();
    let sent: Vec<Delivery> =
        (0..100).map(|n| rig.publish(&spans([format!("span {n}")]), 1).unwrap()).collect();
    let (mut unknown, mut not_taken) = (0_i64, 0);
    for delivery in sent {
        match delivery.await {
            Err(Refused::Unconfirmed(_)) => unknown += 1,
            Err(Refused::Unavailable(why)) => {
                assert!(why.contains("kafka took none of them in 3 s"), "{why}");
                not_taken += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(unknown + not_taken, 100);
    // Eight at a time: those that were too young to be given up with the first are tried once more.
    assert!((8..=32).contains(&unknown), "{unknown}");
    assert_eq!(rig.budget.used_bytes(), 0);
    assert_eq!(rig.metric("millrace_records_buffered{signal=\"traces\"}"), 0);
    let refused = "millrace_records_refused_total{reason=\"unavailable\",signal=\"traces\"}";
    assert_eq!(rig.metric(refused), 100);
    mock.broker_round_trip_time(1, Duration::ZERO).unwrap();
    wait_until("kafka to be reached", || rig.readiness.is_ready());
    let after = rig.publish(&spans(["after".to_owned()]), 1).unwrap();
    assert_eq!(after.await, Ok(Delivered::default()));
    let stored = stored(&mock);
    assert!((1..=unknown + 1).contains(&stored), "{stored}");
}
