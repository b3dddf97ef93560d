//! Tests of the watch of namespaces.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use millrace_config::LabelSelector;
use millrace_pipeline::budget::Budget;
use millrace_pipeline::pods::Namespaces;
use millrace_pipeline::telemetry::Telemetry;
use millrace_pods::{ApiEndpoint, NamespaceWatchMetrics, start_namespaces};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;

use crate::api::server::{Answer, PATIENCE, Then, serve};

struct Rig {
    requests: Arc<Mutex<Vec<String>>>,
    telemetry: Arc<Telemetry>,
    namespaces: Arc<Namespaces>,
}

fn record(folder: &Path) -> PathBuf {
    folder.join("positions/namespaces.json")
}

impl Rig {
    /// Starts a watch in a folder, which may have the record of an earlier one.
    async fn new(folder: &TempDir, team: &str, answers: Vec<Answer>) -> Self {
        let token_file = folder.path().join("token");
        std::fs::write(&token_file, "first\n").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let endpoint = ApiEndpoint { url, token_file: token_file.clone(), ca_file: None };
        let requests = Arc::new(Mutex::new(Vec::new()));
        tokio::spawn(serve(listener, answers.into(), Arc::clone(&requests), token_file));
        let telemetry = Arc::new(Telemetry::new(Budget::new(1 << 20), "0", "system").unwrap());
        let match_labels = [("team".to_owned(), team.to_owned())].into();
        let selector = LabelSelector { match_labels, ..LabelSelector::default() };
        let (record, metrics) =
            (record(folder.path()), NamespaceWatchMetrics::register(&telemetry).unwrap());
        let namespaces =
            start_namespaces(endpoint, &selector, record, &telemetry, metrics).unwrap();
        Self { requests, telemetry, namespaces }
    }

    async fn until(&self, what: &str, holds: impl Fn() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !holds() {
            let requests = self.requests.lock().unwrap();
            assert!(Instant::now() < deadline, "{what}; requests: {requests:#?}");
            drop(requests);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn until_chosen(&self, expected: &[&str]) {
        let expected: HashSet<String> = expected.iter().map(|name| (*name).to_owned()).collect();
        let is_told = || self.namespaces.chosen().is_some_and(|chosen| *chosen == expected);
        self.until(&format!("{expected:?} are chosen"), is_told).await;
    }

    async fn until_requests(&self, number: usize) {
        self.until("requests", || self.requests.lock().unwrap().len() >= number).await;
    }

    fn request(&self, index: usize) -> String {
        self.requests.lock().unwrap()[index].clone()
    }

    fn metric(&self, name: &str) -> String {
        let text = self.telemetry.render().unwrap();
        let line = text.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap();
        line.rsplit(' ').next().unwrap().to_owned()
    }
}

fn object(name: &str, version: u32) -> Value {
    json!({"kind": "PartialObjectMetadata",
        "metadata": {"name": name, "resourceVersion": version.to_string()}})
}

fn event(kind: &str, name: &str, version: u32) -> String {
    format!("{}\n", json!({"type": kind, "object": object(name, version)}))
}

fn page(names: &[&str], version: u32, next: &str) -> Answer {
    let items: Vec<Value> = names.iter().map(|name| object(name, 1)).collect();
    let metadata = json!({"resourceVersion": version.to_string(), "continue": next});
    let page = json!({"kind": "PartialObjectMetadataList", "metadata": metadata, "items": items});
    Answer(200, vec![page.to_string()], Then::End)
}

/// Scenario: namespaces come in two pages; one is added, one is removed; the server ends the watch.
/// Guarantee: all are published at first and after each change; the API server gets the selector
/// and sends only metadata, and the next watch continues where the last one ended.
#[tokio::test]
async fn namespaces_are_told_as_the_api_server_selects_them() {
    let folder = tempfile::tempdir().unwrap();
    let first = vec![event("ADDED", "c", 11), event("DELETED", "a", 12)];
    let second = vec![event("MODIFIED", "b", 13), event("ADDED", "d", 14)];
    let rig = Rig::new(
        &folder,
        "shop",
        vec![
            page(&["a"], 10, "more"),
            page(&["b"], 10, ""),
            Answer(200, first, Then::End),
            Answer(200, second, Then::Hold),
        ],
    )
    .await;
    rig.until_chosen(&["b", "c", "d"]).await;
    assert_eq!(rig.metric("millrace_namespaces_selected"), "3");
    let parts = ["/api/v1/namespaces?", "resourceVersion=0", "labelSelector=team%3Dshop"];
    for part in parts.into_iter().chain(["as=PartialObjectMetadataList"]) {
        assert!(rig.request(0).contains(part), "{}", rig.request(0));
    }
    assert!(rig.request(1).contains("continue=more"), "{}", rig.request(1));
    assert!(!rig.request(1).contains("resourceVersion"), "{}", rig.request(1));
    for (index, version) in [(2, "resourceVersion=10&"), (3, "resourceVersion=12&")] {
        let request = rig.request(index);
        assert!(request.contains(version) && request.contains("watch=true"), "{request}");
        assert!(request.contains("labelSelector=team%3Dshop"), "{request}");
    }
}

/// Scenario: the API server is away at a start, with a record, without one, and with one of another
/// selector; then it answers. Guarantee: only this selector's record applies, immediately; without
/// it nothing is published until the answer, which is then published.
#[tokio::test]
async fn a_start_without_the_api_server_goes_by_the_record() {
    let folder = tempfile::tempdir().unwrap();
    let away = || Answer(503, vec![], Then::End);
    let there = || vec![page(&["a"], 10, ""), Answer(200, vec![], Then::Hold)];
    let mut answers = vec![away()];
    answers.extend(there());
    let rig = Rig::new(&folder, "shop", answers).await;
    rig.until_requests(1).await;
    assert_eq!(rig.namespaces.chosen(), None);
    rig.until_chosen(&["a"]).await;
    rig.until("a record", || record(folder.path()).exists()).await;

    let rig = Rig::new(&folder, "shop", vec![away(), page(&["b"], 20, "")]).await;
    rig.until_chosen(&["a"]).await;
    rig.until_chosen(&["b"]).await;

    let rig = Rig::new(&folder, "bank", vec![away(), away()]).await;
    rig.until_requests(2).await;
    assert_eq!(rig.namespaces.chosen(), None);
}

/// Scenario: the right is missing, an event is unreadable, and the version expires. Guarantee: the
/// known namespaces stay, each failure is counted, and all are listed again if the watch can't
/// continue.
#[tokio::test]
async fn what_is_known_stands_whatever_goes_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::new(
        &folder,
        "shop",
        vec![
            page(&["a"], 10, ""),
            Answer(403, vec![r#"{"kind":"Status","message":"no"}"#.into()], Then::End),
            Answer(200, vec!["{]\n".into()], Then::End),
            page(&["a", "b"], 20, ""),
            Answer(410, vec![], Then::End),
            page(&["b"], 30, ""),
            Answer(200, vec![], Then::Hold),
        ],
    )
    .await;
    rig.until_chosen(&["a"]).await;
    rig.until_requests(3).await;
    assert!(rig.namespaces.chosen().is_some_and(|chosen| chosen.contains("a")));
    rig.until_chosen(&["b"]).await;
    rig.until_requests(7).await;
    assert_eq!(rig.metric("millrace_namespaces_watch_failed_total"), "3");
    assert_eq!(rig.metric("millrace_namespaces_watch_forbidden"), "0", "it has the right again");
}

/// Scenario: the right is missing, then the API server is away. Guarantee: the metric that the
/// operator reads stays set, since the right was not granted.
#[tokio::test]
async fn a_missing_right_is_shown_until_the_server_tells() {
    let folder = tempfile::tempdir().unwrap();
    let refused = || Answer(403, vec![r#"{"kind":"Status","message":"no"}"#.into()], Then::End);
    let away = Answer(503, vec![], Then::End);
    let rig = Rig::new(&folder, "shop", vec![refused(), away, refused()]).await;
    let is_refused = || rig.metric("millrace_namespaces_watch_forbidden") == "1";
    rig.until("it is refused", is_refused).await;
    rig.until_requests(3).await;
    assert!(is_refused());
}

/// Scenario: the record is damaged, and the API server is away. Guarantee: the record is ignored.
#[tokio::test]
async fn a_damaged_record_tells_nothing() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("positions")).unwrap();
    std::fs::write(record(folder.path()), r#"{"selector":"team=shop","names"#).unwrap();
    let answers = vec![Answer(503, vec![], Then::End), page(&["b"], 20, "")];
    let rig = Rig::new(&folder, "shop", answers).await;
    rig.until_chosen(&["b"]).await;
    assert_eq!(rig.metric("millrace_namespaces_selected"), "1");
}
