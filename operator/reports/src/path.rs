//! The path of records, signal by signal: edge pools, topic, gateway pool, tables; each hop with
//! what statuses and metrics tell. What is not known is absent, never zero.

use std::collections::BTreeMap;

use millrace_crds::TopicName;
use millrace_crds::v1alpha1::Signal;
use serde::Serialize;

use crate::facts::{Facts, PodFacts, Role, Sample};

/// One signal's path.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Path {
    /// traces, logs or metrics.
    pub signal: &'static str,
    /// The edge pools.
    pub edges: Vec<EdgeHop>,
    /// The topic.
    pub topic: TopicHop,
    /// The gateway pool.
    pub gateway: GatewayHop,
    /// The tables.
    pub tables: TablesHop,
}

/// Of how many pods figures are: the others did not answer, so sums and rates lack them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Told {
    /// Pods.
    pub pods: usize,
    /// Pods that answered.
    pub answered: usize,
}

impl Told {
    fn of(pods: &[&PodFacts]) -> Self {
        let answered = pods.iter().filter(|pod| pod.now.is_some()).count();
        Self { pods: pods.len(), answered }
    }

    /// Whether some answered, and some did not.
    #[must_use]
    pub const fn is_partial(self) -> bool {
        self.answered > 0 && self.answered < self.pods
    }
}

/// An edge pool's part.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EdgeHop {
    /// The EdgePool.
    pub pool: String,
    /// Its pods, ready of wanted.
    pub pods: String,
    /// Records per second that it takes in.
    pub in_per_second: Option<f64>,
    /// Records per second that Kafka confirms.
    pub out_per_second: Option<f64>,
    /// Records refused since its processes began: their clients know.
    pub refused: Option<u64>,
    /// The most frequent cause of refusals.
    pub refused_reason: Option<String>,
    /// Records refused per second.
    pub refused_per_second: Option<f64>,
    /// Records held in memory.
    pub held: Option<u64>,
    /// Of how many pods these figures are.
    pub told: Told,
}

/// A topic's part.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TopicHop {
    /// Its name in Kafka.
    pub name: String,
    /// Its partitions, once it was read.
    pub partitions: Option<i32>,
    /// Messages not committed yet.
    pub waiting_messages: Option<u64>,
    /// The age of the oldest, in seconds.
    pub oldest_seconds: Option<f64>,
    /// Messages that retention deleted unread, since the pool was made.
    pub lost_messages: i64,
    /// Of how many gateways the waiting messages are.
    pub told: Told,
}

/// The gateway pool's part.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayHop {
    /// The GatewayPool; none if it could not be read.
    pub pool: Option<String>,
    /// Its pods, ready of wanted.
    pub pods: Option<String>,
    /// Records per second that it reads.
    pub in_per_second: Option<f64>,
    /// Records per second that ClickHouse confirms.
    pub out_per_second: Option<f64>,
    /// Records held in memory.
    pub held: Option<u64>,
    /// Dead letters since the pool was made.
    pub dead_letters: i64,
    /// The most frequent cause of dead letters, of processes that run.
    pub dead_letters_reason: Option<String>,
    /// Of how many pods these figures are.
    pub told: Told,
}

/// The tables' part.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TablesHop {
    /// Their name, with the database; metrics have several.
    pub name: String,
    /// The revision that they have.
    pub revision: Option<String>,
}

/// The paths of a pipeline's signals.
#[must_use]
pub fn paths(facts: &Facts) -> Vec<Path> {
    let signals = facts.pipeline.spec.signals.iter();
    signals.map(|(signal, asked)| path(facts, signal, asked.topic_name.as_ref())).collect()
}

fn path(facts: &Facts, signal: Signal, named: Option<&TopicName>) -> Path {
    let word = signal.as_str();
    let topic = named.map_or(signal.default_topic(), TopicName::as_str);
    let target = &facts.pipeline.spec.clickhouse;
    let many = if signal == Signal::Metrics { "_*" } else { "" };
    let revision = facts.schemas.iter().find_map(|one| one.status.as_ref()?.revision.clone());
    let table = format!("{}.{}_{word}{many}", target.database(), target.table_prefix());
    Path {
        signal: word,
        edges: facts.edges.iter().map(|pool| edge(facts, pool, word)).collect(),
        topic: topic_hop(facts, topic),
        gateway: gateway(facts, word),
        tables: TablesHop { name: table, revision },
    }
}

fn edge(facts: &Facts, pool: &millrace_crds::v1alpha1::EdgePool, signal: &str) -> EdgeHop {
    let name = pool.metadata.name.clone().unwrap_or_default();
    let pods: Vec<&PodFacts> = facts.pods_of(Role::Edge, &name).collect();
    let pods_text = pool.status.as_ref().and_then(|status| status.pods.clone());
    let refused_of = |sample: &Sample| by_signal(&sample.refused, signal);
    EdgeHop {
        pods: pods_text.unwrap_or_else(|| "?/?".to_owned()),
        in_per_second: rate(facts, &pods, |sample| of(&sample.taken, signal)),
        out_per_second: rate(facts, &pods, |sample| of(&sample.passed, signal)),
        refused: sum(&pods, refused_of),
        refused_reason: most_frequent(&pods, signal, |sample| &sample.refused),
        refused_per_second: rate(facts, &pods, refused_of),
        held: sum(&pods, |sample| of(&sample.held, signal)),
        told: Told::of(&pods),
        pool: name,
    }
}

fn topic_hop(facts: &Facts, topic: &str) -> TopicHop {
    let object = facts.topics.iter().find(|one| {
        one.status.as_ref().and_then(|status| status.topic_name.as_deref()) == Some(topic)
    });
    let gateways: Vec<&PodFacts> =
        facts.pods.iter().filter(|pod| pod.role == Role::Gateway).collect();
    let told = gateways.iter().filter_map(|pod| pod.now.as_ref());
    let oldest = told
        .flat_map(|sample| sample.lag_seconds.iter())
        .filter(|((of, _), _)| of == topic)
        .map(|(_, seconds)| *seconds)
        .reduce(f64::max);
    let lost = facts.gateways.iter().filter_map(|pool| pool.status.as_ref()?.data_lost.as_ref());
    let lost = lost.flat_map(|tally| &tally.parts).filter(|part| part.name == topic);
    TopicHop {
        name: topic.to_owned(),
        partitions: object.and_then(|one| one.status.as_ref()?.partitions),
        waiting_messages: sum(&gateways, |sample| {
            let of_topic = sample.lag_messages.iter().filter(|((of, _), _)| of == topic);
            of_topic.map(|(_, messages)| *messages).sum()
        }),
        oldest_seconds: oldest,
        lost_messages: lost.map(|part| part.count).sum(),
        told: Told::of(&gateways),
    }
}

fn gateway(facts: &Facts, signal: &str) -> GatewayHop {
    let pool = facts.gateways.first();
    let name = pool.and_then(|one| one.metadata.name.clone());
    let status = pool.and_then(|one| one.status.as_ref());
    let pods: Vec<&PodFacts> =
        facts.pods_of(Role::Gateway, name.as_deref().unwrap_or_default()).collect();
    let letters = status.and_then(|status| status.dead_letters.as_ref());
    let letters = letters.into_iter().flat_map(|tally| &tally.parts);
    GatewayHop {
        pods: status.and_then(|status| status.pods.clone()),
        in_per_second: rate(facts, &pods, |sample| of(&sample.taken, signal)),
        out_per_second: rate(facts, &pods, |sample| of(&sample.passed, signal)),
        held: sum(&pods, |sample| of(&sample.held, signal)),
        dead_letters: letters.filter(|part| part.name == signal).map(|part| part.count).sum(),
        dead_letters_reason: most_frequent(&pods, signal, |sample| &sample.dead_lettered),
        told: Told::of(&pods),
        pool: name,
    }
}

fn of(counts: &BTreeMap<String, u64>, signal: &str) -> u64 {
    counts.get(signal).copied().unwrap_or_default()
}

fn by_signal(counts: &BTreeMap<(String, String), u64>, signal: &str) -> u64 {
    counts.iter().filter(|((of, _), _)| of == signal).map(|(_, count)| *count).sum()
}

/// The sum over the pods that told; none if no pod did.
fn sum(pods: &[&PodFacts], count: impl Fn(&Sample) -> u64) -> Option<u64> {
    let told: Vec<u64> = pods.iter().filter_map(|pod| pod.now.as_ref()).map(count).collect();
    (!told.is_empty()).then(|| told.iter().sum())
}

/// The sum of the rates of pods that were read twice; none if none was.
fn rate(facts: &Facts, pods: &[&PodFacts], count: impl Fn(&Sample) -> u64) -> Option<f64> {
    let seconds = facts.interval_seconds.filter(|seconds| *seconds > 0.0)?;
    let grown: Vec<u64> = pods
        .iter()
        .filter_map(|pod| pod.readings())
        .map(|(before, now)| count(now).saturating_sub(count(before)))
        .collect();
    (!grown.is_empty()).then(|| grown.iter().sum::<u64>() as f64 / seconds)
}

fn most_frequent(
    pods: &[&PodFacts],
    signal: &str,
    counts: impl Fn(&Sample) -> &BTreeMap<(String, String), u64>,
) -> Option<String> {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for sample in pods.iter().filter_map(|pod| pod.now.as_ref()) {
        for ((of, reason), count) in counts(sample) {
            if of == signal {
                *sums.entry(reason.clone()).or_default() += count;
            }
        }
    }
    let most = sums.into_iter().filter(|(_, count)| *count > 0);
    most.max_by_key(|(_, count)| *count).map(|(reason, _)| reason)
}
