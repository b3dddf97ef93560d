//! Tests of the watch of namespaces' labels, for clients' records.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use millrace_pipeline::budget::Budget;
use millrace_pipeline::telemetry::Telemetry;
use millrace_pods::{
    ApiEndpoint, IdentityTable, NamespaceWatchMetrics, WatchedPods, start_namespace_labels,
    start_pods,
};
use millrace_processing::enrich::{FindPod, PodKey, PodMetadataConfig};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;

use crate::api::server::{Answer, PATIENCE, Then, serve};

type Requests = Arc<Mutex<Vec<String>>>;

/// Starts a server with these responses.
async fn server(folder: &TempDir, answers: Vec<Answer>) -> (ApiEndpoint, Requests) {
    let token_file = folder.path().join("token");
    std::fs::write(&token_file, "first").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let requests = Requests::default();
    tokio::spawn(serve(listener, answers.into(), Arc::clone(&requests), token_file.clone()));
    (ApiEndpoint { url, token_file, ca_file: None }, requests)
}

fn namespace(name: &str, team: &str, version: u32) -> Value {
    json!({"metadata": {"name": name, "resourceVersion": version.to_string(),
                        "labels": {"team": team, "other": "unselected"}}})
}

fn event(kind: &str, object: &Value) -> String {
    format!("{}\n", json!({"type": kind, "object": object}))
}

fn has(table: &IdentityTable, uid: &str, text: &str) -> bool {
    let found = table.find_pod(PodKey::Uid(uid));
    found.is_ok_and(|pod| pod.bytes().windows(text.len()).any(|bytes| bytes == text.as_bytes()))
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Scenario: pods of two namespaces; the right to namespaces is missing, then they are listed, one
/// changes its label, and one is deleted. Guarantee: pods get the selected labels of their own
/// namespace, also those that were known before; a changed label replaces the former; a missing
/// right is counted, and the pods' own metadata doesn't wait.
#[tokio::test]
async fn pods_get_the_labels_of_their_namespace() {
    let folder = tempfile::tempdir().unwrap();
    let pods = ["shop", "pay"].map(|namespace| {
        let metadata = json!({"name": "p", "namespace": namespace, "resourceVersion": "3",
                              "uid": format!("uid-{namespace}")});
        event("ADDED", &json!({"metadata": metadata, "status": {"phase": "Running"}}))
    });
    let (pods, _) = server(&folder, vec![Answer(200, pods.into(), Then::Hold)]).await;
    let budget = Budget::new(1 << 30);
    let telemetry = Telemetry::new(budget.clone(), "0", "system").unwrap();
    let identities = Some(PodMetadataConfig::default());
    let watched = WatchedPods { node: String::new(), logs: None, identities };
    let table = start_pods(pods, watched, &budget, &telemetry).unwrap().identities.unwrap();
    until("the pods", || has(&table, "uid-shop", "k8s.pod.uid") && has(&table, "uid-pay", "p"))
        .await;

    let list = json!({"metadata": {"resourceVersion": "7"},
                      "items": [namespace("shop", "cart", 5), namespace("pay", "money", 6)]});
    let changes = vec![
        event("MODIFIED", &namespace("shop", "checkout", 8)),
        event("DELETED", &namespace("pay", "money", 9)),
    ];
    let denied = json!({"kind": "Status", "message": "no"});
    let answers = vec![
        Answer(403, vec![denied.to_string()], Then::End),
        Answer(200, vec![list.to_string()], Then::End),
        Answer(200, changes, Then::Hold),
    ];
    let (endpoint, requests) = server(&folder, answers).await;
    let metrics = NamespaceWatchMetrics::register(&telemetry).unwrap();
    start_namespace_labels(endpoint, vec!["team".into()], Arc::clone(&table), metrics);
    until("the changed label", || has(&table, "uid-shop", "checkout")).await;
    assert!(has(&table, "uid-shop", "k8s.namespace.label.team"));
    assert!(!has(&table, "uid-shop", "cart") && !has(&table, "uid-shop", "unselected"));
    assert!(has(&table, "uid-pay", "money") && !has(&table, "uid-pay", "checkout"));
    let text = telemetry.render().unwrap();
    assert!(text.contains("millrace_namespaces_watch_failed_total 1"), "{text}");
    assert!(text.contains("millrace_namespaces_watch_forbidden 0"), "{text}");
    let request = requests.lock().unwrap()[1].clone();
    assert!(
        request.contains("/api/v1/namespaces?") && request.contains("PartialObject"),
        "{request}"
    );
}
