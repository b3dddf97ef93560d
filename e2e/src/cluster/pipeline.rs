//! A `TelemetryPipeline` for tests: in a namespace of its own, with topics and a database of its
//! own, on the local stack's Kafka and ClickHouse.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use millrace_stack::Stack;
use serde_json::{Value, json};

use crate::cluster::{Cluster, Condition, Namespace};
use crate::http;
use crate::loadgen::Load;

/// The pipeline's name in its namespace.
pub const NAME: &str = "p";
/// The EdgePool of its edge pool for clients.
pub const EDGE: &str = "p-clients";
/// What the operator makes, as a selector.
pub const OURS: &str = "app.kubernetes.io/managed-by=millrace-operator";
const PIPELINES: &str = "telemetrypipelines";
/// Every kind the operator makes for a pipeline, and its own, which is the last.
pub const PARTS: [&str; 12] = [
    "telemetrytopics",
    "telemetryschemas",
    "edgepools",
    "gatewaypools",
    "configmaps",
    "serviceaccounts",
    "services",
    "deployments",
    "statefulsets",
    "poddisruptionbudgets",
    "networkpolicies",
    PIPELINES,
];
/// From apply to Ready on the local stack: images are there, so pods' start is what it takes.
pub const READY_LIMIT: Duration = Duration::from_secs(120);

/// From a condition to the event that tells of it.
const EVENT_LIMIT: Duration = Duration::from_secs(30);

/// What pods ask of the node: so little that those of six tests, 30 of them, find room on one of two
/// processors.
#[must_use]
pub fn resources() -> Value {
    json!({"requests": {"cpu": "50m"}})
}

/// What a test may want otherwise than usual.
#[derive(Debug, Clone)]
pub struct Wish {
    /// Kafka's address.
    pub kafka: String,
    /// ClickHouse's URL.
    pub clickhouse: String,
    /// Kafka's password; the right one when absent.
    pub kafka_password: Option<String>,
    /// ClickHouse's password; the right one when absent.
    pub clickhouse_password: Option<String>,
    /// The one signal: `traces` or `logs`.
    pub signal: &'static str,
    /// Signals beside it.
    pub also: &'static [&'static str],
    /// The pod security level of its namespace.
    pub level: &'static str,
    /// Partitions of the signal's topic.
    pub partitions: u32,
    /// The allocator of the collector's image.
    pub allocator: &'static str,
    /// The collector's version; the operator's own when absent.
    pub version: Option<&'static str>,
    /// The whole of spec.edges; one pool of one pod, for clients, when absent.
    pub edges: Option<Value>,
    /// What becomes of its topics and tables: `Retain` or `Delete`.
    pub deletion_policy: &'static str,
    /// A fixed number of gateways; sized by lag, 1 or 2, when absent.
    pub gateways: Option<u32>,
    /// The whole of spec.gateway; the usual when absent.
    pub gateway: Option<Value>,
    /// How long one changed gateway is watched first; changes are not judged when absent.
    pub canary_seconds: Option<u32>,
}

impl Wish {
    /// A pipeline that works.
    pub fn usual(stack: &Stack) -> Self {
        Self {
            kafka: stack.kafka_bootstrap(),
            clickhouse: stack.clickhouse_url(),
            kafka_password: None,
            clickhouse_password: None,
            signal: "traces",
            also: &[],
            level: "restricted",
            partitions: 4,
            allocator: "System",
            version: None,
            edges: None,
            deletion_policy: "Retain",
            gateways: None,
            gateway: None,
            canary_seconds: None,
        }
    }
}

/// A pipeline that was applied.
#[derive(Debug)]
pub struct Pipeline<'c> {
    /// Its namespace; the database and topics are named after it.
    pub namespace: Namespace<'c>,
    cluster: &'c Cluster,
    wish: Wish,
}

impl<'c> Pipeline<'c> {
    /// Make a namespace, the secrets and the pipeline.
    ///
    /// # Errors
    /// When the API server refuses any of them.
    pub fn apply(stack: &Stack, cluster: &'c Cluster, purpose: &str, wish: Wish) -> Result<Self> {
        let namespace = cluster.namespace_enforcing(wish.level, purpose)?;
        let kafka = (stack.kafka_user_file(), stack.kafka_password_file());
        let clickhouse = (stack.clickhouse_user_file(), stack.clickhouse_password_file());
        for (name, (user, password), other) in [
            ("kafka-user", kafka, &wish.kafka_password),
            ("clickhouse-user", clickhouse, &wish.clickhouse_password),
        ] {
            let password = other.clone().map_or_else(|| read(&password), Ok)?;
            let data = json!({"username": read(&user)?, "password": password});
            let secret = json!({"apiVersion": "v1", "kind": "Secret",
                "metadata": {"name": name}, "stringData": data});
            cluster.apply(&namespace.name, &secret.to_string())?;
        }
        let pipeline = Self { namespace, cluster, wish };
        cluster.apply(&pipeline.namespace.name, &pipeline.document())?;
        Ok(pipeline)
    }

    /// Apply it again with another wish.
    ///
    /// # Errors
    /// When the API server refuses it.
    pub fn change(&mut self, change: impl FnOnce(&mut Wish)) -> Result<()> {
        change(&mut self.wish);
        self.cluster.apply(&self.namespace.name, &self.document())
    }

    /// Its collectors' pods.
    ///
    /// # Errors
    /// When they can't be listed.
    pub fn pods(&self) -> Result<Vec<Value>> {
        self.cluster.list(&self.namespace.name, "pods", OURS)
    }

    /// The pipeline and what the operator made for it, by kind and name.
    ///
    /// # Errors
    /// When they can't be listed.
    pub fn owned(&self) -> Result<BTreeMap<String, Value>> {
        // Two calls for all kinds: each starts a kubectl.
        let made = &PARTS[..PARTS.len() - 1];
        let namespace = &self.namespace.name;
        let mut objects = self.cluster.list(namespace, &made.join(","), OURS)?;
        objects.extend(self.cluster.list(namespace, PIPELINES, "")?);
        let named = objects.into_iter().map(|object| (key(&object), object));
        Ok(named.collect())
    }

    /// Each collector's pod and how often it was started again, and the generations of what they
    /// are made from: equal before and after what must touch none of them.
    ///
    /// # Errors
    /// When they can't be listed.
    pub fn lives(&self) -> Result<Vec<(Value, Value)>> {
        let pods = self.pods()?.into_iter().map(|pod| {
            let restarts = &pod["status"]["containerStatuses"][0]["restartCount"];
            (pod["metadata"]["uid"].clone(), restarts.clone())
        });
        let sets = self.cluster.list(&self.namespace.name, "deployments,statefulsets", OURS)?;
        let sets = sets.into_iter().map(|set| {
            let metadata = &set["metadata"];
            (metadata["name"].clone(), metadata["generation"].clone())
        });
        Ok(pods.chain(sets).collect())
    }

    /// What the database is called, and what the topics' names begin with.
    pub fn database(&self) -> String {
        database(&self.namespace.name)
    }

    /// ClickHouse's URL, as the spec has it.
    pub fn clickhouse(&self) -> &str {
        &self.wish.clickhouse
    }

    fn document(&self) -> String {
        let Wish { kafka, clickhouse, signal, also, allocator, version, .. } = &self.wish;
        let database = self.database();
        let signals: serde_json::Map<String, Value> = also
            .iter()
            .chain([signal])
            .map(|signal| {
                let topic = json!({"partitions": self.wish.partitions, "replicationFactor": 1});
                let name = format!("{database}_{signal}");
                ((*signal).to_owned(), json!({"topicName": name, "topic": topic}))
            })
            .collect();
        let resources = resources();
        let mut document = json!({
                   "apiVersion": "millrace.dev/v1alpha1",
                   "kind": "TelemetryPipeline",
                   "metadata": {"name": NAME},
                   "spec": {
                       "kafka": {
                           "bootstrapServers": [kafka],
                           "authentication": {"type": "ScramSha512", "usernameSecret": {"name": "kafka-user", "key": "username"},
        "passwordSecret": {"name": "kafka-user", "key": "password"}},
                       },
                       "clickhouse": {
                           "endpoints": [clickhouse],
                           "database": database,
                           "authentication": {"type": "Password", "usernameSecret": {"name": "clickhouse-user", "key": "username"},
        "passwordSecret": {"name": "clickhouse-user", "key": "password"}},
                       },
                       "signals": signals,
                       "edges": [{"name": "clients", "replicas": 1, "resources": resources}],
                       "gateway": {"scaling": {"minReplicas": 1, "maxReplicas": 2}, "resources": resources},
                       "collector": {"allocator": allocator},
                       "deletionPolicy": self.wish.deletion_policy,
                   },
               });
        let spec = &mut document["spec"];
        if let Some(version) = version {
            spec["collector"]["version"] = (*version).into();
        }
        if let Some(edges) = &self.wish.edges {
            spec["edges"] = edges.clone();
        }
        if let Some(gateway) = &self.wish.gateway {
            spec["gateway"] = gateway.clone();
        }
        if let Some(gateways) = self.wish.gateways {
            spec["gateway"]["replicas"] = gateways.into();
        }
        if let Some(seconds) = self.wish.canary_seconds {
            spec["rollout"] = json!({"canary": {"pods": 1, "analysisSeconds": seconds}});
        }
        document.to_string()
    }

    /// Wait for Ready=True of the newest generation.
    ///
    /// # Errors
    /// When it isn't in time; the message says what the condition was.
    pub fn ready(&self) -> Result<Condition> {
        let object = (&*self.namespace.name, "telemetrypipeline", NAME);
        self.cluster.wait_for(object, ("Ready", "True", ""), READY_LIMIT)
    }

    /// Wait for Ready=False with a reason, and for the event that tells of it.
    ///
    /// # Errors
    /// When either is not seen in time.
    pub fn refused(&self, reason: &str) -> Result<Condition> {
        let object = (&*self.namespace.name, "telemetrypipeline", NAME);
        let seen = self.cluster.wait_for(object, ("Ready", "False", reason), READY_LIMIT)?;
        self.cluster.expect_event(&self.namespace.name, reason, EVENT_LIMIT)?;
        Ok(seen)
    }

    /// A load for this pipeline: [`load`].
    ///
    /// # Errors
    /// When there is no edge Service, or the engine's user can't be read.
    pub fn load(&self, stack: &Stack, seed: u64, count: u64, rate: Option<u64>) -> Result<Load> {
        load(stack, self.cluster, &self.namespace.name, seed, count, rate)
    }

    /// Rows in the spans' table.
    ///
    /// # Errors
    /// When the engine doesn't answer with a number.
    pub fn rows(&self, stack: &Stack) -> Result<u64> {
        let text = self.query(stack, "SELECT count() FROM DATABASE.otel_traces")?;
        text.trim().parse().with_context(|| format!("no count: {text}"))
    }

    /// Ask the engine something; `DATABASE` stands for the pipeline's own.
    ///
    /// # Errors
    /// When the engine doesn't answer, or refuses: the message is its own.
    pub fn query(&self, stack: &Stack, sql: &str) -> Result<String> {
        query(stack, &sql.replace("DATABASE", &self.database()))
    }
}

/// Asks the stack's engine something.
///
/// # Errors
/// When the engine doesn't answer, or refuses: the message is its own.
pub fn query(stack: &Stack, sql: &str) -> Result<String> {
    let user = read(&stack.clickhouse_user_file())?;
    let password = read(&stack.clickhouse_password_file())?;
    let headers = [("x-clickhouse-user", &*user), ("x-clickhouse-key", &*password)];
    let address = stack.clickhouse_url().trim_start_matches("http://").parse()?;
    let answer = http::send(address, "POST", "/", &headers, sql.as_bytes())?;
    if answer.status != 200 {
        bail!("{sql}: {} {}", answer.status, answer.text());
    }
    Ok(answer.text())
}

/// A load for a namespace's pipeline: lean spans over gRPC with gzip to its edge for clients,
/// judged in the namespace's database.
///
/// # Errors
/// When there is no edge Service, or the engine's user can't be read.
pub fn load(
    stack: &Stack,
    cluster: &Cluster,
    namespace: &str,
    seed: u64,
    count: u64,
    rate: Option<u64>,
) -> Result<Load> {
    let endpoint = edge_endpoint(cluster, namespace, EDGE)?;
    lean_spans(stack, endpoint, database(namespace), seed, count, rate)
}

/// The address of an edge pool's Service for OTLP over gRPC.
///
/// # Errors
/// When there is no such Service.
pub fn edge_endpoint(cluster: &Cluster, namespace: &str, pool: &str) -> Result<String> {
    let service = cluster.get(namespace, "service", &format!("{pool}-edge"))?;
    let address = service["spec"]["clusterIP"].as_str();
    let address = address.context("the edge's Service has no address")?;
    Ok(format!("http://{address}:4317"))
}

/// A load of lean spans over gRPC with gzip, judged in a database of the stack's ClickHouse.
///
/// # Errors
/// When the engine's user can't be read.
pub fn lean_spans(
    stack: &Stack,
    endpoint: String,
    database: String,
    seed: u64,
    count: u64,
    rate: Option<u64>,
) -> Result<Load> {
    Ok(Load {
        signal: "traces",
        shape: "lean",
        seed,
        count,
        rate,
        request: None,
        calls: None,
        protocol: "grpc",
        compression: "gzip",
        endpoint,
        clickhouse: stack.clickhouse_url(),
        user: read(&stack.clickhouse_user_file())?,
        password_file: stack.clickhouse_password_file(),
        database,
        attributes: "map",
    })
}

/// An object's kind and name: `networkpolicies/p-gateway`.
fn key(object: &Value) -> String {
    let kind = object["kind"].as_str().unwrap_or_default().to_lowercase();
    let plural = match kind.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None => format!("{kind}s"),
    };
    format!("{plural}/{}", object["metadata"]["name"].as_str().unwrap_or_default())
}

fn database(namespace: &str) -> String {
    namespace.replace('-', "_")
}

fn read(path: &Path) -> Result<String> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()));
    Ok(text?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{PARTS, PIPELINES, key};

    /// Scenario: an object of each kind. Guarantee: its key begins with the kind's plural, as
    /// `PARTS` has it, and the pipeline's own kind is the last there.
    #[test]
    fn objects_are_known_by_kind_and_name() {
        let kinds = [
            "TelemetryTopic",
            "TelemetrySchema",
            "EdgePool",
            "GatewayPool",
            "ConfigMap",
            "ServiceAccount",
            "Service",
            "Deployment",
            "StatefulSet",
            "PodDisruptionBudget",
            "NetworkPolicy",
            "TelemetryPipeline",
        ];
        let keys = kinds.map(|kind| key(&json!({"kind": kind, "metadata": {"name": "p"}})));
        assert_eq!(keys.to_vec(), PARTS.map(|part| format!("{part}/p")));
        assert_eq!(PARTS.last(), Some(&PIPELINES));
    }
}
