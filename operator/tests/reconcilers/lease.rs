//! Who leads, with two replicas against an API server in memory. Leases of one second keep the
//! waiting short; every wait is for an outcome, none for time alone.

use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use millrace_operator::lease::{Elector, Ending, Terms};

use crate::support::apiserver::ApiServer;

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/operator";
const TERMS: Terms = Terms { duration: Duration::from_secs(1) };

fn elector(server: &ApiServer, identity: &str) -> Elector {
    elector_for(server, identity, TERMS)
}

fn elector_for(server: &ApiServer, identity: &str, terms: Terms) -> Elector {
    let api: Api<Lease> = Api::namespaced(server.client(), "ns");
    Elector::new(api, "operator".into(), identity.into(), terms)
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
    first.acquire().await;
    let standby = tokio::spawn(async move {
        second.acquire().await;
        Instant::now()
    });
    let held = first.hold(tokio::time::sleep(TERMS.duration * 3)).await;
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
    first.acquire().await;
    server.edit(LEASE, |lease| lease["spec"]["holderIdentity"] = "second".into());
    assert_eq!(first.hold(std::future::pending()).await, Ending::Lost);
    assert_eq!(holder(&server), "second");
}

/// Scenario: the API server fails every renewal. Guarantee: the leader stops before its lease runs
/// out for others.
#[tokio::test]
async fn a_leader_that_cannot_renew_stops_before_others_may_start() {
    let server = ApiServer::default();
    // Three seconds leave 0.6 s between giving up and the end, enough for a busy machine.
    let terms = Terms { duration: Duration::from_secs(3) };
    let first = elector_for(&server, "first", terms);
    first.acquire().await;
    let renewed = Instant::now();
    server.set_fault(Some(Box::new(|_, _| Some(503))));
    assert_eq!(first.hold(std::future::pending()).await, Ending::Lost);
    assert!(renewed.elapsed() < terms.duration, "{:?}", renewed.elapsed());
}
