//! What must never be seen: an object that says Ready while something it stands for is not so. And
//! what two worlds are compared by.

use std::collections::BTreeMap;

use millrace_ddl::Observed;
use serde_json::Value;

use crate::reconcilers::support::apiserver::{ApiServer, Change};
use crate::simulation::instance::{OURS, own_path, plural};
use crate::simulation::outside::{Beyond, Databases};

/// Checks every status that the changes from number `from` on wrote. What an operator read may be
/// as old as change number `since`: a fact counts if it was so at any time after that.
pub(crate) fn check(
    server: &ApiServer,
    beyond: &Beyond,
    from: usize,
    since: usize,
) -> Result<(), String> {
    let log = server.log_since(0);
    let tables = beyond.take_tables();
    for (index, change) in log.iter().enumerate().skip(from) {
        let Some(value) = &change.value else { continue };
        if !change.by_client || !OURS.contains(&plural(&change.path)) || !says_ready(value) {
            continue;
        }
        let seen = Seen { log: &log[..=index], since: since.min(index), tables: &tables };
        conditions(&seen, beyond, &change.path, value)
            .map_err(|fact| format!("{} says Ready, but {fact}", change.path))?;
    }
    Ok(())
}

/// Whether the object says Ready for its newest spec.
pub(crate) fn says_ready(value: &Value) -> bool {
    let generation = &value["metadata"]["generation"];
    let conditions = value["status"]["conditions"].as_array().map(Vec::as_slice);
    value["status"]["observedGeneration"] == *generation
        && conditions.unwrap_or_default().iter().any(|it| {
            it["type"] == "Ready"
                && it["status"] == "True"
                && it["observedGeneration"] == *generation
        })
}

/// Whether the object says, for its newest spec, that only a person's consent is missing.
pub(crate) fn waits_for_a_person(value: &Value) -> bool {
    let generation = &value["metadata"]["generation"];
    let conditions = value["status"]["conditions"].as_array().map(Vec::as_slice);
    value["status"]["observedGeneration"] == *generation
        && conditions.unwrap_or_default().iter().any(|it| {
            let reason = it["reason"].as_str().unwrap_or("");
            it["type"] == "Ready"
                && it["observedGeneration"] == *generation
                && ["ConsentRequired", "ApprovalRequired"].contains(&reason)
        })
}

/// What the object says of Ready, for people.
pub(crate) fn ready(value: &Value) -> String {
    let conditions = value["status"]["conditions"].as_array().map(Vec::as_slice);
    let ready = conditions.unwrap_or_default().iter().find(|it| it["type"] == "Ready");
    ready.map_or_else(|| "nothing".into(), |it| format!("{}: {}", it["status"], it["message"]))
}

struct Seen<'a> {
    log: &'a [Change],
    since: usize,
    /// What ClickHouse had at any time that could have been read.
    tables: &'a [Databases],
}

impl Seen<'_> {
    /// Whether the object at `path` was so at any time that could have been read.
    fn was(&self, path: &str, so: impl Fn(&Value) -> bool) -> bool {
        let (before, after) = self.log.split_at(self.since);
        let last = before.iter().rev().find(|change| *change.path == *path);
        let later = after.iter().filter(|change| *change.path == *path);
        last.into_iter().chain(later).filter_map(|change| change.value.as_deref()).any(so)
    }
}

fn conditions(seen: &Seen<'_>, beyond: &Beyond, path: &str, value: &Value) -> Result<(), String> {
    let name = value["metadata"]["name"].as_str().unwrap_or("");
    let namespace = path.split('/').nth(5).unwrap_or("");
    let spec = &value["spec"];
    let image = value["status"]["image"].as_str().unwrap_or("").to_owned();
    let workload = |plural: &str, role: &str| {
        let workload = format!("/apis/apps/v1/namespaces/{namespace}/{plural}/{name}-{role}");
        let so = |it: &Value| {
            is_complete(plural, it)
                && it["spec"]["template"]["spec"]["containers"][0]["image"] == *image
        };
        let expected = expected_image(spec);
        if image != expected {
            return Err(format!("its image is {image}, not {expected}"));
        }
        seen.was(&workload, so).then_some(()).ok_or(format!("{workload} was not complete"))
    };
    match plural(path) {
        "edgepools" if spec["mode"] == "DaemonSet" => workload("daemonsets", "edge"),
        "edgepools" => workload("deployments", "edge"),
        "gatewaypools" => workload("statefulsets", "gateway"),
        "telemetrytopics" => {
            let asked = spec["partitions"].as_u64().unwrap_or(1);
            let topic = spec["topicName"].as_str().unwrap_or(name);
            let has = beyond.topics().get(topic).map_or(0, |it| u64::from(it.partitions));
            (has >= asked).then_some(()).ok_or(format!("topic {topic} has {has} partitions"))
        }
        "telemetryschemas" => {
            let database = spec["clickhouse"]["database"].as_str().unwrap_or("otel");
            let signals = || spec["signals"].as_object().into_iter().flatten();
            let so = |all: &&Databases| {
                let Some(there) = all.get(database) else { return false };
                signals().all(|(signal, settings)| has_tables(there, signal, &settings["ttl"]))
            };
            let found = seen.tables.iter().find(so);
            found.map(|_| ()).ok_or(format!("database {database} did not have its tables"))
        }
        "telemetrypipelines" => {
            let signals = spec["signals"].as_object().map(|it| it.keys().cloned());
            let topics = signals.into_iter().flatten().flat_map(|signal| {
                let topic = own_path("telemetrytopics", &format!("{name}-{signal}"));
                [format!("{topic}-dead-letter"), topic]
            });
            let edges = spec["edges"].as_array().map_or(&[][..], Vec::as_slice);
            let named = edges.iter().filter_map(|edge| edge["name"].as_str());
            let meant = edges.is_empty().then_some("clients");
            let edges = named.chain(meant);
            let edges = edges.map(|edge| own_path("edgepools", &format!("{name}-{edge}")));
            let others = ["telemetryschemas", "gatewaypools"];
            let others = others.map(|plural| own_path(plural, name));
            for child in topics.chain(edges).chain(others) {
                if !seen.was(&child, says_ready) {
                    return Err(format!("{child} was not ready"));
                }
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Whether a database has tables of a signal, and each keeps its rows for the time asked for; read
/// independently of the operator's code.
fn has_tables(there: &Observed, signal: &str, ttl: &Value) -> bool {
    let tables = there.tables.iter().filter(|(name, _)| name.contains(signal));
    let days = ttl.as_str().and_then(|ttl| ttl.strip_suffix('d')).unwrap_or("30");
    let kept = format!("toIntervalDay({days})");
    let ttls: Vec<&str> = tables.filter_map(|(_, table)| table.ttl()).collect();
    !ttls.is_empty() && ttls.iter().all(|ttl| ttl.contains(&kept))
}

fn expected_image(spec: &Value) -> String {
    let version = spec["collector"]["version"].as_str().unwrap_or("0.1.0");
    let allocator = spec["collector"]["allocator"].as_str().unwrap_or("System");
    format!("millrace/collector:{version}-{}", allocator.to_lowercase())
}

/// The workload controllers' own words, read independently of the operator's code.
fn is_complete(plural: &str, it: &Value) -> bool {
    let status = &it["status"];
    let wanted = match plural {
        "daemonsets" => status["desiredNumberScheduled"].clone(),
        _ => it["spec"]["replicas"].clone(),
    };
    let counts: &[&str] = match plural {
        "daemonsets" => &["updatedNumberScheduled", "numberAvailable"],
        _ => &["replicas", "updatedReplicas", "availableReplicas"],
    };
    status["observedGeneration"] == it["metadata"]["generation"]
        && counts.iter().all(|count| status[*count] == wanted)
}

/// Everything in the cluster without what two equal worlds may differ in.
pub(crate) fn essence(server: &ApiServer) -> BTreeMap<String, Value> {
    let mut all = server.snapshot();
    // A leftover that a user relabelled is the user's, until its owner goes, and so are the pods of
    // a workload. One that is wanted has our labels again.
    let taken = all.values().filter(|value| is_taken_away(value));
    let taken: Vec<(Value, Value)> =
        taken.map(|it| (it["kind"].clone(), it["metadata"]["name"].clone())).collect();
    let is_of_taken = |value: &Value| {
        let owners = value["metadata"]["ownerReferences"].as_array().into_iter().flatten();
        owners.map(|it| (it["kind"].clone(), it["name"].clone())).any(|it| taken.contains(&it))
    };
    all.retain(|_, value| !is_taken_away(value) && !is_of_taken(value));
    all.values_mut().for_each(strip);
    all
}

/// Takes away the gateways of pipelines, and what the pipelines tell of them.
pub(crate) fn forget_gateways(all: &mut BTreeMap<String, Value>) {
    let is_gateways = |value: &Value| {
        let component = &value["metadata"]["labels"]["app.kubernetes.io/component"];
        value["kind"] == "GatewayPool" || component == "gateway"
    };
    all.retain(|_, value| !is_gateways(value));
    for value in all.values_mut().filter(|value| value["kind"] == "TelemetryPipeline") {
        let Some(status) = value["status"].as_object_mut() else { continue };
        status.retain(|field, _| field != "gateway" && field != "pods");
        if let Some(conditions) = status.get_mut("conditions").and_then(Value::as_array_mut) {
            conditions.retain(|condition| condition["type"] == "SchemaReady");
        }
    }
}

fn is_taken_away(value: &Value) -> bool {
    let labels = value["metadata"]["labels"].as_object();
    labels.is_some_and(|labels| labels.values().any(|it| *it == "theirs" || *it == "them"))
}

/// Whether an edge pool goes on with a change after the first nodes had it.
pub(crate) fn has_watched_canaries(value: &Value) -> bool {
    let pending = &value["status"]["pendingChange"];
    let reasons = ["RolloutPromoting", "RolloutTooFewRecords"];
    pending["reason"].as_str().is_some_and(|reason| reasons.contains(&reason))
}

/// Fields that tell of the way and not of the end: ids, times, salted digests, what was learned.
const OF_THE_WAY: [&str; 17] = [
    "uid",
    "generation",
    "observedGeneration",
    "settingsGeneration",
    "lastTransitionTime",
    "millrace.dev/applied-hash",
    "millrace.dev/secrets-digest",
    "decidedAt",
    "observedAt",
    "sizing",
    // What came of it stands in the StatefulSet; this says how, and in how many tries.
    "rollout",
    "pendingChange",
    "lag",
    "resourceVersion",
    "planHash",
    // What was last verified stays in the status while a new plan waits for a person.
    "revision",
    "schemaRevision",
];

fn strip(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(strip);
            fields.retain(|key, value| !OF_THE_WAY.contains(&key.as_str()) && !is_nothing(value));
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}

/// The API server drops nulls and keeps empty lists and maps only where someone wrote them.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

/// The first difference between two worlds, for people.
pub(crate) fn difference(
    wanted: &BTreeMap<String, Value>,
    found: &BTreeMap<String, Value>,
) -> Option<String> {
    for path in wanted.keys().chain(found.keys()) {
        match (wanted.get(path), found.get(path)) {
            (Some(_), None) => return Some(format!("{path} is missing")),
            (None, Some(_)) => return Some(format!("{path} is left over")),
            (Some(a), Some(b)) if a != b => return Some(format!("{path}: {}", first(a, b, ""))),
            _ => {}
        }
    }
    None
}

fn first(a: &Value, b: &Value, at: &str) -> String {
    match (a, b) {
        (Value::Object(x), Value::Object(y)) => {
            let keys = x.keys().chain(y.keys());
            let null = &Value::Null;
            let differs = |key: &&String| x.get(*key) != y.get(*key);
            keys.into_iter().find(differs).map_or_else(String::new, |key| {
                let (x, y) = (x.get(key).unwrap_or(null), y.get(key).unwrap_or(null));
                first(x, y, &format!("{at}.{key}"))
            })
        }
        (Value::Array(x), Value::Array(y)) if x.len() == y.len() => {
            let index = x.iter().zip(y).position(|(x, y)| x != y).unwrap_or(0);
            first(&x[index], &y[index], &format!("{at}.{index}"))
        }
        _ => format!("{at} is {b}, in the quiet world {a}"),
    }
}
