//! The path of records, signal by signal: edge pools, topic, gateway pool, tables; each hop with
//! the figures of statuses and metrics. Unknown figures are absent, never zero.

use std::collections::BTreeMap;

use millrace_crds::TopicName;
use millrace_crds::v1alpha1::Signal;
use serde::Serialize;

use crate::facts::{CounterSample, Facts, PodFacts, Role};

/// One signal's path.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SignalPath {
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

/// How many pods reported: sums and rates lack the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReportingPods {
    /// Pods.
    pub pods: usize,
    /// Pods that answered.
    pub answered: usize,
}

impl ReportingPods {
    fn from_pods(pods: &[&PodFacts]) -> Self {
        let answered = pods.iter().filter(|pod| pod.now.is_some()).count();
        Self { pods: pods.len(), answered }
    }

    /// Returns whether some answered, and some did not.
    #[must_use]
    pub const fn is_partial(self) -> bool {
        self.answered > 0 && self.answered < self.pods
    }
}

/// An edge pool's hop.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EdgeHop {
    /// The EdgePool.
    pub pool: String,
    /// Its pods, ready of wanted.
    pub pods: String,
    /// Records received per second.
    pub in_per_second: Option<f64>,
    /// Records per second that Kafka confirms.
    pub out_per_second: Option<f64>,
    /// Records refused since its processes began; their clients got the refusal.
    pub refused: Option<u64>,
    /// The most frequent cause of refusals.
    pub refused_reason: Option<String>,
    /// Records refused per second.
    pub refused_per_second: Option<f64>,
    /// Records held in memory.
    pub in_flight: Option<u64>,
    /// The pods behind these figures.
    pub reporting: ReportingPods,
}

/// A topic's hop.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TopicHop {
    /// Its name in Kafka.
    pub name: String,
    /// Its partitions, once the topic was read.
    pub partitions: Option<i32>,
    /// Messages not committed yet.
    pub waiting_messages: Option<u64>,
    /// The age of the oldest, in seconds.
    pub oldest_seconds: Option<f64>,
    /// Messages that retention deleted unread, since the pool was created.
    pub lost_messages: i64,
    /// The gateways behind the waiting messages.
    pub reporting: ReportingPods,
}

/// The gateway pool's hop.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayHop {
    /// The GatewayPool; `None` if it could not be read.
    pub pool: Option<String>,
    /// Its pods, ready of wanted.
    pub pods: Option<String>,
    /// Records read per second.
    pub in_per_second: Option<f64>,
    /// Records per second that ClickHouse confirms.
    pub out_per_second: Option<f64>,
    /// Records held in memory.
    pub in_flight: Option<u64>,
    /// Dead letters since the pool was created.
    pub dead_letters: i64,
    /// The most frequent cause of dead letters, among running processes.
    pub dead_letters_reason: Option<String>,
    /// The pods behind these figures.
    pub reporting: ReportingPods,
}

/// The tables' hop.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TablesHop {
    /// Their name, with the database; metrics have several.
    pub name: String,
    /// Their revision.
    pub revision: Option<String>,
}

/// Returns the paths of a pipeline's signals.
#[must_use]
pub fn signal_paths(facts: &Facts) -> Vec<SignalPath> {
    let signals = facts.pipeline.spec.signals.iter();
    signals
        .map(|(signal, settings)| signal_path(facts, signal, settings.topic_name.as_ref()))
        .collect()
}

fn signal_path(facts: &Facts, signal: Signal, named: Option<&TopicName>) -> SignalPath {
    let word = signal.as_str();
    let topic = named.map_or(signal.default_topic(), TopicName::as_str);
    let target = &facts.pipeline.spec.clickhouse;
    let many = if signal == Signal::Metrics { "_*" } else { "" };
    let revision = facts.schemas.iter().find_map(|one| one.status.as_ref()?.revision.clone());
    let table = format!("{}.{}_{word}{many}", target.database(), target.table_prefix());
    SignalPath {
        signal: word,
        edges: facts.edges.iter().map(|pool| edge_hop(facts, pool, word)).collect(),
        topic: topic_hop(facts, topic),
        gateway: gateway_hop(facts, word),
        tables: TablesHop { name: table, revision },
    }
}

fn edge_hop(facts: &Facts, pool: &millrace_crds::v1alpha1::EdgePool, signal: &str) -> EdgeHop {
    let name = pool.metadata.name.clone().unwrap_or_default();
    let pods: Vec<&PodFacts> = facts.pods_of(Role::Edge, &name).collect();
    let pods_text = pool.status.as_ref().and_then(|status| status.pods.clone());
    let refused_of = |sample: &CounterSample| by_signal(&sample.refused, signal);
    EdgeHop {
        pods: pods_text.unwrap_or_else(|| "?/?".to_owned()),
        in_per_second: rate_over_pods(facts, &pods, |sample| count_of(&sample.received, signal)),
        out_per_second: rate_over_pods(facts, &pods, |sample| count_of(&sample.passed, signal)),
        refused: sum_over_pods(&pods, refused_of),
        refused_reason: most_frequent(&pods, signal, |sample| &sample.refused),
        refused_per_second: rate_over_pods(facts, &pods, refused_of),
        in_flight: sum_over_pods(&pods, |sample| count_of(&sample.held, signal)),
        reporting: ReportingPods::from_pods(&pods),
        pool: name,
    }
}

fn topic_hop(facts: &Facts, topic: &str) -> TopicHop {
    let object = facts.topics.iter().find(|one| {
        one.status.as_ref().and_then(|status| status.topic_name.as_deref()) == Some(topic)
    });
    let gateways: Vec<&PodFacts> =
        facts.pods.iter().filter(|pod| pod.role == Role::Gateway).collect();
    let samples = gateways.iter().filter_map(|pod| pod.now.as_ref());
    let oldest = samples
        .flat_map(|sample| sample.lag_seconds.iter())
        .filter(|((of, _), _)| of == topic)
        .map(|(_, seconds)| *seconds)
        .reduce(f64::max);
    let lost = facts.gateways.iter().filter_map(|pool| pool.status.as_ref()?.data_lost.as_ref());
    let lost = lost.flat_map(|tally| &tally.parts).filter(|part| part.name == topic);
    TopicHop {
        name: topic.to_owned(),
        partitions: object.and_then(|one| one.status.as_ref()?.partitions),
        waiting_messages: sum_over_pods(&gateways, |sample| {
            let of_topic = sample.lag_messages.iter().filter(|((of, _), _)| of == topic);
            of_topic.map(|(_, messages)| *messages).sum()
        }),
        oldest_seconds: oldest,
        lost_messages: lost.map(|part| part.count).sum(),
        reporting: ReportingPods::from_pods(&gateways),
    }
}

fn gateway_hop(facts: &Facts, signal: &str) -> GatewayHop {
    let pool = facts.gateways.first();
    let name = pool.and_then(|one| one.metadata.name.clone());
    let status = pool.and_then(|one| one.status.as_ref());
    let pods: Vec<&PodFacts> =
        facts.pods_of(Role::Gateway, name.as_deref().unwrap_or_default()).collect();
    let dead_letters = status.and_then(|status| status.dead_letters.as_ref());
    let dead_letters = dead_letters.into_iter().flat_map(|tally| &tally.parts);
    GatewayHop {
        pods: status.and_then(|status| status.pods.clone()),
        in_per_second: rate_over_pods(facts, &pods, |sample| count_of(&sample.received, signal)),
        out_per_second: rate_over_pods(facts, &pods, |sample| count_of(&sample.passed, signal)),
        in_flight: sum_over_pods(&pods, |sample| count_of(&sample.held, signal)),
        dead_letters: dead_letters.filter(|part| part.name == signal).map(|part| part.count).sum(),
        dead_letters_reason: most_frequent(&pods, signal, |sample| &sample.dead_lettered),
        reporting: ReportingPods::from_pods(&pods),
        pool: name,
    }
}

fn count_of(counts: &BTreeMap<String, u64>, signal: &str) -> u64 {
    counts.get(signal).copied().unwrap_or_default()
}

fn by_signal(counts: &BTreeMap<(String, String), u64>, signal: &str) -> u64 {
    counts.iter().filter(|((of, _), _)| of == signal).map(|(_, count)| *count).sum()
}

/// Returns the sum over the pods that reported; `None` if no pod did.
fn sum_over_pods(pods: &[&PodFacts], count: impl Fn(&CounterSample) -> u64) -> Option<u64> {
    let counts: Vec<u64> = pods.iter().filter_map(|pod| pod.now.as_ref()).map(count).collect();
    (!counts.is_empty()).then(|| counts.iter().sum())
}

/// Returns the sum of the rates of pods that were read twice; `None` if none was.
fn rate_over_pods(
    facts: &Facts,
    pods: &[&PodFacts],
    count: impl Fn(&CounterSample) -> u64,
) -> Option<f64> {
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
    counts: impl Fn(&CounterSample) -> &BTreeMap<(String, String), u64>,
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
