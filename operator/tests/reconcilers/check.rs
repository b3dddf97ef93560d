//! What `helm test` asks: whether an operator works here, against an API server in memory.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use millrace_operator::check::{CheckError, Place, check};
use millrace_operator::lease::{Elector, Terms};

use crate::support::apiserver::ApiServer;

const TERMS: Terms = Terms { duration: Duration::from_secs(4) };

async fn asked(server: &ApiServer) -> Result<String, CheckError> {
    let place = Place { namespace: "ns".into(), name: "operator".into(), terms: TERMS };
    check(&server.client(), &[], &place).await
}

/// Scenario: nobody took the lease; a replica takes it and renews; then it is gone without giving
/// it back. Guarantee: the first and the last are errors that say so, and the second names the
/// replica.
#[tokio::test(start_paused = true)]
async fn an_operator_works_when_a_replica_renews_the_lease() {
    let server = ApiServer::default();
    let nobody = asked(&server).await.unwrap_err();
    assert!(matches!(nobody, CheckError::Free { .. }), "{nobody}");

    let api: Api<Lease> = Api::namespaced(server.client(), "ns");
    let elector = Elector::new(api, "operator".into(), "pod-a".into(), TERMS);
    let taken = elector.acquire().await;
    let held = tokio::spawn(async move { elector.hold(taken, std::future::pending::<()>()).await });
    assert_eq!(asked(&server).await.unwrap(), "pod-a");

    held.abort();
    let silent = asked(&server).await.unwrap_err();
    assert_eq!(silent.to_string(), "pod-a holds the lease and does not renew it: see its log");
}
