//! Tests of the private parts of `kafka/sessions.rs`.

use super::*;

fn of(number: usize) -> ConnectionSettings {
    ConnectionSettings::from_servers(&format!("k{number}:9092"), None)
}

/// Scenario: the same connection twice, another one, more connections than are cached, one that was
/// not used for long, and then no callers. Guarantee: the same connection gets the same session;
/// their number is bounded; only an unused one is replaced; unused ones are closed.
#[tokio::test]
async fn sessions_are_shared_bounded_and_given_up() {
    let sessions = Sessions::new(Pace::AT_ONCE);
    let first = sessions.open_session(of(0)).await.unwrap();
    assert!(Arc::ptr_eq(&first, &sessions.open_session(of(0)).await.unwrap()));
    for number in 1..SESSIONS_MAX {
        sessions.open_session(of(number)).await.unwrap();
    }
    assert!(sessions.cached_session(&of(SESSIONS_MAX), UNUSED_AFTER).is_none(), "all are in use");
    first.mark_used();
    assert!(sessions.cached_session(&of(SESSIONS_MAX), Duration::ZERO).is_some());
    assert_eq!(sessions.session_count(), SESSIONS_MAX);
    let again = sessions.open_session(of(0)).await.unwrap();
    assert!(Arc::ptr_eq(&first, &again), "the one used last was given up");
    assert!(sessions.0.close_idle(IDLE_MAX), "sessions in use were given up");
    assert_eq!(sessions.session_count(), SESSIONS_MAX);
    assert!(!sessions.0.close_idle(Duration::ZERO), "sessions nobody uses are kept");
    assert_eq!(sessions.session_count(), 0);
}

/// Scenario: a quarter more connections than are cached are used in rotation, five times.
/// Guarantee: the sessions cached first are the same in each round; only the others are recreated,
/// and none of them remains.
#[tokio::test]
async fn more_connections_than_are_kept_do_not_push_each_other_out() {
    let sessions = Sessions::new(Pace::AT_ONCE);
    let mut kept = Vec::new();
    for number in 0..SESSIONS_MAX {
        kept.push(sessions.open_session(of(number)).await.unwrap());
    }
    for _ in 0..5 {
        for number in 0..SESSIONS_MAX + SESSIONS_MAX / 4 {
            let session = sessions.open_session(of(number)).await.unwrap();
            let is_kept = kept.get(number).is_some_and(|kept| Arc::ptr_eq(kept, &session));
            assert_eq!(is_kept, number < SESSIONS_MAX, "connection {number}");
        }
        assert_eq!(sessions.session_count(), SESSIONS_MAX);
    }
}

/// Scenario: the maximum number of temporary sessions is in use; a new connection and one of theirs
/// are requested. Guarantee: theirs is shared; the new one waits until one ends, and no longer than
/// its limit.
#[tokio::test(start_paused = true)]
async fn passing_sessions_are_shared_and_bounded() {
    let sessions = Sessions::new(Pace::AT_ONCE);
    let all = SESSIONS_MAX + PASSING_MAX;
    let mut used = Vec::new();
    for number in 0..all {
        used.push(sessions.open_session(of(number)).await.unwrap());
    }
    let shared = sessions.open_session(of(all - 1)).await.unwrap();
    assert!(Arc::ptr_eq(&shared, used.last().unwrap()));
    drop(shared);
    let refused = sessions.open_session(of(all)).await.map(|_| ()).unwrap_err();
    assert_eq!(refused, Failure::queue_full());
    let waits = sessions.open_session(of(all));
    let done = async { drop(used.pop()) };
    let (made, ()) = tokio::join!(waits, done);
    assert!(made.is_ok());
    assert_eq!(sessions.session_count(), all);
}

/// Scenario: servers that are not among the allowed hosts. Guarantee: no session is created.
#[tokio::test]
async fn hosts_that_are_not_allowed_are_not_connected_to() {
    let outbound = Outbound::new(vec!["k0".parse().unwrap()], None);
    let sessions = Sessions::new(Pace::AT_ONCE).bounded_by(outbound);
    assert!(sessions.open_session(of(0)).await.is_ok());
    for servers in ["k1:9092", "k0:9092,k1:9092", "169.254.169.254:9092"] {
        let refused = sessions.open_session(ConnectionSettings::from_servers(servers, None)).await;
        assert_eq!(refused.map(|_| ()).unwrap_err().reason, Reason::HostNotAllowed);
    }
    assert_eq!(sessions.session_count(), 1);
}
