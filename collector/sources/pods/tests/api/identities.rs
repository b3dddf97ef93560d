//! Tests of the watch of pods for clients' records.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use millrace_pipeline::budget::Budget;
use millrace_pipeline::telemetry::Telemetry;
use millrace_pods::{
    ApiEndpoint, IDENTITY_BYTES_MAX, MetadataRules, PodReaders, WatchedPods, start_pods,
};
use millrace_processing::enrich::{FindPod, PodKey, PodMetadataConfig, PodScope, UnlabeledReason};
use tempfile::TempDir;
use tokio::net::TcpListener;

use crate::api::server::{Answer, PATIENCE, Then, serve};

/// A budget of which the table may take its maximum.
const BUDGET_BYTES: u64 = 1 << 30;

struct Rig {
    _folder: TempDir,
    requests: Arc<Mutex<Vec<String>>>,
    telemetry: Arc<Telemetry>,
    budget: Budget,
    readers: PodReaders,
}

fn logs() -> MetadataRules {
    MetadataRules {
        node: "n1".into(),
        labels: vec!["*".into()],
        annotations: Vec::new(),
        follow_annotations: false,
    }
}

impl Rig {
    async fn new(answers: Vec<Answer>, scope: PodScope, logs: Option<MetadataRules>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let token = folder.path().join("token");
        std::fs::write(&token, "first\n").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let endpoint = ApiEndpoint { url, token_file: token.clone(), ca_file: None };
        let requests = Arc::new(Mutex::new(Vec::new()));
        tokio::spawn(serve(listener, answers.into(), Arc::clone(&requests), token));
        let budget = Budget::new(BUDGET_BYTES);
        let telemetry = Arc::new(Telemetry::new(budget.clone(), "0", "system").unwrap());
        let identities = Some(PodMetadataConfig { scope, ..PodMetadataConfig::default() });
        let watched = WatchedPods { node: "n1".into(), logs, identities };
        let readers = start_pods(endpoint, watched, &budget, &telemetry).unwrap();
        Self { _folder: folder, requests, telemetry, budget, readers }
    }

    /// Whether the pod at an address has a name.
    fn has(&self, address: &str, name: &str) -> Result<bool, UnlabeledReason> {
        let table = self.readers.identities.as_ref().unwrap();
        let found = table.find_pod(PodKey::Address(address.parse().unwrap()))?;
        Ok(found.bytes().windows(name.len()).any(|bytes| bytes == name.as_bytes()))
    }

    async fn until(&self, what: &str, holds: impl Fn() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !holds() {
            assert!(Instant::now() < deadline, "{what}: {:#?}", self.requests.lock().unwrap());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn request(&self, index: usize) -> String {
        self.requests.lock().unwrap()[index].clone()
    }
}

/// Returns an event of a complete pod, as the API server writes it.
fn event(kind: &str, name: &str, address: &str, node: &str, version: u32) -> String {
    let pod = serde_json::json!({"type": kind, "object": {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{name}"),
                     "resourceVersion": version.to_string(), "labels": {"app": name}},
        "spec": {"nodeName": node, "containers": [{"image": "cart:1", "env": [{"name": "x"}]}]},
        "status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
                   "conditions": [{"type": "Ready"}]}}});
    format!("{pod}\n")
}

fn bookmark(version: u32) -> String {
    format!(r#"{{"type":"BOOKMARK","object":{{"metadata":{{"resourceVersion":"{version}"}}}}}}"#)
        + "\n"
}

/// Scenario: a cluster-wide watch whose first list breaks off; the next one is complete; a pod is
/// deleted and its address used again. Guarantee: complete pods that have not ended are requested;
/// a list that broke off begins again from the start; pods are found by address, the newer one
/// after reuse; the table's memory is a part of the budget.
#[tokio::test]
async fn a_cluster_wide_watch_follows_addresses() {
    let broken = vec![event("ADDED", "a", "10.0.0.1", "n1", 900)];
    let complete = vec![
        event("ADDED", "a", "10.0.0.1", "n1", 900),
        event("ADDED", "b", "10.0.0.2", "n2", 7),
        bookmark(901),
        event("DELETED", "b", "10.0.0.2", "n2", 902),
        event("ADDED", "c", "10.0.0.2", "n2", 903),
    ];
    let answers = vec![
        Answer(200, broken, Then::Break),
        Answer(200, complete, Then::End),
        Answer(200, vec![], Then::Hold),
    ];
    let rig = Rig::new(answers, PodScope::Cluster, None).await;
    assert_eq!(rig.has("10.0.0.3", ""), Err(UnlabeledReason::NotSynced));
    rig.until("the third request", || rig.requests.lock().unwrap().len() == 3).await;
    assert_eq!(rig.has("10.0.0.2", "uid-c"), Ok(true));
    assert_eq!(rig.has("10.0.0.1", "uid-a"), Ok(true));
    assert_eq!(rig.has("10.0.0.3", ""), Err(UnlabeledReason::UnknownPod));
    for (index, version) in [0, 0, 903].into_iter().enumerate() {
        let request = rig.request(index);
        assert!(request.contains(&format!("resourceVersion={version}&")), "{request}");
        assert!(request.contains("fieldSelector=status.phase%21%3DSucceeded"), "{request}");
        assert!(!request.contains("PartialObjectMetadata"), "{request}");
    }
    assert_eq!(rig.budget.used_bytes(), IDENTITY_BYTES_MAX);
    let metrics = rig.telemetry.render().unwrap();
    assert!(metrics.contains("millrace_pods_known 3"), "{metrics}");
}

/// Scenario: one watch of this node's pods, for log files and for clients' records; then one of the
/// cluster for both. Guarantee: one request serves both tables; log files' pods are this node's.
#[tokio::test]
async fn one_watch_serves_log_files_and_clients() {
    let pods =
        || vec![event("ADDED", "b", "10.0.0.2", "n2", 6), event("ADDED", "a", "10.0.0.1", "n1", 5)];
    for (scope, selector) in [
        (PodScope::Node, "&fieldSelector=spec.nodeName%3Dn1 "),
        (PodScope::Cluster, "resourceVersion=0& "),
    ] {
        let rig = Rig::new(vec![Answer(200, pods(), Then::Hold)], scope, Some(logs())).await;
        rig.until("the pod", || rig.has("10.0.0.1", "uid-a") == Ok(true)).await;
        assert!(rig.request(0).contains(selector), "{}", rig.request(0));
        let files = rig.readers.logs.as_ref().unwrap();
        let pod = files.find_pod("uid-a", "shop", "a").unwrap();
        assert!(pod.attributes.contains(&("k8s.pod.label.app".into(), "a".into())));
        assert_eq!(files.find_pod("uid-b", "shop", "b"), None);
        assert_eq!(rig.has("10.0.0.2", "uid-b"), Ok(true));
        assert_eq!(rig.requests.lock().unwrap().len(), 1);
    }
}
