//! Who leads, with two replicas against an API server in memory. Leases of one second keep the
//! waiting short; every wait is for an outcome, none for time alone.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use http::{Method, Request};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::client::Body;
use millrace_operator::lease::{Ending, LEASE_DURATION_DEFAULT, LeaderElector, LeaseTiming};

use crate::reconcilers::support::apiserver::ApiServer;

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/operator";
const TERMS: LeaseTiming = LeaseTiming { duration: Duration::from_secs(1) };

fn elector(server: &ApiServer, identity: &str) -> LeaderElector {
    elector_for(server, identity, TERMS)
}

fn elector_for(server: &ApiServer, identity: &str, terms: LeaseTiming) -> LeaderElector {
    let api: Api<Lease> = Api::namespaced(server.client(), "ns");
    LeaderElector::new(api, "operator".into(), identity.into(), terms)
}

/// An elector for which each write's answer takes a while; and when the server did the last one.
fn elector_far_away(
    server: &ApiServer,
    delay: impl Fn(usize) -> Duration + Send + Sync + 'static,
) -> (LeaderElector, Arc<Mutex<tokio::time::Instant>>) {
    let (client, delay) = (server.client(), Arc::new(delay));
    let done_at = Arc::new(Mutex::new(tokio::time::Instant::now()));
    let (noted, writes) = (done_at.clone(), Arc::new(AtomicUsize::new(0)));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, delay) = (client.clone(), delay.clone());
        let (noted, writes) = (noted.clone(), writes.clone());
        async move {
            let is_write = request.method() != Method::GET;
            let answer = client.send(request).await.unwrap();
            if is_write && answer.status().is_success() {
                *noted.lock().unwrap() = tokio::time::Instant::now();
            }
            if is_write {
                let number = writes.fetch_add(1, Ordering::Relaxed) + 1;
                tokio::time::sleep(delay(number)).await;
            }
            Ok::<_, Infallible>(answer)
        }
    });
    let api: Api<Lease> = Api::namespaced(kube::Client::new(service, "ns"), "ns");
    let terms = LeaseTiming { duration: LEASE_DURATION_DEFAULT };
    (LeaderElector::new(api, "operator".into(), "far".into(), terms), done_at)
}

fn holder(server: &ApiServer) -> String {
    let lease = server.get(LEASE).unwrap();
    lease["spec"]["holderIdentity"].as_str().unwrap_or("").to_owned()
}

/// Scenario: the leader renews past several durations, then stops cleanly. Guarantee: the standby
/// gets the lease only then, and at once.
#[tokio::test]
async fn a_clean_stop_hands_the_lease_over_at_once() {
    let server = ApiServer::default();
    let (first, second) = (elector(&server, "first"), elector(&server, "second"));
    let taken = first.acquire().await;
    let standby = tokio::spawn(async move {
        second.acquire().await;
        Instant::now()
    });
    let held = first.hold_lease(taken, tokio::time::sleep(TERMS.duration * 3)).await;
    let stopped = Instant::now();
    assert_eq!(held, Ending::Released);
    let taken = standby.await.unwrap();
    assert!(taken > stopped - TERMS.renew_every(), "taken while it was held");
    assert!(taken < stopped + TERMS.duration, "not handed over at once");
    assert_eq!(holder(&server), "second");
}

/// Scenario: the leader dies without a word. Guarantee: the standby takes over, not before the
/// lease ran out.
#[tokio::test]
async fn a_dead_leader_is_followed_when_its_lease_ran_out() {
    let server = ApiServer::default();
    elector(&server, "first").acquire().await;
    let died = Instant::now();
    elector(&server, "second").acquire().await;
    assert!(died.elapsed() >= TERMS.duration);
    assert_eq!(holder(&server), "second");
}

/// Scenario: another replica's name appears in the lease. Guarantee: the leader stops and does not
/// write its name back.
#[tokio::test]
async fn a_leader_that_was_overtaken_stops() {
    let server = ApiServer::default();
    let first = elector(&server, "first");
    let taken = first.acquire().await;
    server.edit(LEASE, |lease| lease["spec"]["holderIdentity"] = "second".into());
    assert_eq!(first.hold_lease(taken, std::future::pending()).await, Ending::Lost);
    assert_eq!(holder(&server), "second");
}

/// Scenario: the API server fails every renewal. Guarantee: the leader stops before its lease runs
/// out for others.
#[tokio::test]
async fn a_leader_that_cannot_renew_stops_before_others_may_start() {
    let server = ApiServer::default();
    // Three seconds leave 0.6 s between giving up and the end, enough for a busy machine.
    let terms = LeaseTiming { duration: Duration::from_secs(3) };
    let first = elector_for(&server, "first", terms);
    let taken = first.acquire().await;
    let renewed = Instant::now();
    server.set_fault(Some(Box::new(|_, _| Some(503))));
    assert_eq!(first.hold_lease(taken, std::future::pending()).await, Ending::Lost);
    assert!(renewed.elapsed() < terms.duration, "{:?}", renewed.elapsed());
}

/// Scenario: the answer to a write comes 10.5 s after the server did it; then every renewal fails.
/// Guarantee: the leader stops before the lease has run out for those who saw that write at once,
/// be it the one that took the lease or the one that renewed it.
#[tokio::test(start_paused = true)]
async fn what_was_written_counts_from_before_it_was_sent() {
    for slow in [1, 2] {
        let server = ApiServer::default();
        let delay = move |at| Duration::from_millis(if at == slow { 10_500 } else { 0 });
        let (far, done_at) = elector_far_away(&server, delay);
        let taken = far.acquire().await;
        let mut left = slow - 1;
        server.set_fault(Some(Box::new(move |method, _| {
            if *method == Method::GET || left > 0 {
                left -= usize::from(*method != Method::GET);
                return None;
            }
            Some(503)
        })));
        assert_eq!(far.hold_lease(taken, std::future::pending()).await, Ending::Lost);
        let held = done_at.lock().unwrap().elapsed();
        assert!(held < LEASE_DURATION_DEFAULT, "write {slow}: held for {held:?} after it");
    }
}

/// Scenario: the API server stalls for 3.2 and for 8.5 s at a renewal. Guarantee: a leader with
/// the default terms stays one.
#[tokio::test(start_paused = true)]
async fn a_stalled_api_server_costs_no_leader() {
    for stall in [3_200, 8_500] {
        let stalled = move |write| Duration::from_millis(if write == 3 { stall } else { 0 });
        let (far, _) = elector_far_away(&ApiServer::default(), stalled);
        let taken = far.acquire().await;
        let held = far.hold_lease(taken, tokio::time::sleep(LEASE_DURATION_DEFAULT * 10)).await;
        assert_eq!(held, Ending::Released, "{stall} ms");
    }
}

/// Scenario: the write that takes the lease is done, and its answer never comes. Guarantee: it is
/// asked for again, and the lease is held.
#[tokio::test(start_paused = true)]
async fn an_answer_that_never_comes_is_not_waited_for() {
    let server = ApiServer::default();
    let never = Duration::from_secs(1 << 30);
    let (far, _) =
        elector_far_away(&server, move |at| if at == 1 { never } else { Duration::ZERO });
    let soon = LEASE_DURATION_DEFAULT * 2;
    let taken = tokio::time::timeout(soon, far.acquire()).await.expect("taken in the end");
    let held = far.hold_lease(taken, tokio::time::sleep(LEASE_DURATION_DEFAULT * 3)).await;
    assert_eq!(held, Ending::Released);
}

/// Scenario: a leader is requested to stop while the answer to a renewal doesn't come. Guarantee: it
/// releases the lease at once.
#[tokio::test(start_paused = true)]
async fn a_stop_waits_for_no_renewal_in_flight() {
    let server = ApiServer::default();
    let never = Duration::from_secs(1 << 30);
    let (far, _) =
        elector_far_away(&server, move |at| if at == 2 { never } else { Duration::ZERO });
    let taken = far.acquire().await;
    let began = tokio::time::Instant::now();
    let stop_after = Duration::from_secs(1);
    let held = far.hold_lease(taken, tokio::time::sleep(stop_after)).await;
    assert_eq!((held, began.elapsed()), (Ending::Released, stop_after));
    assert_eq!(holder(&server), "");
}
