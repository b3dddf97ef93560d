//! Tests of `plan -f`.

use std::io::Write;

use serde_json::{Value, json};
use tempfile::NamedTempFile;

use crate::plugin::support::{Server, golden};
use crate::plugin::writes::{healthy, pipeline};

/// Returns a file with the changed pipeline.
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
/// Guarantee: each field before and after, its effects, what can't be known; the server only got a
/// dry run.
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

/// Scenario: the unchanged file; a removed pool and signal; a pipeline that doesn't exist yet.
/// Guarantee: no effect; what is removed and what stays; what is created.
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
    assert!(text.contains("would be created") && text.contains("EdgePool prod-clients"), "{text}");
    assert_eq!(report["new"], json!(true));
}

/// Scenario: a pipeline without a list of edge pools gets one that names the default pool, then one
/// that doesn't, then none again. Guarantee: the default pool counts as listed: it stays, is
/// removed with its Service, and is created again.
#[tokio::test(start_paused = true)]
async fn the_default_edge_pool_is_planned_like_a_listed_one() {
    let unlisted = |document: &mut Value| {
        document["spec"].as_object_mut().unwrap().remove("edges");
    };
    let nodes = json!({"name": "nodes", "mode": "DaemonSet"});
    let server = healthy();
    server.edit("TelemetryPipeline", "prod", unlisted);
    let both = file(|it| it["spec"]["edges"] = json!([{"name": "clients"}, nodes]));
    let (text, _) = plan(&server, &both).await.unwrap();
    assert!(text.contains("+ EdgePool prod-nodes") && !text.contains("prod-clients"), "{text}");
    let alone = file(|it| it["spec"]["edges"] = json!([nodes]));
    let (text, _) = plan(&server, &alone).await.unwrap();
    assert!(text.contains("- EdgePool prod-clients: its pods are drained and deleted"), "{text}");
    server.edit("TelemetryPipeline", "prod", |it| it["spec"]["edges"] = json!([nodes]));
    let (text, _) = plan(&server, &file(unlisted)).await.unwrap();
    assert!(text.contains("+ EdgePool prod-clients"), "{text}");
    assert!(text.contains("- EdgePool prod-nodes: its pods are drained and deleted"), "{text}");
}

/// Scenario: the signals' defaults change, while one signal has its own value. Guarantee: the effects
/// are those of the signals whose value changes.
#[tokio::test(start_paused = true)]
async fn changed_defaults_are_planned_by_signal() {
    let server = healthy();
    server.edit("TelemetryPipeline", "prod", |it| {
        it["spec"]["signals"] = json!({"traces": {"topic": {"partitions": 12}}, "logs": {}});
    });
    let changed = file(|it| {
        it["spec"]["signals"] = json!({"defaults": {"topic": {"partitions": 24}},
            "traces": {"topic": {"partitions": 12}}, "logs": {}});
    });
    let (text, report) = plan(&server, &changed).await.unwrap();
    assert!(text.contains("~ TelemetryTopic prod-logs: "), "{text}");
    assert_eq!(report["effects"].as_array().unwrap().len(), 1, "{text}");
}

/// Scenario: other resources of gateways and edges, then also another setting of the gateways.
/// Guarantee: resources alone are reported as such, without a rollout; with a setting they are one.
#[tokio::test(start_paused = true)]
async fn resources_alone_are_no_rollout() {
    let server = healthy();
    let resources = json!({"limits": {"memory": "1Gi"}});
    let alone = file(|document| {
        document["spec"]["gateway"]["resources"] = resources.clone();
        document["spec"]["edges"][0]["resources"] = resources.clone();
    });
    let (_, report) = plan(&server, &alone).await.unwrap();
    let effects = report["effects"].to_string();
    let texts = effects.matches("by their workload's update strategy, without a trial").count();
    assert!(texts == 2 && !effects.contains("rollout"), "{effects}");
    let both = file(|document| {
        document["spec"]["gateway"]["resources"] = resources.clone();
        document["spec"]["gateway"]["nestedDepth"] = json!(4);
    });
    let (_, report) = plan(&server, &both).await.unwrap();
    let effects = report["effects"].to_string();
    assert!(effects.contains("replaced by a rollout, after a trial pod"), "{effects}");
    assert_eq!(report["effects"].as_array().unwrap().len(), 1, "{effects}");
}

/// Scenario: a field of another manager; a plan that waits for approval. Guarantee: both are
/// reported.
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
    assert!(text.contains("spec.schema.approvedPlan: abc123"), "{text}");
    assert!(text.contains("drop column otel.otel_logs.Old"), "{text}");
}

/// Scenario: a file that doesn't exist, has no pipeline, is for another namespace than -n.
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
    assert!(error.contains("for namespace shop, and -n is obs"), "{error}");
}

/// Scenario: another cluster name. Guarantee: only edge pools are replaced.
#[tokio::test(start_paused = true)]
async fn resource_attributes_replace_edges_only() {
    let file = file(|document| {
        document["spec"]["resourceAttributes"] = json!({"k8s.cluster.name": "prod"});
    });
    let (_, report) = plan(&healthy(), &file).await.unwrap();
    let effects = report["effects"].to_string();
    assert!(effects.contains("EdgePool prod-clients"), "{effects}");
    assert!(!effects.contains("GatewayPool"), "{effects}");
}
