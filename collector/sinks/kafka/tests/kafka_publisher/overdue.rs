//! Messages that Kafka doesn't answer in time: how their senders are answered, and what is stored.

use super::*;

/// The time limit of messages here.
const PATIENCE_HERE: Duration = Duration::from_secs(3);

/// Returns a publisher with a linger of zero: each request is a message.
fn rig(mock: &Mock) -> Rig {
    Rig::ready(mock, |settings| {
        settings.linger_millis = 0;
        settings.delivery_timeout_seconds = PATIENCE_HERE.as_secs() as u32;
    })
}

/// Publishes a request as soon as one is accepted: not immediately after all were withdrawn.
async fn accepted(rig: &Rig, name: &str) -> Result<DeliveryReceipt, PublishError> {
    let mut delivery = None;
    wait_until("a request to be accepted", || {
        delivery = rig.publish(&spans([name.to_owned()]), 1).ok();
        delivery.is_some()
    });
    delivery.unwrap().await
}

/// Scenario: a broker stores two messages and answers neither; the first is overdue while the
/// second is not; then it answers. Guarantee: the sender of the first is answered with an unknown
/// outcome at its timeout, the second's too unless the answer arrives in time; the client library
/// sends neither again automatically, and the publisher continues once the broker answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_was_under_way_is_not_sent_again_unasked() {
    let mock = mock();
    let rig = rig(&mock);
    // The first message waits for the broker, and on a busy machine longer than its limit.
    let mut tries = 0;
    while accepted(&rig, "before").await != Ok(DeliveryReceipt::default()) {
        tries += 1;
        assert!(tries < 20, "nothing is delivered");
    }
    let before = stored(&mock);
    mock.broker_round_trip_time(1, SLOW).unwrap();
    let older = rig.publish(&spans(["older".to_owned()]), 1).unwrap();
    // This is not synchronisation: the second has to be younger by less than the timeout.
    tokio::time::sleep(PATIENCE_HERE / 2).await;
    let younger = rig.publish(&spans(["younger".to_owned()]), 1).unwrap();
    assert!(matches!(older.await, Err(PublishError::Unconfirmed(_))));
    // At once, while the younger could still be sent again in time.
    mock.broker_round_trip_time(1, Duration::ZERO).unwrap();
    let younger = younger.await;
    assert_eq!(accepted(&rig, "after").await, Ok(DeliveryReceipt::default()));
    assert_eq!(stored(&mock), before + 3, "older, younger, after");
    assert!(matches!(younger, Ok(_) | Err(PublishError::Unconfirmed(_))), "{younger:?}");
    assert_eq!(rig.budget.used_bytes(), 0);
}

/// Scenario: a broker that answers nothing, and more messages than the client library may have.
/// Guarantee: the senders of those that weren't sent learn that they weren't accepted, and none of
/// them is stored later.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_waited_too_long_was_not_taken_and_stays_away() {
    let mock = mock();
    let rig = rig(&mock);
    mock.broker_round_trip_time(1, SLOW).unwrap();
    let sent: Vec<PendingDelivery> =
        (0..100).map(|n| rig.publish(&spans([format!("span {n}")]), 1).unwrap()).collect();
    let (mut unknown, mut not_taken) = (0_i64, 0);
    for delivery in sent {
        match delivery.await {
            Err(PublishError::Unconfirmed(_)) => unknown += 1,
            Err(PublishError::Unavailable(why)) => {
                assert!(why.contains("Kafka accepted none of them within 3 s"), "{why}");
                not_taken += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(unknown + not_taken, 100);
    // Eight at a time, and nothing follows withdrawn messages before Kafka was tried again.
    assert!((8..=32).contains(&unknown), "{unknown}");
    wait_until("the library to let go", || rig.budget.used_bytes() == 0);
    assert_eq!(rig.metric("millrace_records_in_flight{signal=\"traces\"}"), 0);
    for (reason, records) in [("unavailable", not_taken), ("unconfirmed", unknown)] {
        let refused =
            format!("millrace_records_refused_total{{reason=\"{reason}\",signal=\"traces\"}}");
        assert_eq!(rig.metric(&refused), records as u64, "{reason}");
    }
    mock.broker_round_trip_time(1, Duration::ZERO).unwrap();
    assert_eq!(accepted(&rig, "after").await, Ok(DeliveryReceipt::default()));
    let stored = stored(&mock);
    assert!((1..=unknown + 1).contains(&stored), "{stored}");
}
