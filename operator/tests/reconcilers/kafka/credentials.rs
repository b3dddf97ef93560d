//! Whom credentials reach: those for administration the operator alone, and the operator's own AWS
//! identity only pipelines that may use it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use millrace_crds::v1alpha1::KafkaConnection;
use millrace_operator::controllers::edge::EdgePools;
use millrace_operator::controllers::gateway::GatewayPools;
use millrace_operator::controllers::pipeline::Pipelines;
use millrace_operator::controllers::topic::Topics;
use millrace_operator::kafka::lag_cache::{LagQuery, LagSource};
use millrace_operator::kafka::{Brokers, KafkaLag, Pace, Sessions};
use millrace_operator::outbound::Outbound;
use serde_json::{Value, json};

use crate::reconcilers::support::apiserver::Verdict;
use crate::reconcilers::support::world::World;

const BASE: &str = "/apis/millrace.dev/v1alpha1/namespaces/telemetry";
const SECRETS: &str = "/api/v1/namespaces/telemetry/secrets";
const KEYS: [&str; 8] =
    ["username", "password", "tls.crt", "tls.key", "ca.crt", "secret", "id", "token"];

/// One login of each type, with keys of one Secret.
fn kafka_logins(secret: &str) -> Vec<Value> {
    let key = |key: &str| json!({"name": secret, "key": key});
    let password = |type_: &str| {
        let (username, password) = (key("username"), key("password"));
        json!({"type": type_, "usernameSecret": username, "passwordSecret": password})
    };
    vec![
        password("ScramSha512"),
        password("ScramSha256"),
        password("Plain"),
        json!({"type": "Tls", "certificateSecret": {"name": secret}}),
        json!({"type": "OAuthBearer", "tokenEndpoint": "https://idp/token", "clientId": "millrace",
            "clientSecret": key("secret"), "ca": {"secretName": secret}}),
        json!({"type": "AwsMskIam", "region": "eu-central-1", "accessKeyIdSecret": key("id"),
            "secretAccessKeySecret": key("secret")}),
    ]
}

/// The same for ClickHouse.
fn clickhouse_logins(secret: &str) -> Vec<Value> {
    let key = |key: &str| json!({"name": secret, "key": key});
    vec![
        json!({"type": "Password", "usernameSecret": key("username"),
            "passwordSecret": key("password")}),
        json!({"type": "Tls", "username": "u", "certificateSecret": {"name": secret}}),
        json!({"type": "Token", "tokenSecret": key("token")}),
    ]
}

/// Each type of login for data with each type for administration.
fn connections() -> Vec<(Value, Value)> {
    let pairs = |logins: fn(&str) -> Vec<Value>, target: Value| {
        let mut all = Vec::new();
        for data in logins("data-login") {
            for admin in logins("admin-login") {
                let mut target = target.clone();
                target["authentication"] = data.clone();
                target["admin"] = json!({"authentication": admin});
                all.push(target);
            }
        }
        all
    };
    let kafka = pairs(kafka_logins, json!({"bootstrapServers": ["kafka:9093"], "tls": {}}));
    let clickhouse = pairs(clickhouse_logins, json!({"endpoints": ["https://clickhouse:8443"]}));
    kafka.into_iter().zip(clickhouse.into_iter().cycle()).collect()
}

fn world() -> World {
    let world = World::new();
    let text = serde_json::to_value(k8s_openapi::ByteString("x".into())).unwrap();
    let data: Value = KEYS.iter().map(|key| ((*key).to_owned(), text.clone())).collect();
    for name in ["data-login", "admin-login"] {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {}, "data": data});
        world.server.put(&format!("{SECRETS}/{name}"), secret);
    }
    world
}

/// Asserts that of all objects only those of `readers` name the Secret for administration, and that
/// `workload` names the one for data.
fn assert_separate(world: &World, readers: &[&str], workload: &str, case: &Value) {
    for (path, object) in world.server.snapshot() {
        let reads = readers.iter().any(|kind| path.contains(kind)) || path.starts_with(SECRETS);
        assert!(reads || !object.to_string().contains("admin-login"), "{path}: {case}\n{object}");
    }
    let workloads = world.server.select(|path| path.contains(workload));
    assert_eq!(workloads.len(), 1, "{workload}: {case}");
    assert!(workloads[0].1.to_string().contains("data-login"), "{workload}: {case}");
}

/// Scenario: a pipeline with each type of login for data and for administration. Guarantee: its
/// EdgePool and the workloads, configurations and all else of its pools never name the Secret for
/// administration. The operator reads it from the topics, the schema and the GatewayPool (for lag).
#[tokio::test]
async fn no_pool_of_a_pipeline_gets_the_credentials_for_administration() {
    for (kafka, clickhouse) in connections() {
        let world = world();
        let pipeline = format!("{BASE}/telemetrypipelines/prod");
        world.server.put(
            &pipeline,
            json!({
                "apiVersion": "millrace.dev/v1alpha1", "kind": "TelemetryPipeline", "metadata": {},
                "spec": {"kafka": kafka, "clickhouse": clickhouse, "signals": {"traces": {}},
                    "edges": [{"name": "clients"}]},
            }),
        );
        world.reconcile::<Pipelines>(&pipeline).await.unwrap();
        for (child, status) in [
            ("telemetrytopics/prod-traces", json!({"partitions": 12})),
            ("telemetrytopics/prod-traces-dead-letter", json!({"partitions": 1})),
            ("telemetryschemas/prod", json!({"revision": "abc"})),
        ] {
            let conditions = [("Ready", true), ("SecretsFound", true)];
            world.say(&format!("{BASE}/{child}"), 0, &conditions, status);
        }
        world.reconcile::<Pipelines>(&pipeline).await.unwrap();
        world.reconcile::<EdgePools>(&format!("{BASE}/edgepools/prod-clients")).await.unwrap();
        world.reconcile::<GatewayPools>(&format!("{BASE}/gatewaypools/prod")).await.unwrap();
        let readers =
            ["/telemetrypipelines/", "/telemetrytopics/", "/telemetryschemas/", "/gatewaypools/"];
        for workload in ["/deployments/prod-clients-edge", "/statefulsets/prod-gateway"] {
            assert_separate(&world, &readers, workload, &kafka);
        }
        let topic = world.server.get(&format!("{BASE}/telemetrytopics/prod-traces")).unwrap();
        assert!(topic.to_string().contains("admin-login"), "{topic}");
    }
}

/// Scenario: an EdgePool and a GatewayPool of their own, whose specs have credentials for
/// administration of each type. Guarantee: no object that the operator creates for them names them.
#[tokio::test]
async fn no_pool_passes_on_its_credentials_for_administration() {
    for (kafka, clickhouse) in connections() {
        let world = world();
        let (edge, gateway) = (format!("{BASE}/edgepools/own"), format!("{BASE}/gatewaypools/own"));
        let pool = |kind: &str, mut spec: Value| {
            spec["kafka"] = kafka.clone();
            spec["signals"] = json!({"traces": {}});
            let version = "millrace.dev/v1alpha1";
            json!({"apiVersion": version, "kind": kind, "metadata": {}, "spec": spec})
        };
        world.server.put(&edge, pool("EdgePool", json!({})));
        world.server.put(&gateway, pool("GatewayPool", json!({"clickhouse": clickhouse})));
        world.reconcile::<EdgePools>(&edge).await.unwrap();
        world.reconcile::<GatewayPools>(&gateway).await.unwrap();
        for workload in ["/deployments/own-edge", "/statefulsets/own-gateway"] {
            assert_separate(&world, &["/edgepools/", "/gatewaypools/"], workload, &kafka);
        }
    }
}

/// Scenario: a connection with a Secret is resolved again and again, and then can't be used.
/// Guarantee: the Secret is read once, and again after the failure.
#[tokio::test]
async fn credentials_of_a_connection_are_read_again_once_it_fails() {
    let world = world();
    let reads = Arc::new(AtomicUsize::new(0));
    let counted = reads.clone();
    world.server.set_judge(Some(Box::new(move |_, path| {
        counted.fetch_add(usize::from(path.starts_with(SECRETS)), Ordering::SeqCst);
        (Verdict::Do, 0)
    })));
    // No host but this is allowed, so that the connection fails at once.
    let outbound = Outbound::new(vec!["other".parse().unwrap()], None);
    let sessions = Sessions::new(Pace::AT_ONCE).bounded_by(outbound);
    let (client, key) =
        (world.server.client(), |key: &str| json!({"name": "data-login", "key": key}));
    let kafka: KafkaConnection = serde_json::from_value(json!({
        "bootstrapServers": ["kafka:9092"],
        "authentication": {"type": "ScramSha512", "usernameSecret": key("username"),
            "passwordSecret": key("password")},
    }))
    .unwrap();
    for _ in 0..3 {
        sessions.resolve_connection(&client, "telemetry", &kafka).await.unwrap();
    }
    assert_eq!(reads.load(Ordering::SeqCst), 1);
    let query = LagQuery {
        namespace: "telemetry".into(),
        kafka: kafka.clone(),
        group: "g".into(),
        topics: vec!["t".into()],
        bound: Duration::from_secs(60),
    };
    KafkaLag::new(client.clone(), sessions.clone()).observe_lag(&query).await.unwrap_err();
    assert_eq!(reads.load(Ordering::SeqCst), 1);
    sessions.resolve_connection(&client, "telemetry", &kafka).await.unwrap();
    assert_eq!(reads.load(Ordering::SeqCst), 2);
}

/// Scenario: a topic in Amazon MSK without access keys, in a namespace for which the operator's own
/// AWS identity is not. Guarantee: nothing is signed or sent, and the condition names the remedies.
#[tokio::test(flavor = "multi_thread")]
async fn the_operators_aws_identity_is_only_for_listed_namespaces() {
    let (world, topic) = (World::new(), format!("{BASE}/telemetrytopics/prod"));
    world.server.put(
        &topic,
        json!({
            "apiVersion": "millrace.dev/v1alpha1", "kind": "TelemetryTopic", "metadata": {},
            "spec": {
                "kafka": {"bootstrapServers": ["127.0.0.1:9"], "tls": {},
                    "authentication": {"type": "AwsMskIam", "region": "eu-central-1"}},
                "topicName": "otlp_traces",
            },
        }),
    );
    world.reconcile::<Topics>(&topic).await.unwrap_err();
    let (status, reason, _) = world.condition(&topic, "Ready").unwrap();
    assert_eq!((&*status, &*reason), ("False", "KafkaAuthenticationFailed"));
    let message = world.message(&topic, "Ready");
    for remedy in ["namespace telemetry", "aws.identityNamespaces", "kafka.admin.authentication"] {
        assert!(message.contains(remedy), "{message}");
    }
}
