//! What the pipeline's reconciler does against an API server in memory; the children's own
//! controllers are played by the tests.

use millrace_operator::controllers::pipeline::Pipelines;
use serde_json::{Value, json};

use crate::reconcilers::support::world::World;

const BASE: &str = "/apis/millrace.dev/v1alpha1/namespaces/telemetry";
const PIPELINE: &str = "/apis/millrace.dev/v1alpha1/namespaces/telemetry/telemetrypipelines/prod";

fn pipeline() -> Value {
    json!({
        "apiVersion": "millrace.dev/v1alpha1", "kind": "TelemetryPipeline", "metadata": {},
        "spec": {
            "kafka": {"bootstrapServers": ["kafka:9092"]},
            "clickhouse": {"endpoints": ["http://clickhouse:8123"]},
            "signals": {"traces": {}, "logs": {}},
        }
    })
}

fn child(kind: &str) -> String {
    match kind {
        "traces" | "logs" | "traces-dead-letter" | "logs-dead-letter" => {
            format!("{BASE}/telemetrytopics/prod-{kind}")
        }
        "schema" => format!("{BASE}/telemetryschemas/prod"),
        "edge" => format!("{BASE}/edgepools/prod-clients"),
        "nodes" => format!("{BASE}/edgepools/prod-nodes"),
        "gateway" => format!("{BASE}/gatewaypools/prod"),
        other => panic!("no child {other}"),
    }
}

const CHILDREN: [&str; 7] =
    ["traces", "traces-dead-letter", "logs", "logs-dead-letter", "schema", "edge", "gateway"];
/// What must be there before any pool.
const GROUND: [&str; 5] = ["traces", "traces-dead-letter", "logs", "logs-dead-letter", "schema"];

/// What a child's controller says when all is well, `older_by` generations ago.
fn fine(world: &World, kind: &str, older_by: i64) {
    let conditions: &[(&str, bool)] = match kind {
        "gateway" => &[
            ("Ready", true),
            ("PodsReady", true),
            ("LagWithinBound", true),
            ("SecretsFound", true),
        ],
        _ => &[("Ready", true), ("SecretsFound", true)],
    };
    let more = match kind {
        "schema" => json!({"revision": "abc"}),
        "traces" | "logs" => json!({"partitions": 12}),
        "traces-dead-letter" | "logs-dead-letter" => json!({"partitions": 1}),
        "edge" | "nodes" => {
            let endpoint = format!("prod-{kind}-edge.telemetry.svc:4317");
            json!({"replicas": 2, "readyReplicas": 2, "endpoint": endpoint})
        }
        _ => json!({"replicas": 1, "readyReplicas": 1}),
    };
    world.say(&child(kind), older_by, conditions, more);
}

async fn reconcile(world: &World) {
    world.reconcile::<Pipelines>(PIPELINE).await.unwrap();
}

/// A world in which the pipeline is ready.
async fn ready() -> World {
    let world = World::new();
    world.server.put(PIPELINE, pipeline());
    reconcile(&world).await;
    for kind in GROUND {
        fine(&world, kind, 0);
    }
    reconcile(&world).await;
    for kind in ["edge", "gateway"] {
        fine(&world, kind, 0);
    }
    reconcile(&world).await;
    assert!(world.is_ready(PIPELINE), "{:?}", world.condition(PIPELINE, "Ready"));
    world.server.take_writes();
    world.server.take_event_reasons();
    world
}

/// Scenario: a new pipeline, children coming up one after the other. Guarantee: the edge pool is
/// not made before its topics are there, nor the gateway pool before its tables.
#[tokio::test]
async fn children_are_made_in_order() {
    let world = World::new();
    world.server.put(PIPELINE, pipeline());
    let there = |world: &World, kind: &str| world.server.get(&child(kind)).is_some();
    reconcile(&world).await;
    assert!(there(&world, "traces") && there(&world, "logs") && there(&world, "schema"));
    assert!(!there(&world, "edge") && !there(&world, "gateway"));
    assert_eq!(world.condition(PIPELINE, "GatewayReady").unwrap().1, "Waiting");
    for kind in GROUND.into_iter().filter(|kind| *kind != "schema") {
        fine(&world, kind, 0);
    }
    reconcile(&world).await;
    assert!(there(&world, "edge") && !there(&world, "gateway"));
    fine(&world, "schema", 0);
    reconcile(&world).await;
    assert!(there(&world, "gateway"));
    assert!(!world.is_ready(PIPELINE));
}

/// Scenario: a ready pipeline is looked at again. Guarantee: nothing is written, nothing told.
#[tokio::test]
async fn a_converged_reconcile_writes_nothing() {
    let world = ready().await;
    for _ in 0..3 {
        world.pass(600);
        reconcile(&world).await;
    }
    assert_eq!(world.server.take_writes(), []);
    assert_eq!(world.server.take_event_reasons(), Vec::<String>::new());
}

/// Scenario: blocks of a spec lose their last fields: encryption, memory, a pod's labels. Guarantee:
/// the children follow at once, though the API server makes nulls of what an apply gives up whole.
#[tokio::test]
async fn what_is_taken_out_of_a_spec_is_taken_out_of_its_children() {
    let world = ready().await;
    world.server.edit(PIPELINE, |pipeline| {
        pipeline["spec"]["edges"] = json!([{"name": "clients", "podTemplate": {
            "metadata": {"labels": {"a": "b"}}, "spec": {"nodeSelector": {"a": "b"}}},
            "receivers": {"otlp": {"tls": {"certificateSecret": {"name": "c"}}}}}]);
        pipeline["spec"]["gateway"] = json!({"resources": {"limits": {"memory": "2Gi"}}});
    });
    reconcile(&world).await;
    let spec = |kind: &str| world.server.get(&child(kind)).unwrap()["spec"].clone();
    assert_eq!(spec("edge")["receivers"]["otlp"]["tls"]["certificateSecret"]["name"], "c");
    assert_eq!(spec("gateway")["resources"]["limits"]["memory"], "2Gi");
    world.server.edit(PIPELINE, |pipeline| {
        pipeline["spec"]["edges"] = json!([{"name": "clients"}]);
        pipeline["spec"]["gateway"] = json!({});
    });
    reconcile(&world).await;
    assert_eq!(spec("edge")["receivers"]["otlp"], json!({}));
    assert_eq!(spec("schema")["maxGateways"], spec("gateway")["scaling"]["maxReplicas"]);
    assert!(spec("schema")["maxGateways"].as_u64().is_some_and(|most| most > 6));
    assert_eq!(spec("edge")["podTemplate"], json!({"metadata": {}, "spec": {}}));
    assert_eq!(spec("gateway")["resources"]["limits"], json!({}));
    world.server.take_writes();
    reconcile(&world).await;
    let children = |path: &String| !path.ends_with("/status");
    let written = world.server.take_writes().into_iter().map(|write| write.path);
    assert_eq!(written.filter(children).collect::<Vec<_>>(), Vec::<String>::new());
}

/// Scenario: from a ready pipeline, each fact of each child turns false, one at a time; or the
/// child's status is of an older generation; or it is gone. Guarantee: Ready is false at once, each
/// time, and true again when all is well.
#[tokio::test]
async fn ready_is_never_true_while_any_check_fails() {
    for kind in CHILDREN {
        let world = ready().await;
        let conditions: &[&str] = match kind {
            "gateway" => &["PodsReady", "LagWithinBound", "SecretsFound"],
            _ => &["Ready"],
        };
        for failing in conditions {
            let said: Vec<(&str, bool)> = ["Ready", "PodsReady", "LagWithinBound", "SecretsFound"]
                .into_iter()
                .map(|type_| (type_, type_ != *failing))
                .collect();
            world.say(&child(kind), 0, &said, json!({"revision": "abc", "partitions": 12}));
            reconcile(&world).await;
            assert!(!world.is_ready(PIPELINE), "{kind}: {failing}");
            fine(&world, kind, 0);
            reconcile(&world).await;
            assert!(world.is_ready(PIPELINE), "{kind}: back from {failing}");
        }
        fine(&world, kind, 1);
        reconcile(&world).await;
        assert!(!world.is_ready(PIPELINE), "{kind}: stale");
        assert!(
            ["ChildOutOfDate", "Waiting"]
                .contains(&world.condition(PIPELINE, "Ready").unwrap().1.as_str())
        );
        fine(&world, kind, 0);
        reconcile(&world).await;
        assert!(world.is_ready(PIPELINE), "{kind}: fresh again");
        world.server.delete(&child(kind));
        reconcile(&world).await;
        assert!(!world.is_ready(PIPELINE), "{kind}: gone");
        assert!(world.server.get(&child(kind)).is_some(), "{kind}: back");
    }
}

/// Scenario: the pipeline's spec changes. Guarantee: not Ready from the first look on, until every
/// child it changed has said so for its new generation.
#[tokio::test]
async fn a_changed_spec_is_not_ready_until_the_children_say_so() {
    let world = ready().await;
    world.server.edit(PIPELINE, |it| {
        it["spec"]["edges"] = json!([{"name": "clients", "replicas": 4}]);
    });
    assert!(!world.is_ready(PIPELINE), "the old status is not about the new generation");
    reconcile(&world).await;
    assert!(!world.is_ready(PIPELINE));
    assert_eq!(world.condition(PIPELINE, "EdgeReady").unwrap().1, "ChildOutOfDate");
    fine(&world, "edge", 0);
    reconcile(&world).await;
    assert!(world.is_ready(PIPELINE));
}

/// Scenario: tables must change (a signal is added) together with the gateway. Guarantee: the
/// gateway is not changed before the schema has its new revision.
#[tokio::test]
async fn the_gateway_waits_for_the_schema_of_its_revision() {
    let world = ready().await;
    let before = world.server.get(&child("gateway")).unwrap()["spec"].clone();
    world.server.edit(PIPELINE, |it| it["spec"]["signals"]["metrics"] = json!({}));
    reconcile(&world).await;
    assert_eq!(world.server.get(&child("gateway")).unwrap()["spec"], before);
    for (name, partitions) in [("prod-metrics", 12), ("prod-metrics-dead-letter", 1)] {
        let topic = format!("{BASE}/telemetrytopics/{name}");
        world.say(&topic, 0, &[("Ready", true)], json!({"partitions": partitions}));
    }
    reconcile(&world).await;
    assert_eq!(world.server.get(&child("gateway")).unwrap()["spec"], before);
    assert_eq!(world.condition(PIPELINE, "GatewayReady").unwrap().1, "Waiting");
    fine(&world, "schema", 0);
    reconcile(&world).await;
    assert_ne!(world.server.get(&child("gateway")).unwrap()["spec"], before);
}

/// Scenario: tables must change, and the plan waits for a person; the revision in the status is the
/// one before. Guarantee: the gateway is not changed, although the schema's controller has looked at
/// its newest spec; it is once the revision is the one asked for, even while ClickHouse is away.
#[tokio::test]
async fn the_gateway_waits_while_a_plan_waits_for_approval() {
    let world = ready().await;
    let gateway = |world: &World| world.server.get(&child("gateway")).unwrap()["spec"].clone();
    let before = gateway(&world);
    world.server.edit(PIPELINE, |it| {
        it["spec"]["signals"]["logs"] = json!({"table": {"ttl": "3d"}});
        it["spec"]["gateway"] = json!({"drainSeconds": 99});
    });
    reconcile(&world).await;
    let not_ready = |revision: &str| {
        world.say(&child("schema"), 0, &[("Ready", false)], json!({"revision": revision}));
    };
    not_ready("abc");
    reconcile(&world).await;
    assert_eq!(gateway(&world), before);
    assert_eq!(world.condition(PIPELINE, "GatewayReady").unwrap().1, "Waiting");
    let name = || "otel".parse().unwrap();
    let signals = millrace_ddl::Signals { metrics: false, ..millrace_ddl::Signals::ALL };
    let window = millrace_ddl::DeduplicationWindow::for_gateways(12);
    let attributes = millrace_ddl::AttributeStorage::Map;
    let ttl = millrace_ddl::Ttl::from_seconds(30 * 86_400);
    let options = millrace_ddl::TableOptions { attributes, ttl, window, ..Default::default() };
    let mut asked = millrace_ddl::Declared::uniform(name(), name(), signals, &options);
    asked.logs.as_mut().unwrap().ttl = millrace_ddl::Ttl::from_seconds(3 * 86_400);
    not_ready(&asked.revision());
    reconcile(&world).await;
    assert_eq!(gateway(&world)["drainSeconds"], 99);
}

/// Scenario: a signal is taken out. Guarantee: its topic's object goes, the others stay.
#[tokio::test]
async fn a_signal_taken_out_loses_its_topic_object() {
    let world = ready().await;
    world.server.edit(PIPELINE, |it| {
        it["spec"]["signals"].as_object_mut().unwrap().remove("logs");
    });
    reconcile(&world).await;
    assert!(world.server.get(&child("logs")).is_none());
    assert!(world.server.get(&child("logs-dead-letter")).is_none());
    assert!(world.server.get(&child("traces")).is_some());
}

/// A pool for clients and one on nodes.
fn two_pools() -> Value {
    json!([{"name": "clients", "replicas": 3},
        {"name": "nodes", "mode": "DaemonSet", "receivers": {"containers": {}}}])
}

/// A world in which a pipeline with two edge pools is ready.
async fn ready_with_two() -> World {
    let world = ready().await;
    world.server.edit(PIPELINE, |it| it["spec"]["edges"] = two_pools());
    reconcile(&world).await;
    for kind in ["edge", "nodes"] {
        fine(&world, kind, 0);
    }
    reconcile(&world).await;
    assert!(world.is_ready(PIPELINE), "{:?}", world.condition(PIPELINE, "Ready"));
    world.server.take_writes();
    world
}

/// Scenario: of two edge pools that on nodes has lost logs, says later that it doesn't know, and is
/// taken out. Guarantee: the pipeline says the same, with the pool's name and one event, stays
/// ready, and says nothing of it once no pool does.
#[tokio::test]
async fn logs_that_an_edge_pool_lost_are_told() {
    let world = ready_with_two().await;
    let lost = || {
        let (status, reason, _) = world.condition(PIPELINE, "LogsLost")?;
        Some((status, reason))
    };
    let pool_says = |status: &str, reason: &str| {
        world.server.edit(&child("nodes"), |pool| {
            let conditions = pool["status"]["conditions"].as_array_mut().unwrap();
            conditions.retain(|it| it["type"] != "LogsLost");
            conditions.push(json!({"type": "LogsLost", "status": status, "reason": reason,
                "message": "400 bytes", "lastTransitionTime": "2026-01-01T00:00:00Z",
                "observedGeneration": 1}));
        });
    };
    assert_eq!(lost(), None);
    world.server.take_event_reasons();
    pool_says("True", "LogsDeletedUnread");
    reconcile(&world).await;
    assert_eq!(lost(), Some(is("True", "LogsDeletedUnread")));
    assert_eq!(world.server.take_event_reasons(), ["LogsDeletedUnread"]);
    assert!(world.is_ready(PIPELINE), "what is gone holds nothing up");
    let conditions = world.server.get(PIPELINE).unwrap()["status"]["conditions"].to_string();
    assert!(conditions.contains("EdgePool prod-nodes: 400 bytes"), "{conditions}");
    pool_says("Unknown", "PodsUnreachable");
    reconcile(&world).await;
    assert_eq!(lost(), Some(is("Unknown", "PodsUnreachable")));
    world.server.edit(PIPELINE, |it| it["spec"]["edges"] = json!([{"name": "clients"}]));
    reconcile(&world).await;
    assert_eq!(lost(), None);
}

/// Scenario: a pool on nodes is put beside that for clients. Guarantee: each has its own settings;
/// the pipeline is ready once both are, names the one that isn't, and tells the pods and the
/// endpoint of each; its own endpoint is the first pool's.
#[tokio::test]
async fn edge_pools_stand_side_by_side() {
    let world = ready().await;
    world.server.edit(PIPELINE, |it| it["spec"]["edges"] = two_pools());
    reconcile(&world).await;
    fine(&world, "edge", 0);
    reconcile(&world).await;
    let spec = |kind: &str| world.server.get(&child(kind)).unwrap()["spec"].clone();
    assert_eq!(spec("edge")["mode"], "Deployment");
    assert_eq!(spec("edge")["replicas"], 3);
    assert_eq!(spec("nodes")["mode"], "DaemonSet");
    assert!(spec("nodes")["receivers"]["containers"].is_object());
    assert!(spec("edge")["receivers"]["containers"].is_null());
    assert_eq!(says(&world, &["EdgeReady"]), [is("False", "NotObserved")]);
    let conditions = world.server.get(PIPELINE).unwrap()["status"]["conditions"].to_string();
    assert!(conditions.contains("EdgePool prod-nodes has not been reconciled yet"), "{conditions}");
    fine(&world, "nodes", 0);
    reconcile(&world).await;
    assert!(world.is_ready(PIPELINE));
    let status = world.server.get(PIPELINE).unwrap()["status"].clone();
    let pool = |name: &str, kind: &str| {
        json!({"name": name, "desired": 2, "ready": 2,
            "endpoint": format!("prod-{kind}-edge.telemetry.svc:4317")})
    };
    assert_eq!(status["edges"], json!([pool("clients", "edge"), pool("nodes", "nodes")]));
    assert_eq!(status["endpoint"], status["edges"][0]["endpoint"]);
    assert_eq!(status["pods"], "5/5");
}

/// Scenario: an edge pool is taken out of a ready pipeline; of a paused one too. Guarantee: that
/// pool goes, the other is not touched, and the pipeline tells nothing of it any more; of a paused
/// pipeline nothing is deleted.
#[tokio::test]
async fn an_edge_pool_taken_out_is_deleted() {
    let paused = ready_with_two().await;
    paused.server.edit(PIPELINE, |it| {
        it["spec"]["paused"] = true.into();
        it["spec"]["edges"].as_array_mut().unwrap().pop();
    });
    reconcile(&paused).await;
    assert!(paused.server.get(&child("nodes")).is_some());

    let world = ready_with_two().await;
    let before = world.server.get(&child("edge")).unwrap();
    world.server.edit(PIPELINE, |it| {
        it["spec"]["edges"].as_array_mut().unwrap().pop();
    });
    reconcile(&world).await;
    assert!(world.server.get(&child("nodes")).is_none());
    assert_eq!(world.server.get(&child("edge")).unwrap(), before);
    let status = world.server.get(PIPELINE).unwrap()["status"].clone();
    assert_eq!(status["edges"].as_array().unwrap().len(), 1);
    assert!(!status["children"].to_string().contains("prod-nodes"), "{status}");
}

/// Scenario: the API server doesn't answer for the second of two edge pools. Guarantee: whether
/// edges are ready is unknown, though the first is.
#[tokio::test]
async fn an_edge_pool_that_was_not_seen_is_unknown() {
    let world = ready_with_two().await;
    world.server.set_fault(Some(Box::new(|method, path| {
        (*method == http::Method::GET && path.ends_with("/prod-nodes")).then_some(429)
    })));
    world.reconcile::<Pipelines>(PIPELINE).await.unwrap_err();
    assert_eq!(says(&world, &["EdgeReady"]), [is("Unknown", "ApiServerFailed")]);
    assert_eq!(says(&world, &["SchemaReady"]), [is("True", "AllReady")]);
}

/// Scenario: a user edits a child. Guarantee: what the pipeline says is put back; what it does not
/// say (a scaled number of pods) is the user's.
#[tokio::test]
async fn a_childs_edited_field_is_put_back_and_an_unsaid_one_is_kept() {
    let world = ready().await;
    world.server.edit(&child("edge"), |edge| {
        edge["spec"]["kafka"]["bootstrapServers"] = json!(["elsewhere:9092"]);
        edge["spec"]["replicas"] = 7.into();
    });
    reconcile(&world).await;
    let edge = world.server.get(&child("edge")).unwrap();
    assert_eq!(edge["spec"]["kafka"]["bootstrapServers"], json!(["kafka:9092"]));
    assert_eq!(edge["spec"]["replicas"], 7);
    assert!(world.server.take_event_reasons().contains(&"DriftRepaired".to_owned()));
}

/// Scenario: a child is stuck. Guarantee: the pipeline says Stalled with the child's reason, names
/// the child, and lists every child.
#[tokio::test]
async fn a_stuck_child_is_named() {
    let world = ready().await;
    world.server.edit(&child("schema"), |schema| {
        let at = schema["metadata"]["generation"].clone();
        schema["status"]["conditions"] = json!([
            {"type": "Ready", "status": "False", "reason": "TableColumnMissing",
                "message": "no SpanId",
                "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": at},
            {"type": "Stalled", "status": "True", "reason": "TableColumnMissing",
                "message": "no SpanId",
                "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": at}]);
    });
    reconcile(&world).await;
    assert_eq!(world.condition(PIPELINE, "Stalled").unwrap().1, "TableColumnMissing");
    assert_eq!(world.condition(PIPELINE, "Ready").unwrap().1, "TableColumnMissing");
    let status = world.server.get(PIPELINE).unwrap()["status"].clone();
    assert_eq!(status["children"].as_array().unwrap().len(), CHILDREN.len());
    let ready = status["conditions"].as_array().unwrap();
    let ready = ready.iter().find(|condition| condition["type"] == "Ready").unwrap();
    assert!(ready["message"].as_str().unwrap().contains("TelemetrySchema prod"), "{ready}");
}

/// Scenario: a ready pipeline's gateway tells of lost data, then of none; its spec changes in
/// between. Guarantee: the pipeline says the same with the child's name, tells it once, and stays
/// ready; a change of the spec doesn't take it back.
#[tokio::test]
async fn lost_data_is_passed_on_and_holds_nothing_up() {
    let world = ready().await;
    let says = |holds: bool, older_by: i64| {
        let conditions = [
            ("Ready", true),
            ("PodsReady", true),
            ("LagWithinBound", true),
            ("SecretsFound", true),
            ("DataLost", holds),
        ];
        let more = json!({"replicas": 1, "readyReplicas": 1});
        world.say(&child("gateway"), older_by, &conditions, more);
    };
    assert_eq!(world.condition(PIPELINE, "DataLost").unwrap().1, "NoDataLost");
    says(true, 0);
    reconcile(&world).await;
    assert_eq!(world.condition(PIPELINE, "DataLost").unwrap().0, "True");
    assert!(world.is_ready(PIPELINE));
    assert_eq!(world.server.take_event_reasons().len(), 1);
    says(true, 1);
    reconcile(&world).await;
    assert!(!world.is_ready(PIPELINE));
    assert_eq!(world.condition(PIPELINE, "DataLost").unwrap().0, "True");
    says(false, 0);
    reconcile(&world).await;
    assert_eq!(world.condition(PIPELINE, "DataLost").unwrap().0, "False");
    assert!(world.is_ready(PIPELINE));
}

fn says(world: &World, types: &[&str]) -> Vec<(String, String)> {
    let found = types.iter().map(|type_| world.condition(PIPELINE, type_).unwrap());
    found.map(|(status, reason, _)| (status, reason)).collect()
}

fn is(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

/// Requests for a gateway pool by these methods are refused with this code.
fn refuse_gateway(world: &World, methods: &'static [http::Method], code: u16) {
    world.server.set_fault(Some(Box::new(move |method, path| {
        (methods.contains(method) && path.contains("/gatewaypools/")).then_some(code)
    })));
}

/// Scenario: one request of a ready pipeline's reconcile, for its gateway pool, is answered by 429.
/// Guarantee: what was seen before it stays so; what was not is unknown, and nothing is false; the
/// next reconcile finds all well.
#[tokio::test]
async fn a_blip_makes_nothing_false() {
    let world = ready().await;
    refuse_gateway(&world, &[http::Method::GET], 429);
    world.reconcile::<Pipelines>(PIPELINE).await.unwrap_err();
    let seen = says(&world, &["TopicsReady", "SchemaReady", "EdgeReady"]);
    assert_eq!(seen, vec![is("True", "AllReady"); 3]);
    let unseen = says(&world, &["GatewayReady", "LagWithinBound", "SecretsFound", "Ready"]);
    assert_eq!(unseen, vec![is("Unknown", "ApiServerFailed"); 4]);
    assert_eq!(says(&world, &["Stalled"]), [is("False", "ApiServerFailed")]);
    world.server.set_fault(None);
    reconcile(&world).await;
    assert!(world.is_ready(PIPELINE), "{:?}", world.condition(PIPELINE, "Ready"));
}

/// Scenario: a spec with which the API server refuses the gateway pool for good. Guarantee: the
/// pipeline is stalled and says so of its gateway alone.
#[tokio::test]
async fn a_permanent_refusal_is_stalled() {
    let world = ready().await;
    world
        .server
        .edit(PIPELINE, |object| object["spec"]["gateway"] = json!({"delivery": "AtLeastOnce"}));
    refuse_gateway(&world, &[http::Method::PATCH], 422);
    for kind in GROUND.into_iter().chain(["edge"]) {
        fine(&world, kind, 0);
    }
    world.reconcile::<Pipelines>(PIPELINE).await.unwrap_err();
    let refused = is("False", "ApiServerFailed");
    let told = says(&world, &["GatewayReady", "Ready", "Progressing", "Stalled", "TopicsReady"]);
    assert_eq!(told[..3], vec![refused; 3]);
    assert_eq!(told[3..], [is("True", "ApiServerFailed"), is("True", "AllReady")]);
}

/// A refusal (422) of applies to the object at `path`, until `ends` says so of a request.
fn refuse(
    world: &World,
    path: String,
    mut ends: impl FnMut(&http::Method, &str) -> bool + Send + 'static,
) {
    let mut ended = false;
    world.server.set_fault(Some(Box::new(move |method, at| {
        ended |= ends(method, at);
        (!ended && *method == http::Method::PATCH && at == path).then_some(422)
    })));
}

/// Scenario: a signal is taken out and comes back with another topic, and with fewer partitions,
/// before anyone looks; the API server refuses to change the topic of its object. Guarantee: the
/// object is made anew and says what the pipeline says; no other is touched.
#[tokio::test]
async fn a_signal_that_comes_back_with_another_topic_gets_a_new_object() {
    for topic in [json!({"topicName": "other"}), json!({"topic": {"partitions": 6}})] {
        let world = ready().await;
        let logs = child("logs");
        let before = world.server.get(&logs).unwrap();
        world.server.edit(PIPELINE, |it| it["spec"]["signals"]["logs"] = topic.clone());
        let path = logs.clone();
        refuse(&world, logs.clone(), move |method, at| {
            *method == http::Method::DELETE && at == path
        });
        reconcile(&world).await;
        let now = world.server.get(&logs).unwrap();
        assert_ne!(now["metadata"]["uid"], before["metadata"]["uid"], "{topic}");
        let name = topic["topicName"].as_str().unwrap_or("otlp_logs");
        assert_eq!(now["spec"]["topicName"], name);
        assert_eq!(now["spec"]["partitions"], topic["topic"]["partitions"].as_u64().unwrap_or(12));
        let writes = world.server.take_writes();
        let deleted = writes.iter().filter(|write| write.method == "DELETE");
        assert_eq!(deleted.map(|write| &write.path).collect::<Vec<_>>(), [&logs], "{topic}");
    }
}

/// Scenario: a signal comes back with another topic while its object is paused; then the pause ends.
/// Guarantee: the paused object stays, and the pipeline states what it waits for; then it is made
/// anew.
#[tokio::test]
async fn a_paused_object_is_not_made_anew() {
    let world = ready().await;
    let logs = child("logs");
    world.server.edit(&logs, |topic| topic["spec"]["paused"] = true.into());
    let before = world.server.get(&logs).unwrap();
    world.server.edit(PIPELINE, |it| it["spec"]["signals"]["logs"] = json!({"topicName": "other"}));
    let path = logs.clone();
    refuse(&world, logs.clone(), move |method, at| *method == http::Method::DELETE && at == path);
    reconcile(&world).await;
    assert_eq!(world.server.get(&logs).unwrap()["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(world.condition(PIPELINE, "Ready").unwrap().1, "Waiting");
    let message = world.message(PIPELINE, "Ready");
    assert!(message.contains("the end of this pipeline's pause (spec.paused)"), "{message}");
    world.server.edit(&logs, |topic| topic["spec"]["paused"] = false.into());
    reconcile(&world).await;
    let now = world.server.get(&logs).unwrap();
    assert_ne!(now["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(now["spec"]["topicName"], "other");
}

/// Scenario: the API server refuses a topic's object for another cause. Guarantee: nothing is
/// deleted, and the refusal is told.
#[tokio::test]
async fn an_object_that_is_refused_for_another_cause_is_not_made_anew() {
    let world = ready().await;
    world.server.edit(PIPELINE, |it| {
        it["spec"]["signals"]["logs"] = json!({"topic": {"retention": "1h"}});
    });
    refuse(&world, child("logs"), |_, _| false);
    assert!(world.reconcile::<Pipelines>(PIPELINE).await.is_err());
    assert!(world.server.take_writes().iter().all(|write| write.method != "DELETE"));
    assert_eq!(world.condition(PIPELINE, "Ready").unwrap().1, "ApiServerFailed");
}

/// Scenario: a signal is taken out and comes back with other attributes before anyone looks; the
/// API server refuses to change those of the schema. Guarantee: the schema gives the signal up and
/// takes it again; it is the same object, which keeps what is not the pipeline's.
#[tokio::test]
async fn a_signal_that_comes_back_with_other_tables_is_given_up_in_between() {
    let world = ready().await;
    let schema = child("schema");
    world.server.edit(&schema, |it| it["spec"]["changes"] = "Manual".into());
    let before = world.server.get(&schema).unwrap();
    world.server.edit(PIPELINE, |it| {
        it["spec"]["signals"]["logs"] = json!({"table": {"engine": "ReplicatedMergeTree"}});
    });
    let (path, mut times) = (schema.clone(), 0);
    refuse(&world, schema.clone(), move |method, at| {
        times += u32::from(*method == http::Method::PATCH && at == path);
        times > 1
    });
    let from = world.server.log_len();
    reconcile(&world).await;
    let now = world.server.get(&schema).unwrap();
    assert_eq!(now["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(now["spec"]["signals"]["logs"]["engine"], "ReplicatedMergeTree");
    assert_eq!(now["spec"]["changes"], "Manual");
    let states = world.server.log_since(from);
    let between = states.iter().filter(|change| *change.path == *schema);
    let signals =
        between.filter_map(|change| Some(change.value.as_ref()?["spec"]["signals"].clone()));
    assert!(signals.clone().any(|it| it["logs"].is_null() && it["traces"].is_object()));
}

/// Scenario: a pipeline with a canary, a pool of clients and one of nodes. Guarantee: the pool of
/// nodes gets it too; the other doesn't, whose pods are not compared.
#[tokio::test]
async fn a_pipelines_canary_is_its_node_pools_too() {
    let world = World::new();
    let mut pipeline = pipeline();
    pipeline["spec"]["edges"] = json!([{"name": "clients"},
        {"name": "nodes", "mode": "DaemonSet", "receivers": {"containers": {}}}]);
    pipeline["spec"]["rollout"] = json!({"canary": {"pods": 2}});
    world.server.put(PIPELINE, pipeline);
    reconcile(&world).await;
    for kind in GROUND {
        fine(&world, kind, 0);
    }
    reconcile(&world).await;
    let canary =
        |kind: &str| world.server.get(&child(kind)).unwrap()["spec"]["rollout"]["canary"].clone();
    assert_eq!(canary("nodes"), json!({"pods": 2, "analysisSeconds": 300}));
    assert_eq!(canary("edge"), Value::Null);
}

/// Scenario: a pipeline and one of its edge pools declare resource attributes. Guarantee: each pool
/// has the pipeline's, and its own win.
#[tokio::test]
async fn resource_attributes_reach_each_edge_pool() {
    let world = ready().await;
    world.server.edit(PIPELINE, |pipeline| {
        pipeline["spec"]["resourceAttributes"] = json!({"cluster": "prod", "team": "a"});
        pipeline["spec"]["edges"] =
            json!([{"name": "clients", "resourceAttributes": {"team": "b", "zone": "1"}}]);
    });
    reconcile(&world).await;
    let spec = world.server.get(&child("edge")).unwrap()["spec"].clone();
    let expected = json!({"cluster": "prod", "team": "b", "zone": "1"});
    assert_eq!(spec["resourceAttributes"], expected);
    assert_eq!(
        world.server.get(&child("gateway")).unwrap()["spec"]["resourceAttributes"],
        Value::Null
    );
}

/// Scenario: signals share a topic's and a table's settings, and one has its own. Guarantee: each
/// topic and the schema get what their signal has, else the defaults; maps are merged by key.
#[tokio::test]
async fn signals_get_the_settings_that_they_share() {
    let world = ready().await;
    world.server.edit(PIPELINE, |it| {
        it["spec"]["signals"] = json!({
            "defaults": {
                "topic": {"partitions": 24, "retention": "6h", "settings": {"a": "1", "b": "1"}},
                "table": {"ttl": "30d", "layout": {"compression": "Zstd3"}},
            },
            "traces": {"topic": {"partitions": 48, "settings": {"b": "2"}}},
            "logs": {"table": {"ttl": "7d", "layout": {"rollup": true}}},
        });
    });
    reconcile(&world).await;
    let spec = |kind: &str| world.server.get(&child(kind)).unwrap()["spec"].clone();
    let traces = spec("traces");
    assert_eq!((&traces["partitions"], &traces["retention"]), (&json!(48), &json!("6h")));
    assert_eq!(traces["settings"], json!({"a": "1", "b": "2"}));
    assert_eq!(spec("logs")["partitions"], 24);
    let letters = spec("logs-dead-letter");
    assert_eq!((&letters["partitions"], &letters["retention"]), (&json!(1), &Value::Null));
    let tables = spec("schema")["signals"].clone();
    assert_eq!(tables["traces"]["ttl"], "30d");
    assert_eq!(tables["logs"]["ttl"], "7d");
    let layout = json!({"compression": "Zstd3", "rollup": true});
    assert_eq!(tables["logs"]["layout"], layout);
    assert_eq!(tables["traces"]["attributes"], "Map");
}

/// Scenario: a pipeline says nothing of the retention of traces, forever for logs, and stores no
/// metrics. Guarantee: its schema has 30 days and forever, and the status says so.
#[tokio::test]
async fn rows_are_deleted_after_a_month_unless_the_pipeline_says_otherwise() {
    let world = ready().await;
    world.server.edit(PIPELINE, |it| {
        it["spec"]["signals"] = json!({"traces": {}, "logs": {"table": {"ttl": "Forever"}},
            "metrics": {"table": {"engine": "Null"}}});
    });
    reconcile(&world).await;
    let tables = world.server.get(&child("schema")).unwrap()["spec"]["signals"].clone();
    assert_eq!(tables["traces"]["ttl"], "30d");
    assert_eq!(tables["logs"]["ttl"], "Forever");
    let status = world.server.get(PIPELINE).unwrap()["status"].clone();
    assert_eq!(status["retention"], "traces 30d, logs Forever, metrics not stored");
}

/// Scenario: a user approves changes in the schema of a pipeline, then in the pipeline, then takes
/// that out. Guarantee: what the pipeline writes reaches its schema and goes with it; what it
/// doesn't write stays as the user wrote it in the schema.
#[tokio::test]
async fn changes_to_tables_are_approved_in_the_pipeline_or_in_its_schema() {
    let world = ready().await;
    let spec = || world.server.get(&child("schema")).unwrap()["spec"].clone();
    world.server.edit(&child("schema"), |schema| {
        schema["spec"]["approvedPlan"] = json!("abc123");
    });
    world.server.edit(PIPELINE, |it| {
        it["spec"]["schema"] = json!({"changes": "Manual", "consent": ["otel.otel_logs.ttl"]});
    });
    reconcile(&world).await;
    let written = spec();
    assert_eq!(written["changes"], "Manual");
    assert_eq!(written["consent"], json!(["otel.otel_logs.ttl"]));
    assert_eq!(written["approvedPlan"], "abc123");
    world.server.edit(PIPELINE, |it| {
        it["spec"].as_object_mut().unwrap().remove("schema");
    });
    reconcile(&world).await;
    let written = spec();
    assert_eq!((&written["changes"], &written["consent"]), (&Value::Null, &Value::Null));
    assert_eq!(written["approvedPlan"], "abc123");
}
