//! Tests of the watch of a node's pods.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use millrace_pipeline::budget::Budget;
use millrace_pipeline::pods::PodLookup;
use millrace_pipeline::telemetry::Telemetry;
use millrace_pods::{ApiEndpoint, EVENT_BYTES_MAX, MetadataRules, WatchedPods, start_pods};
use tempfile::TempDir;
use tokio::net::TcpListener;

use crate::api::server::{Answer, PATIENCE, Then, serve};

struct Rig {
    folder: TempDir,
    requests: Arc<Mutex<Vec<String>>>,
    telemetry: Arc<Telemetry>,
    pods: Arc<dyn PodLookup>,
}

impl Rig {
    /// Starts a watch of a server with these responses, which refuses connections after them.
    async fn new(answers: Vec<Answer>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("token"), "first\n").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = ApiEndpoint {
            url: format!("http://{}", listener.local_addr().unwrap()),
            token_file: folder.path().join("token"),
            ca_file: None,
        };
        let requests = Arc::new(Mutex::new(Vec::new()));
        tokio::spawn(serve(listener, answers.into(), Arc::clone(&requests), token(&folder)));
        let telemetry = Arc::new(Telemetry::new(Budget::new(1 << 20), "0", "system").unwrap());
        let rules = MetadataRules {
            node: "n1".into(),
            labels: vec!["*".into()],
            annotations: Vec::new(),
            follow_annotations: true,
        };
        let watched = WatchedPods { node: "n1".into(), logs: Some(rules), identities: None };
        let readers = start_pods(endpoint, watched, &Budget::new(1 << 20), &telemetry).unwrap();
        let pods = readers.logs.unwrap();
        Self { folder, requests, telemetry, pods }
    }

    fn label(&self, uid: &str) -> Option<String> {
        let pod = self.pods.find_pod(uid, "shop", "p")?;
        let name = "k8s.pod.label.app";
        pod.attributes.iter().find(|one| one.0 == name).map(|one| one.1.clone())
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

    async fn until_label(&self, uid: &str, label: &str) {
        self.until(&format!("{uid} is {label}"), || self.label(uid).as_deref() == Some(label))
            .await;
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

fn token(folder: &TempDir) -> PathBuf {
    folder.path().join("token")
}

/// Returns an event of a pod, as the API server writes it.
fn event(kind: &str, uid: &str, label: &str, version: u32) -> String {
    format!(
        r#"{{"type":"{kind}","object":{{"kind":"PartialObjectMetadata","metadata":{{"name":"p",
        "namespace":"shop","uid":"{uid}","resourceVersion":"{version}","labels":{{"app":"{label}"}},
        "managedFields":[{{"manager":"x"}}]}}}}}}"#
    )
    .replace('\n', "")
        + "\n"
}

fn mark(version: u32) -> String {
    let metadata = format!(r#"{{"metadata":{{"resourceVersion":"{version}"}}}}"#);
    format!(r#"{{"type":"BOOKMARK","object":{metadata}}}"#) + "\n"
}

fn failure(code: u16) -> String {
    format!(r#"{{"type":"ERROR","object":{{"kind":"Status","code":{code},"message":"m"}}}}"#) + "\n"
}

/// Scenario: pods exist, one is added, changed and deleted; the server ends the watch. Guarantee:
/// their current state is known; the next watch continues from the last version with the current
/// token, and requests only metadata of one node's pods.
#[tokio::test]
async fn pods_are_known_and_the_watch_goes_on_where_it_was() {
    let first = vec![
        event("ADDED", "1", "a", 5),
        event("ADDED", "2", "b", 6),
        event("MODIFIED", "1", "c", 7),
        event("DELETED", "2", "b", 8),
        mark(20),
    ];
    let second = vec![event("ADDED", "3", "d", 21)];
    let rig = Rig::new(vec![Answer(200, first, Then::End), Answer(200, second, Then::Hold)]).await;
    rig.until_label("3", "d").await;
    assert_eq!((rig.label("1"), rig.label("2")), (Some("c".into()), Some("b".into())));
    assert_eq!((rig.label("4"), rig.metric("millrace_pods_known")), (None, "3".into()));
    let (one, two) = (rig.request(0), rig.request(1));
    for part in ["fieldSelector=spec.nodeName%3Dn1", "as=PartialObjectMetadata", "watch=true"] {
        assert!(one.contains(part), "{one}");
    }
    assert!(one.contains("resourceVersion=0&") && one.contains("Bearer first"), "{one}");
    assert!(two.contains("resourceVersion=20&") && two.contains("Bearer second"), "{two}");
    drop(rig.folder);
}

/// Scenario: after its first events the server is silent, and the connection stays open, as after a
/// node lost its network. Guarantee: after 90 s, with three bookmarks missed, the watch restarts
/// from the last version; this counts as no failure.
#[tokio::test]
async fn a_watch_that_is_silent_begins_again() {
    let first = vec![event("ADDED", "1", "a", 5), mark(20)];
    let second = vec![event("MODIFIED", "1", "b", 21)];
    let rig = Rig::new(vec![Answer(200, first, Then::Hold), Answer(200, second, Then::Hold)]).await;
    rig.until_label("1", "a").await;
    // The bookmark may still be in flight.
    tokio::time::sleep(Duration::from_millis(200)).await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(80)).await;
    assert_eq!(rig.requests.lock().unwrap().len(), 1);
    tokio::time::advance(Duration::from_secs(11)).await;
    tokio::time::resume();
    rig.until_label("1", "b").await;
    assert!(rig.request(1).contains("resourceVersion=20&"), "{}", rig.request(1));
    assert_eq!(rig.metric("millrace_pods_watch_failed_total"), "0");
}

/// Scenario: the version has expired, by a response and within one. Guarantee: the watch restarts,
/// and known pods stay until they are listed again.
#[tokio::test]
async fn a_watch_that_is_too_old_begins_anew() {
    let first = vec![event("ADDED", "1", "a", 5), event("ADDED", "2", "b", 6), failure(410)];
    let rig = Rig::new(vec![
        Answer(200, first, Then::End),
        Answer(200, vec![event("ADDED", "1", "c", 29), mark(30)], Then::End),
        Answer(410, vec![], Then::End),
        Answer(200, vec![event("ADDED", "1", "d", 40)], Then::Hold),
    ])
    .await;
    rig.until_label("1", "d").await;
    assert_eq!(rig.label("2"), Some("b".into()));
    let versions = [0, 0, 30, 0].map(|version| format!("resourceVersion={version}&"));
    for (index, version) in versions.iter().enumerate() {
        assert!(rig.request(index).contains(version), "{index}: {}", rig.request(index));
    }
}

/// Scenario: the server breaks off its first list, refuses for lack of rights, fails, and ends at
/// once; then it recovers. Guarantee: known pods stay, each failure is retried and counted; the list
/// begins again, since the rest of it may have any version, and changes arrive in the end.
#[tokio::test]
async fn a_server_in_trouble_is_asked_again_and_nothing_is_forgotten() {
    let rig = Rig::new(vec![
        Answer(200, vec![event("ADDED", "1", "a", 5)], Then::Break),
        Answer(403, vec![r#"{"kind":"Status","message":"no"}"#.into()], Then::End),
        Answer(500, vec!["<html>".into()], Then::End),
        Answer(200, vec![], Then::End),
        Answer(200, vec![event("ADDED", "1", "b", 9)], Then::Hold),
    ])
    .await;
    rig.until_label("1", "a").await;
    rig.until_requests(4).await;
    assert_eq!(rig.label("1"), Some("a".into()));
    rig.until_label("1", "b").await;
    assert_eq!(rig.metric("millrace_pods_watch_failed_total"), "3");
    assert_eq!(rig.metric("millrace_pods_watch_forbidden"), "0");
    assert!(rig.request(4).contains("resourceVersion=0&"));
}

/// Scenario: the right is missing. Guarantee: the metric that the operator reads is set.
#[tokio::test]
async fn a_missing_right_is_shown() {
    let refused = || Answer(403, vec![r#"{"kind":"Status","message":"no"}"#.into()], Then::End);
    let rig = Rig::new(vec![refused(), refused()]).await;
    rig.until_requests(2).await;
    assert_eq!(rig.metric("millrace_pods_watch_forbidden"), "1");
}

/// Scenario: an event comes in small pieces, one is too long, and one is no JSON, before a good
/// one. Guarantee: the first and the last are read; the others are skipped and counted.
#[tokio::test]
async fn long_and_odd_events_are_passed_over() {
    let (one, two) = (event("ADDED", "1", "a", 5), event("ADDED", "2", "b", 6));
    let mut parts: Vec<String> = one.chars().map(String::from).collect();
    parts.extend(["x".repeat(EVENT_BYTES_MAX), "x\n".into(), "{]\n".into(), "\n".into(), two]);
    let rig = Rig::new(vec![Answer(200, parts, Then::Hold)]).await;
    rig.until_label("2", "b").await;
    assert_eq!(rig.label("1"), Some("a".into()));
    assert_eq!(rig.metric("millrace_pods_watch_failed_total"), "2");
}
