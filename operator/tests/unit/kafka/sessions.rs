//! Tests of what `kafka/sessions.rs` keeps to itself.

use super::*;

fn of(number: usize) -> Settings {
    Settings::direct(&format!("k{number}:9092"), None)
}

/// Scenario: the same connection twice, another one, more connections than are kept, one that
/// was not used for long, and then nobody. Guarantee: the same session is given for the same
/// connection; their number is bounded; only one that is not used makes room; unused ones are
/// given up.
#[tokio::test]
async fn sessions_are_shared_bounded_and_given_up() {
    let sessions = Sessions::new(Pace::AT_ONCE);
    let first = sessions.session(of(0)).await.unwrap();
    assert!(Arc::ptr_eq(&first, &sessions.session(of(0)).await.unwrap()));
    for number in 1..SESSIONS_MAX {
        sessions.session(of(number)).await.unwrap();
    }
    assert!(sessions.kept(&of(SESSIONS_MAX), UNUSED_AFTER).is_none(), "all are in use");
    first.used();
    assert!(sessions.kept(&of(SESSIONS_MAX), Duration::ZERO).is_some());
    assert_eq!(sessions.count(), SESSIONS_MAX);
    let again = sessions.session(of(0)).await.unwrap();
    assert!(Arc::ptr_eq(&first, &again), "the one used last was given up");
    assert!(sessions.0.sweep(IDLE_MAX), "sessions in use were given up");
    assert_eq!(sessions.count(), SESSIONS_MAX);
    assert!(!sessions.0.sweep(Duration::ZERO), "sessions nobody uses are kept");
    assert_eq!(sessions.count(), 0);
}

/// Scenario: a quarter more connections than are kept are asked over in a circle, five times.
/// Guarantee: those that were kept first are the same each time round; only the others are made
/// anew, and none of them stays.
#[tokio::test]
async fn more_connections_than_are_kept_do_not_push_each_other_out() {
    let sessions = Sessions::new(Pace::AT_ONCE);
    let mut kept = Vec::new();
    for number in 0..SESSIONS_MAX {
        kept.push(sessions.session(of(number)).await.unwrap());
    }
    for _ in 0..5 {
        for number in 0..SESSIONS_MAX + SESSIONS_MAX / 4 {
            let session = sessions.session(of(number)).await.unwrap();
            let is_kept = kept.get(number).is_some_and(|kept| Arc::ptr_eq(kept, &session));
            assert_eq!(is_kept, number < SESSIONS_MAX, "connection {number}");
        }
        assert_eq!(sessions.count(), SESSIONS_MAX);
    }
}

/// Scenario: as many passing sessions as there may be are in use; one more is asked for, and
/// one of theirs again. Guarantee: theirs is shared; the new one waits until one is done, and
/// no longer than its time.
#[tokio::test(start_paused = true)]
async fn passing_sessions_are_shared_and_bounded() {
    let sessions = Sessions::new(Pace::AT_ONCE);
    let all = SESSIONS_MAX + PASSING_MAX;
    let mut used = Vec::new();
    for number in 0..all {
        used.push(sessions.session(of(number)).await.unwrap());
    }
    let shared = sessions.session(of(all - 1)).await.unwrap();
    assert!(Arc::ptr_eq(&shared, used.last().unwrap()));
    drop(shared);
    let refused = sessions.session(of(all)).await.map(|_| ()).unwrap_err();
    assert_eq!(refused, Failure::crowded());
    let waits = sessions.session(of(all));
    let done = async { drop(used.pop()) };
    let (made, ()) = tokio::join!(waits, done);
    assert!(made.is_ok());
    assert_eq!(sessions.count(), all);
}

/// Scenario: servers that are not among the allowed hosts. Guarantee: no session is made.
#[tokio::test]
async fn hosts_that_are_not_allowed_are_not_connected_to() {
    let outbound = Outbound::new(vec!["k0".parse().unwrap()]);
    let sessions = Sessions::new(Pace::AT_ONCE).bounded_by(outbound);
    assert!(sessions.session(of(0)).await.is_ok());
    for servers in ["k1:9092", "k0:9092,k1:9092", "169.254.169.254:9092"] {
        let refused = sessions.session(Settings::direct(servers, None)).await;
        assert_eq!(refused.map(|_| ()).unwrap_err().reason, Reason::HostNotAllowed);
    }
    assert_eq!(sessions.count(), 1);
}
