//! `plan -f`: what a changed file would do.

use std::io::Write;

use serde_json::{Value, json};
use tempfile::NamedTempFile;

use crate::support::{Server, golden};
use crate::writes::{healthy, pipeline};

/// A file with the pipeline, changed.
fn file(change: impl FnOnce(&mut Value)) -> NamedTempFile {
    let mut document = pipeline();
    document.as_object_mut().unwrap().remove("status");
    document["metadata"] = json!({"name": "prod"});
    change(&mut document);
    let mut file = NamedTempFile::new().unwrap();
    let text = serde_norway::to_string(&document).unwrap();
    write!(file, "apiVersion: v1\nkind: Namespace\nmetadata: {{name: obs}}\n---\n{text}").unwrap();
    file
}

async fn plan(server: &Server, file: &NamedTempFile) -> Result<(String, Value), String> {
    let answer = server.run(&["plan", "-f", file.path().to_str().unwrap()]).await;
    answer.map(|it| (it.text, it.json)).map_err(|error| error.to_string())
}

/// Scenario: more partitions, a new signal, another image, a second edge pool, larger bounds.
/// Guarantee: each field before and after, what the operator does about it, what can't be told; the
/// server was asked for a dry run alone.
#[tokio::test(start_paused = true)]
async fn a_changed_file_is_told_by_field_and_effect() {
    let server = healthy();
    let file = file(|document| {
        let spec = &mut document["spec"];
        spec["signals"]["traces"]["topic"]["partitions"] = json!(24);
        spec["signals"]["metrics"] = json!({});
        spec["collector"] = json!({"version": "0.2.0"});
        spec["edges"] = json!([{"name": "clients"}, {"name": "nodes", "mode": "DaemonSet"}]);
        spec["gateway"]["scaling"]["maxReplicas"] = json!(12);
    });
    let before = server.get("TelemetryPipeline", "prod");
    let (text, report) = plan(&server, &file).await.unwrap();
    golden("plan.txt", &text);
    assert_eq!(server.get("TelemetryPipeline", "prod"), before);
    let changes: Vec<_> =
        report["changes"].as_array().unwrap().iter().map(|one| &one["path"]).collect();
    assert_eq!(
        changes,
        [
            "spec.collector",
            "spec.edges[nodes]",
            "spec.gateway.scaling.maxReplicas",
            "spec.signals.metrics",
            "spec.signals.traces.topic.partitions",
        ]
    );
}

/// Scenario: the file as it is; a pool and a signal taken out; a pipeline that isn't there yet.
/// Guarantee: nothing; what goes and what stays; what is made.
#[tokio::test(start_paused = true)]
async fn no_change_less_and_more_are_told_apart() {
    let server = healthy();
    let (text, report) = plan(&server, &file(|_| {})).await.unwrap();
    assert!(text.contains("would not change") && report["effects"] == json!([]), "{text}");
    let less = file(|document| {
        document["spec"]["signals"].as_object_mut().unwrap().remove("logs");
        document["spec"]["deletionPolicy"] = json!("Delete");
    });
    let (text, _) = plan(&server, &less).await.unwrap();
    assert!(text.contains("the topic and the tables stay"), "{text}");
    assert!(text.contains("would delete its topics and tables"), "{text}");
    let (text, report) = plan(&Server::default(), &file(|_| {})).await.unwrap();
    assert!(text.contains("would be made") && text.contains("EdgePool prod-clients"), "{text}");
    assert_eq!(report["new"], json!(true));
}

/// Scenario: other resources of gateways and edges, then also another setting of the gateways.
/// Guarantee: resources alone are told as what they are, no rollout; with a setting they are one.
#[tokio::test(start_paused = true)]
async fn resources_alone_are_no_rollout() {
    let server = healthy();
    let resources = json!({"memory": {"max": "1Gi"}});
    let alone = file(|document| {
        document["spec"]["gateway"]["resources"] = resources.clone();
        document["spec"]["edges"][0]["resources"] = resources.clone();
    });
    let (_, report) = plan(&server, &alone).await.unwrap();
    let effects = report["effects"].to_string();
    assert!(effects.contains("resized in place where scaling") && !effects.contains("rollout"));
    assert!(effects.contains("as their workload does it, without a trial"), "{effects}");
    let both = file(|document| {
        document["spec"]["gateway"]["resources"] = resources.clone();
        document["spec"]["gateway"]["nestedDepth"] = json!(4);
    });
    let (_, report) = plan(&server, &both).await.unwrap();
    let effects = report["effects"].to_string();
    assert!(effects.contains("replaced by a rollout, after a trial pod"), "{effects}");
    assert_eq!(report["effects"].as_array().unwrap().len(), 1, "{effects}");
}

/// Scenario: a field of another manager; a plan that waits for approval. Guarantee: both are told.
#[tokio::test(start_paused = true)]
async fn conflicts_and_waiting_plans_are_told() {
    let server = healthy();
    server.conflict("conflict with \"argocd\": .spec.gateway.scaling.maxReplicas");
    server.edit("TelemetrySchema", "prod", |schema| {
        schema["status"]["planHash"] = json!("abc123");
        schema["status"]["planPending"] = json!(["drop column otel.otel_logs.Old"]);
    });
    let (text, _) = plan(&server, &file(|_| {})).await.unwrap();
    assert!(
        text.contains("conflict with \"argocd\"") && text.contains("--force-conflicts"),
        "{text}"
    );
    assert!(text.contains("millrace.dev/approve-plan=abc123"), "{text}");
    assert!(text.contains("drop column otel.otel_logs.Old"), "{text}");
}

/// Scenario: a file that isn't there, has no pipeline, is for another namespace than -n says.
/// Guarantee: each error names the file and what to do.
#[tokio::test(start_paused = true)]
async fn files_that_cannot_be_planned_are_refused() {
    let server = healthy();
    let error = server.run(&["plan", "-f", "/nowhere.yaml"]).await.unwrap_err().to_string();
    assert!(error.starts_with("/nowhere.yaml: "), "{error}");
    let other = file(|document| document["kind"] = json!("Other"));
    let error = plan(&server, &other).await.unwrap_err();
    assert!(error.contains("exactly one TelemetryPipeline"), "{error}");
    let elsewhere = file(|document| document["metadata"]["namespace"] = json!("shop"));
    let path = elsewhere.path().to_str().unwrap();
    let error = server.run(&["plan", "-n", "obs", "-f", path]).await.unwrap_err().to_string();
    assert!(error.contains("for namespace shop, and -n says obs"), "{error}");
}
