//! Tests of `bundle`: its content, and what it must never contain.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use http::Method;
use serde_json::json;

use crate::plugin::support::{NAMESPACE, Server};
use crate::plugin::writes::healthy;

/// A text that no bundle may contain.
const PLANTED: &str = "hunter2planted";

fn files(path: &Path) -> BTreeMap<String, String> {
    let mut archive = tar::Archive::new(std::fs::File::open(path).unwrap());
    let mut files = BTreeMap::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().display().to_string();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        files.insert(name, text);
    }
    files
}

/// Returns the pipeline, with a credential in each possible place.
fn planted() -> Server {
    let server = healthy();
    server.edit("Pod", "prod-gateway-0", |pod| {
        pod["spec"]["containers"][0]["env"] = json!([
            {"name": "INNOCENT", "value": PLANTED},
            {"name": "FROM", "valueFrom": {"secretKeyRef": {"name": "kept-name", "key": "password"}}},
        ]);
        pod["spec"]["containers"][0]["args"] = json!([format!("--token={PLANTED}")]);
        pod["metadata"]["annotations"] =
            json!({"kubectl.kubernetes.io/last-applied-configuration": format!("{{\"a\":\"{PLANTED}\"}}")});
    });
    server.edit("TelemetryPipeline", "prod", |pipeline| {
        pipeline["spec"]["clickhouse"]["endpoints"] = json!(["http://ch.data:8123"]);
        pipeline["spec"]["gateway"]["podTemplate"] = json!({"spec": {"containers": [
            {"name": "beside", "env": [{"name": "X", "value": PLANTED}]}]}});
        pipeline["metadata"]["annotations"] =
            json!({"note": format!("see https://bob:{PLANTED}@git.example/x")});
    });
    server.put(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
        "name": "prod-gateway-aaaaaaaaaa", "namespace": NAMESPACE,
        "labels": {"app.kubernetes.io/managed-by": "millrace-operator"}},
        "data": {"collector.yaml": format!("sasl:\n  password: {PLANTED}\nuser: bob\n")}}));
    server.put(json!({"apiVersion": "v1", "kind": "Event",
        "metadata": {"name": "prod.1", "namespace": NAMESPACE},
        "involvedObject": {"kind": "GatewayPool", "name": "prod"}, "reason": "Unchanged",
        "message": format!("Authorization: Bearer {PLANTED}")}));
    server.put(json!({"apiVersion": "v1", "kind": "Event",
        "metadata": {"name": "shop.1", "namespace": NAMESPACE},
        "involvedObject": {"kind": "Pod", "name": "shop-1"}, "reason": "Other", "message": "theirs"}));
    server.log(
        "prod-gateway-0",
        &format!("{{\"password\":\"{PLANTED}\",\"level\":\"INFO\"}}\nkept\n"),
    );
    server
}

/// Scenario: credentials in environment, arguments, annotations, settings, events and logs.
/// Guarantee: none is in the bundle, references and the text around them stay, Secrets were never
/// requested, and only the owner may read the file.
#[tokio::test(start_paused = true)]
async fn no_planted_credential_is_in_a_bundle() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("b.tar");
    let server = planted();
    let line = ["bundle", "--file", path.to_str().unwrap()];
    let answer = server.run(&line).await.unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let files = files(&path);
    for (name, text) in &files {
        assert!(!text.contains(PLANTED), "{name}: {text}");
    }
    assert!(server.asked().iter().all(|(_, path)| !path.contains("/secrets")));
    let pod = &files["millrace/objects/pod-prod-gateway-0.json"];
    assert!(pod.contains("kept-name") && pod.contains("(masked)"), "{pod}");
    assert!(files["millrace/objects/configmap-prod-gateway-aaaaaaaaaa.json"].contains("user: bob"));
    let events = &files["millrace/events.json"];
    assert!(events.contains("Unchanged") && !events.contains("theirs"), "{events}");
    assert!(files["millrace/logs/prod-gateway-0.txt"].ends_with("kept\n"));
    for name in [
        "README.txt",
        "status.txt",
        "status.json",
        "why.json",
        "lag.json",
        "gaps.txt",
        "objects/telemetrypipeline-prod.json",
        "objects/gatewaypool-prod.json",
        "metrics/prod-gateway-1.txt",
    ] {
        assert!(files.contains_key(&format!("millrace/{name}")), "{name} is missing");
    }
    assert!(answer.text.contains("no Secret was read"), "{}", answer.text);
    let again = server.run(&line).await.unwrap_err().to_string();
    assert!(again.contains("not overwritten"), "{again}");
}

/// Scenario: logs, events and the proxy may not be read. Guarantee: a bundle with everything else,
/// and each missing right in gaps.txt.
#[tokio::test(start_paused = true)]
async fn what_may_not_be_read_is_listed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("b.tar");
    let server = healthy();
    for part in ["/log", "/events", "/proxy/"] {
        server.forbid(Method::GET, part);
    }
    server.run(&["bundle", "--file", path.to_str().unwrap()]).await.unwrap();
    let gaps = &files(&path)["millrace/gaps.txt"];
    for right in ["get pods/log in namespace obs", "list events in namespace obs", "get pods/proxy"]
    {
        assert!(gaps.contains(right), "{right}: {gaps}");
    }
}
