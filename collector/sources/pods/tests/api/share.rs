//! Tests of the watch of a pod's share.

use std::sync::{Arc, Mutex};

use millrace_pipeline::budget::Budget;
use millrace_pipeline::share::{ShareUpdate, Shares};
use millrace_pipeline::telemetry::Telemetry;
use millrace_pods::{ApiEndpoint, ShareOwner, start_share};
use millrace_share_documents::{Share, TargetEntry, TargetId, Weight, split_share};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::time::timeout;

use crate::api::server::{Answer, PATIENCE, Then, serve};

struct Rig {
    _folder: TempDir,
    requests: Arc<Mutex<Vec<String>>>,
    telemetry: Arc<Telemetry>,
    shares: Shares,
}

impl Rig {
    async fn new(answers: Vec<Answer>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let token_file = folder.path().join("token");
        std::fs::write(&token_file, "first\n").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let endpoint = ApiEndpoint { url, token_file: token_file.clone(), ca_file: None };
        let requests = Arc::new(Mutex::new(Vec::new()));
        tokio::spawn(serve(listener, answers.into(), Arc::clone(&requests), token_file));
        let telemetry = Arc::new(Telemetry::new(Budget::new(1 << 20), "0", "system").unwrap());
        let whose = ShareOwner { namespace: "shop".into(), uid: "u-1".into() };
        let shares = start_share(endpoint, &whose, &telemetry).unwrap();
        Self { _folder: folder, requests, telemetry, shares }
    }

    async fn until(&mut self, what: &str, holds: impl Fn(&ShareUpdate) -> bool) -> ShareUpdate {
        let waited = timeout(PATIENCE, self.shares.wait_for(holds)).await;
        let requests = self.requests.lock().unwrap();
        waited.unwrap_or_else(|_| panic!("{what}; requests: {requests:#?}")).unwrap().clone()
    }

    /// Waits for a version without a fault.
    async fn until_version(&mut self, version: u64) -> Arc<Share> {
        let is_told =
            |told: &ShareUpdate| told.fault.is_empty() && self::version(told) == Some(version);
        self.until(&format!("version {version}"), is_told).await.share.unwrap()
    }

    fn metric(&self, name: &str) -> String {
        let text = self.telemetry.render().unwrap();
        let line = text.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap();
        line.rsplit(' ').next().unwrap().to_owned()
    }
}

fn version(told: &ShareUpdate) -> Option<u64> {
    told.share.as_ref().map(|share| share.version)
}

/// Returns a share with this many targets.
fn share(version: u64, targets: u128) -> Share {
    let entry = |number| TargetEntry {
        job: "node".into(),
        address: format!("10.0.0.{number}:9100"),
        labels: [("text".to_owned(), "x".repeat(1000))].into(),
        weight: Weight::UNKNOWN,
    };
    let targets = (0..targets).map(|number| (TargetId(number), entry(number))).collect();
    Share { version, targets, ..Share::default() }
}

fn parts(version: u64, targets: u128) -> Vec<String> {
    split_share(&share(version, targets)).unwrap()
}

fn object(name: &str, text: &str, version: u32) -> Value {
    json!({
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "shop", "resourceVersion": version.to_string()},
        "data": {"share": text},
    })
}

/// Returns a page of the list, with the token of the next one.
fn page(item: Option<Value>, version: u32, next: &str) -> Answer {
    let items: Vec<Value> = item.into_iter().collect();
    let metadata = json!({"resourceVersion": version.to_string(), "continue": next});
    let list = json!({"kind": "ConfigMapList", "metadata": metadata, "items": items});
    Answer(200, vec![list.to_string()], Then::End)
}

fn event(kind: &str, object: &Value) -> String {
    json!({"type": kind, "object": object}).to_string() + "\n"
}

fn watch(events: Vec<String>, then: Then) -> Answer {
    Answer(200, events, then)
}

/// Scenario: a document of several parts exists at the start; then it shrinks to one part, whose
/// object is written before the others are deleted. Guarantee: it is listed page by page in its
/// last written state, then watched from there; each version is published once it is complete.
#[tokio::test]
async fn a_share_is_read_whole_and_then_watched() {
    let old = parts(7, 1000);
    assert_eq!(old.len(), 2);
    let objects = ["a", "b"].map(|name| {
        let text = if name == "a" { &old[0] } else { &old[1] };
        object(name, text, 5)
    });
    let new = object("a", &parts(8, 1)[0], 12);
    let mut rig = Rig::new(vec![
        page(Some(objects[0].clone()), 10, "n&1"),
        page(Some(objects[1].clone()), 11, ""),
        watch(vec![event("MODIFIED", &new), event("DELETED", &objects[1])], Then::Hold),
    ])
    .await;
    assert_eq!(rig.until_version(8).await.as_ref(), &share(8, 1));
    let requests = rig.requests.lock().unwrap().clone();
    for part in [
        "GET /api/v1/namespaces/shop/configmaps?limit=1&",
        "labelSelector=millrace.dev%2Fscrape-share%3Du-1",
        "Bearer first",
    ] {
        assert!(requests[0].contains(part), "{}", requests[0]);
    }
    assert!(!requests[0].contains("resourceVersion"), "{}", requests[0]);
    assert!(requests[1].contains("continue=n%261"), "{}", requests[1]);
    assert!(requests[2].contains("watch=true") && requests[2].contains("resourceVersion=11&"));
    assert_eq!(rig.metric("millrace_scrape_assignment_version"), "8");
}

/// Scenario: no document exists at the start; then a version arrives part by part. Guarantee:
/// nothing is published until it is complete.
#[tokio::test]
async fn half_a_version_is_not_told() {
    let [one, two] = <[String; 2]>::try_from(parts(1, 1000)).unwrap();
    let mut rig = Rig::new(vec![
        page(None, 3, ""),
        watch(vec![event("ADDED", &object("a", &one, 4))], Then::End),
        watch(vec![event("ADDED", &object("b", &two, 5))], Then::Hold),
    ])
    .await;
    let half = rig.until("half", |told| told.fault.contains("1 of 2 parts of version 1")).await;
    assert!(half.share.is_none());
    assert_eq!(rig.until_version(1).await.targets.len(), 1000);
    assert!(rig.requests.lock().unwrap()[2].contains("resourceVersion=4&"));
}

/// Scenario: after version 5 follow an invalid part, an incomplete version, a lower version, an
/// object without a part, and no object. Guarantee: version 5 stays in use, with the fault.
#[tokio::test]
async fn the_last_version_stands_whatever_comes() {
    let write = |kind, text: &str| event(kind, &object("a", text, 3));
    let mut bare = object("a", "", 3);
    bare["data"] = json!({});
    let faults = [
        (write("MODIFIED", "{\"form\":"), "part 0: EOF while parsing"),
        (write("MODIFIED", &parts(6, 1000)[0]), "1 of 2 parts of version 6: read again"),
        (write("MODIFIED", &parts(4, 2)[0]), "version 4 is lower than version 5, which"),
        (event("MODIFIED", &bare), "part 0: EOF while parsing"),
        (write("DELETED", ""), "its objects are gone: version 5 stays in use"),
    ];
    for (bad, said) in faults {
        let first = page(Some(object("a", &parts(5, 1)[0], 1)), 2, "");
        let mut rig = Rig::new(vec![first, watch(vec![bad], Then::Hold)]).await;
        let told = rig.until(said, |told| told.fault.contains(said)).await;
        assert_eq!(version(&told), Some(5));
        assert_eq!(rig.metric("millrace_scrape_assignment_failing"), "1");
    }
}

/// Scenario: the watch is refused, broken off, and expires; then it succeeds with a newer version.
/// Guarantee: the last version stays in use, the fault names the missing right, and a list precedes
/// the next watch if the version expired.
#[tokio::test]
async fn a_share_outlives_its_watch() {
    let first = object("a", &parts(1, 1)[0], 1);
    let status = r#"{"kind":"Status","message":"no"}"#;
    let mut rig = Rig::new(vec![
        page(Some(first), 2, ""),
        Answer(403, vec![status.into()], Then::End),
        watch(vec![], Then::Break),
        Answer(410, vec![], Then::End),
        page(Some(object("a", &parts(2, 2)[0], 8)), 9, ""),
        watch(vec![], Then::Hold),
    ])
    .await;
    let refused = rig.until("refused", |told| told.fault.contains("denied")).await;
    assert!(refused.fault.contains("a Role that allows list and watch on configmaps"));
    assert_eq!(version(&refused), Some(1));
    assert_eq!(rig.until_version(2).await.targets.len(), 2);
    let requests = rig.requests.lock().unwrap().clone();
    assert!(requests[3].contains("resourceVersion=2&"), "{}", requests[3]);
    assert!(requests[4].contains("limit=1"), "{}", requests[4]);
    assert_eq!(rig.metric("millrace_scrape_assignment_watch_failed_total"), "3");
}
