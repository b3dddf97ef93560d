//! Tests of `rollout`: its output, and that it writes only the field that the operator honours.

use serde_json::json;

use crate::plugin::support::{Server, golden};
use crate::plugin::writes::healthy;

/// A gateway rollout under analysis, and an edge change that was refused.
fn changing() -> Server {
    let server = healthy();
    let unit = |image: &str, map: &str| {
        json!({"image": format!("registry.example/millrace/collector:{image}"),
               "allocator": "system", "configMap": map})
    };
    server.edit("GatewayPool", "prod", |pool| {
        pool["status"]["rollout"] = json!({
            "stage": "Analyzing", "since": "2026-11-26T11:58:00Z", "reason": "RolloutAnalyzing",
            "message": "1 new pod is compared with 1 other for 120 s", "digest": "d", "pods": 1,
            "attempts": 1,
            "before": unit("0.1.0-system", "prod-gateway-aaaaaaaaaa"),
            "after": unit("0.2.0-system", "prod-gateway-bbbbbbbbbb"),
            "report": {
                "verdict": "TooFewRecords",
                "before": {"pods": 1, "records": 120_000, "recordsPerCpuSecond": 240_000,
                           "cpuMillicores": 500, "memoryBytes": 90_000_000},
                "after": {"pods": 1, "records": 4_000, "cpuMillicores": 20, "memoryBytes": 80_000_000},
            },
        });
    });
    server.edit("EdgePool", "prod-clients", |pool| {
        pool["status"]["pendingChange"] = json!({
            "stage": "Rejected", "since": "2026-11-26T11:00:00Z", "reason": "ConfigurationRejected",
            "message": "receivers.otlp.grpc: no pod was changed", "digest": "e",
            "image": "registry.example/millrace/collector:0.2.0-system",
            "configMap": "prod-clients-edge-cccccccccc",
        });
    });
    server
}

fn action(server: &Server, kind: &str, name: &str) -> Option<String> {
    server.get(kind, name)["spec"]["rolloutAction"].as_str().map(str::to_owned)
}

/// Scenario: a rollout under analysis and an edge change that was refused. Guarantee: stage, units
/// and the figures of the analysis; the exit code shows that it isn't settled.
#[tokio::test(start_paused = true)]
async fn each_pools_change_is_shown() {
    let answer = changing().run(&["rollout", "status"]).await.unwrap();
    golden("rollout-status.txt", &answer.text);
    assert!(!answer.healthy);
    assert_eq!(answer.json["pools"][0]["report"]["verdict"], "TooFewRecords");
    assert!(healthy().run(&["rollout", "status"]).await.unwrap().healthy);
}

/// Scenario: pause all pools, resume one, undo the present change. Guarantee: exactly the actions
/// that the operator knows are written, on the selected pools, and nothing else.
#[tokio::test(start_paused = true)]
async fn the_action_follows_the_command() {
    let server = changing();
    server.run(&["rollout", "pause"]).await.unwrap();
    assert_eq!(action(&server, "GatewayPool", "prod").as_deref(), Some("Pause"));
    assert_eq!(action(&server, "EdgePool", "prod-clients").as_deref(), Some("Pause"));
    server.run(&["rollout", "resume", "--pool", "prod-clients"]).await.unwrap();
    assert_eq!(action(&server, "EdgePool", "prod-clients"), None);
    let answer = server.run(&["rollout", "undo"]).await.unwrap();
    assert_eq!(action(&server, "GatewayPool", "prod").as_deref(), Some("Abort"));
    // A refused change changed no pod: there is nothing to roll back.
    assert_eq!(action(&server, "EdgePool", "prod-clients"), None);
    golden("rollout-undo.txt", &answer.text);
    let patched = server.asked().into_iter().filter(|(method, _)| method == http::Method::PATCH);
    assert!(patched.map(|(_, path)| path).all(|path| path.contains("pools/")));
}

/// Scenario: undo and resume without a rollout or a pause; an unknown pool; no right to patch.
/// Guarantee: nothing is written, and the error has the advice.
#[tokio::test(start_paused = true)]
async fn what_makes_no_sense_is_refused() {
    let server = healthy();
    for (line, part) in [
        (&["rollout", "undo"][..], "write the earlier image or settings into the spec"),
        (&["rollout", "resume"][..], "no rollout is paused"),
        (&["rollout", "pause", "--pool", "x"][..], "it has prod, prod-clients"),
    ] {
        let error = server.run(line).await.unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    assert!(server.asked().iter().all(|(method, _)| method == http::Method::GET));
    server.forbid(http::Method::PATCH, "/gatewaypools");
    let error = server.run(&["rollout", "pause"]).await.unwrap_err().to_string();
    assert!(error.contains("no right to patch gatewaypools in namespace obs"), "{error}");
}
