//! What an operator makes of a spec that hasn't changed must not change with the operator: any
//! difference in a pod's template or configuration replaces every pod of every user who upgrades
//! it. What is made now is compared with what lies in `released/`.
//!
//! What has to change is brought in with the next collector's version, which replaces pods anyhow;
//! files here change only while nobody can run a release that made them: write them anew by
//! `WRITE_RELEASED=1 cargo test -p millrace-operator reconcilers::released`.

use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

use millrace_operator::controllers::edge::EdgePools;
use millrace_operator::controllers::gateway::GatewayPools;
use millrace_operator::reconcile::controller::Reconciler;
use serde_json::{Value, json};

use crate::reconcilers::support::world::World;

const NAMESPACE: &str = "/apis/millrace.dev/v1alpha1/namespaces/telemetry";
/// Lines told of a file that differs.
const LINES_TOLD: usize = 20;

/// What a spec with all that concerns pods has for connections and pods.
fn with_everything(more: Value) -> Value {
    let mut spec = json!({
           "kafka": {
               "bootstrapServers": ["kafka-0:9093", "kafka-1:9093"],
               "tls": {"ca": {"secretName": "kafka-ca", "key": "ca.crt"}},
               "authentication": {"type": "ScramSha512", "usernameSecret": {"name": "kafka-user", "key": "username"},
    "passwordSecret": {"name": "kafka-user", "key": "password"}},
           },
           "signals": {"traces": {"topicName": "spans"}, "logs": {}, "metrics": {}},
           "collector": {"version": "0.1.0", "allocator": "jemalloc"},
           "drainSeconds": 45,
           "podTemplate": {
               "metadata": {
                   "labels": {"team": "observability"},
                   "annotations": {"example.com/note": "kept"},
               },
               "spec": {
                   "nodeSelector": {"pool": "ingest"},
                   "tolerations": [{"key": "ingest", "operator": "Exists", "effect": "NoSchedule"}],
                   "priorityClassName": "ingest",
                   "containers": [
                       {"name": "collector", "env": [{"name": "TZ", "value": "UTC"}]},
                       {"name": "beside", "image": "beside:1"},
                   ],
               },
           },
       });
    for (field, value) in more.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    spec
}

fn gateway_specs() -> [(&'static str, Value); 2] {
    let least = json!({
        "kafka": {"bootstrapServers": ["kafka:9092"]},
        "clickhouse": {"endpoints": ["http://clickhouse:8123"]},
        "signals": {"traces": {}},
    });
    let most = with_everything(json!({
        "clickhouse": {
            "endpoints": ["https://clickhouse-0:8443", "https://clickhouse-1:8443"],
            "shards": 2,
            "database": "telemetry",
            "tablePrefix": "own",
            "authentication": {
                "type": "Password",
                "usernameSecret": {"name": "clickhouse-user", "key": "username"},
                "passwordSecret": {"name": "clickhouse-user", "key": "password"},
            },
        },
        "scaling": {
            "minReplicas": 2, "maxReplicas": 24, "maxResources": {"memory": "4Gi", "cpu": "4"},
        },
        "resources": {
            "requests": {"memory": "1Gi", "cpu": "1"}, "limits": {"memory": "2Gi", "cpu": "2"},
        },
        "delivery": "AtLeastOnce",
        "nestedDepth": 3,
        "consumerGroup": "ingest",
        "groupProtocol": "Consumer",
    }));
    [("gateway-least", least), ("gateway-most", most)]
}

fn edge_specs() -> [(&'static str, Value); 2] {
    let least = json!({
        "kafka": {"bootstrapServers": ["kafka:9092"]},
        "signals": {"traces": {}},
    });
    let most = with_everything(json!({
        "mode": "DaemonSet",
        "buffer": {"maxBytes": "4Gi", "storageClassName": "fast"},
        "resources": {"requests": {"memory": "512Mi", "cpu": "500m"}, "limits": {"memory": "1Gi"}},
    }));
    [("edge-least", least), ("edge-most", most)]
}

fn secret(entries: Value) -> Value {
    let encoded = entries.as_object().unwrap().iter().map(|(key, text)| {
        let bytes = k8s_openapi::ByteString(text.as_str().unwrap().into());
        (key.clone(), serde_json::to_value(bytes).unwrap())
    });
    let data: serde_json::Map<String, Value> = encoded.collect();
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {}, "data": data})
}

/// What the pods of a pool with this spec are made from: the workload's template and strategy, and
/// the collector's configuration.
async fn made<R: Reconciler>(kind: &str, plural: &str, spec: Value) -> String {
    let world = World::new();
    let user = json!({"username": "ingest", "password": "hunter2"});
    for (name, entries) in [
        ("kafka-ca", json!({"ca.crt": "an authority"})),
        ("kafka-user", user.clone()),
        ("clickhouse-user", user),
    ] {
        world.server.put(&format!("/api/v1/namespaces/telemetry/secrets/{name}"), secret(entries));
    }
    let pool = format!("{NAMESPACE}/{plural}/prod");
    let object = json!({"apiVersion": "millrace.dev/v1alpha1", "kind": kind, "metadata": {},
        "spec": spec});
    world.server.put(&pool, object);
    for _ in 0..3 {
        world.reconcile::<R>(&pool).await.unwrap();
        world.finish_rollouts();
    }
    let mut text = String::new();
    for (path, object) in world.server.select(|path| {
        let workload = path.starts_with("/apis/apps/v1/");
        workload || path.contains("/configmaps/")
    }) {
        if let Some(config) = object["data"]["collector.yaml"].as_str() {
            writeln!(text, "# {path}\n{config}").unwrap();
        } else {
            let template = serde_json::to_string_pretty(&object["spec"]["template"]).unwrap();
            writeln!(text, "# {path}\n{template}\n").unwrap();
        }
    }
    text
}

fn compare(name: &str, made: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reconcilers/released");
    let path = path.join(format!("{name}.txt"));
    if env::var_os("WRITE_RELEASED").is_some() {
        fs::write(&path, made).unwrap();
    }
    let released = fs::read_to_string(&path).unwrap();
    let differing: Vec<String> = (1..)
        .zip(released.lines().zip(made.lines().chain(std::iter::repeat("(nothing)"))))
        .filter(|(_, (released, made))| released != made)
        .map(|(line, (released, made))| format!("{name}.txt:{line}: {released} | {made}"))
        .take(LINES_TOLD)
        .collect();
    let more = made.lines().count() - released.lines().count().min(made.lines().count());
    assert!(
        differing.is_empty() && more == 0,
        "an upgrade of the operator would replace the pods of users ({more} lines more):\n{}",
        differing.join("\n")
    );
}

/// Scenario: pools with the least that a spec may say, and with all that concerns their pods.
/// Guarantee: templates and configurations are, letter by letter, what released operators made of
/// them, so that upgrading the operator alone restarts nothing.
#[tokio::test]
async fn what_pods_are_made_from_is_as_released() {
    for (name, spec) in gateway_specs() {
        compare(name, &made::<GatewayPools>("GatewayPool", "gatewaypools", spec).await);
    }
    for (name, spec) in edge_specs() {
        compare(name, &made::<EdgePools>("EdgePool", "edgepools", spec).await);
    }
}
