//! What `helm test` asks: whether an operator works here, against an API server in memory.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use millrace_operator::check::definitions::{UNKNOWN_MAX, wait_until_current};
use millrace_operator::check::{CheckError, LeaseRef, wait_for_leader};
use millrace_operator::lease::{LeaderElector, LeaseTiming};
use serde_json::{Value, json};

use crate::reconcilers::support::apiserver::{ApiServer, Fault};

const TERMS: LeaseTiming = LeaseTiming { duration: Duration::from_secs(4) };

async fn asked(server: &ApiServer) -> Result<String, CheckError> {
    let place = LeaseRef { namespace: "ns".into(), name: "operator".into(), terms: TERMS };
    wait_for_leader(&server.client(), &[], &place).await
}

/// The schema of edge pools as an API server publishes it.
fn pool_schema() -> Value {
    let definitions = millrace_crds::all_definitions().unwrap();
    let pool = definitions.iter().find(|it| it.spec.names.kind == "EdgePool").unwrap();
    let pool = serde_json::to_value(pool).unwrap();
    let mut schema: Value = pool["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone();
    schema["x-kubernetes-group-version-kind"] =
        json!([{"group": "millrace.dev", "version": "v1alpha1", "kind": "EdgePool"}]);
    schema
}

fn without_collector(schema: &Value) -> Value {
    let mut older = schema.clone();
    older["properties"]["spec"]["properties"].as_object_mut().unwrap().remove("collector").unwrap();
    older
}

fn publish(server: &ApiServer, schema: &Value) {
    let schemas = json!({"dev.millrace.v1alpha1.EdgePool": schema});
    let page = json!({"metadata": {}, "components": {"schemas": schemas}});
    server.put("/openapi/v3/apis/millrace.dev/v1alpha1", page);
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
    let elector = LeaderElector::new(api, "operator".into(), "pod-a".into(), TERMS);
    let taken = elector.acquire().await;
    let held =
        tokio::spawn(async move { elector.hold_lease(taken, std::future::pending::<()>()).await });
    assert_eq!(asked(&server).await.unwrap(), "pod-a");

    held.abort();
    let silent = asked(&server).await.unwrap_err();
    assert_eq!(silent.to_string(), "pod-a holds the lease and does not renew it: see its log");
}

/// Scenario: the API server publishes a definition that lacks a field of this operator's; then the
/// whole of it. Guarantee: `helm test` fails and names definition, field and command; afterwards
/// only the missing leader is left.
#[tokio::test(start_paused = true)]
async fn definitions_older_than_the_operator_are_named() {
    let server = ApiServer::default();
    let schema = pool_schema();
    let publish = |schema: &Value| publish(&server, schema);
    publish(&without_collector(&schema));
    let outdated = asked(&server).await.unwrap_err();
    assert!(matches!(outdated, CheckError::Outdated(_)), "{outdated}");
    let text = outdated.to_string();
    for part in ["edgepools.millrace.dev", "spec.collector", "helm upgrade --install millrace-crds"]
    {
        assert!(text.contains(part), "{text}");
    }
    publish(&schema);
    let nobody = asked(&server).await.unwrap_err();
    assert!(matches!(nobody, CheckError::Free { .. }), "{nobody}");
}

/// Scenario: definitions are outdated, and the API server refuses the first comparisons: it is
/// overloaded, restarts, or refuses for good. Guarantee: the operator compares again and waits for
/// newer definitions, but no longer than a minute for an API server that never answers; `helm test`
/// fails then.
#[tokio::test(start_paused = true)]
async fn definitions_are_compared_again_after_a_temporary_failure() {
    let fails = |code: u16, mut times: usize| -> Option<Fault> {
        Some(Box::new(move |_, path| {
            let fails = path.starts_with("/openapi") && times > 0;
            times -= usize::from(fails);
            fails.then_some(code)
        }))
    };
    let waits = Duration::from_secs(30);
    for (code, times, expected) in [
        (429, 3, waits),
        (503, 3, waits),
        (503, usize::MAX, UNKNOWN_MAX),
        (403, usize::MAX, Duration::ZERO),
    ] {
        let server = ApiServer::default();
        publish(&server, &without_collector(&pool_schema()));
        server.set_fault(fails(code, times));
        let began = tokio::time::Instant::now();
        let client = server.client();
        let limit = if times == usize::MAX { UNKNOWN_MAX * 2 } else { waits };
        let _ = tokio::time::timeout(limit, wait_until_current(&client)).await;
        assert_eq!(began.elapsed(), expected, "{code} {times} times");
    }
    let server = ApiServer::default();
    server.set_fault(fails(503, usize::MAX));
    let unknown = asked(&server).await.unwrap_err();
    assert!(matches!(unknown, CheckError::UnknownDefinitions(_)), "{unknown}");
}
