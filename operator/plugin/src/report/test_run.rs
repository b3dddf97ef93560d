//! Test records: which edge pods can be sent to and what their answers mean, what was stored of
//! them, and what may be wrong if not all was. Pure.

use millrace_crds::v1alpha1::{Acknowledge, EdgePool, Signal};
use serde::{Deserialize, Serialize};

use crate::facts::{Facts, Role};

/// What an edge's answer says of Kafka, the most first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum InKafka {
    /// It answers after Kafka has the record.
    Yes,
    /// It answers after Kafka or its own disk has the record.
    OrOnDisk,
    /// It answers before.
    NotTold,
}

/// An edge pod that takes test records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entrance {
    /// The pod.
    pub pod: String,
    /// Its pool.
    pub pool: String,
    /// Whether its listener speaks TLS.
    pub encrypted: bool,
    /// What its answer says of Kafka.
    pub in_kafka: InKafka,
    /// The topic it writes to.
    pub topic: String,
}

/// The ready edge pods that test records of a signal can be sent to, pool by pool.
///
/// # Errors
/// When there is none: why, for each pool.
pub fn entrances(
    facts: &Facts,
    signal: Signal,
    only: Option<&str>,
) -> Result<Vec<Entrance>, String> {
    let mut found = Vec::new();
    let mut causes = Vec::new();
    for edge in &facts.edges {
        let pool = edge.metadata.name.as_deref().unwrap_or_default();
        if only.is_some_and(|only| only != pool) {
            continue;
        }
        match of_pool(facts, edge, pool, signal) {
            Ok(pods) => found.extend(pods),
            Err(cause) => causes.push(format!("EdgePool {pool}: {cause}")),
        }
    }
    if !found.is_empty() {
        return Ok(found);
    }
    let why = match (causes.is_empty(), only) {
        (false, _) => causes.join("; "),
        (true, Some(only)) => format!("it has no EdgePool {only}"),
        (true, None) => "it has no EdgePool yet".to_owned(),
    };
    let gaps = facts.gaps.iter().map(|gap| format!("; {}: {}", gap.what, gap.why));
    Err(format!(
        "no edge pod of pipeline {} takes test records: {why}{}",
        facts.name(),
        gaps.collect::<String>()
    ))
}

fn of_pool(
    facts: &Facts,
    edge: &EdgePool,
    pool: &str,
    signal: Signal,
) -> Result<Vec<Entrance>, String> {
    let settings = &edge.spec.settings;
    let Some(asked) = edge.spec.signals.get(signal) else {
        return Err(format!("it does not take {}", signal.as_str()));
    };
    let tls = settings.receivers.otlp.tls.as_ref();
    if tls.is_some_and(|tls| tls.client_ca_secret_ref.is_some()) {
        return Err(
            "it asks clients for certificates (receivers.otlp.tls.clientCaSecretRef), and \
                    the API server's proxy has none to show: send a record with a client of yours"
                .to_owned(),
        );
    }
    let in_kafka = match (settings.acknowledge, &settings.buffer) {
        (Acknowledge::AfterBuffering, _) => InKafka::NotTold,
        (Acknowledge::AfterKafka, Some(_)) => InKafka::OrOnDisk,
        (Acknowledge::AfterKafka, None) => InKafka::Yes,
    };
    let topic = asked.topic_name.as_ref().map(|name| name.as_str().to_owned());
    let topic = topic.unwrap_or_else(|| signal.default_topic().to_owned());
    let ready = facts.pods_of(Role::Edge, pool).filter(|pod| pod.ready);
    let pods: Vec<Entrance> = ready
        .map(|pod| Entrance {
            pod: pod.name.clone(),
            pool: pool.to_owned(),
            encrypted: tls.is_some(),
            in_kafka,
            topic: topic.clone(),
        })
        .collect();
    match pods.is_empty() {
        true => Err("none of its pods is ready: `kubectl millrace status` says why".to_owned()),
        false => Ok(pods),
    }
}

/// What a look at the table saw: a line of the collector's command `rows`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Seen {
    /// The table.
    pub table: String,
    /// Records that are stored, each counted once.
    pub found: u64,
    /// Rows beyond the first of each.
    pub repeated: u64,
    /// Rows with numbers that the run has not.
    pub unexpected: u64,
    /// The first missing numbers.
    pub missing_first: Vec<u32>,
}

/// What became of test records.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TestRun {
    /// The pipeline's namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// What was sent.
    pub signal: &'static str,
    /// The run: the attribute `millrace.test.run` of all of its records.
    pub run: String,
    /// What the records' sizes follow from.
    pub seed: u64,
    /// How many.
    pub records: u32,
    /// In how many requests.
    pub requests: u32,
    /// The pods that took them.
    pub pods: Vec<String>,
    /// The topics that these pods write to.
    pub topics: Vec<String>,
    /// What the answers say of Kafka: the least of all pods.
    pub in_kafka: InKafka,
    /// Until the edge had answered all, from the first request on.
    pub taken_millis: u64,
    /// Until all rows were seen, from the first request on; none if they weren't.
    pub stored_millis: Option<u64>,
    /// How long rows were waited for, from the last answer on.
    pub waited_millis: u64,
    /// Records that are not stored.
    pub missing: u64,
    /// What was seen last.
    #[serde(flatten)]
    pub seen: Seen,
    /// What may be wrong.
    pub hints: Vec<String>,
}

impl TestRun {
    /// Whether each record is stored once, and nothing else.
    #[must_use]
    pub const fn each_once(&self) -> bool {
        self.missing == 0 && self.seen.repeated == 0 && self.seen.unexpected == 0
    }
}

/// What may keep rows from their table, as far as statuses tell it, and where to look next.
#[must_use]
pub fn hints(facts: &Facts) -> Vec<String> {
    let mut hints = Vec::new();
    for pool in &facts.gateways {
        let Some(status) = &pool.status else { continue };
        if let Some(lag) = status.lag.as_ref().filter(|lag| lag.messages > 0) {
            let oldest = lag.seconds.map(|seconds| format!(", the oldest {seconds} s old"));
            hints.push(format!(
                "before the test {} messages waited in Kafka{}: `kubectl millrace lag {}`",
                lag.messages,
                oldest.unwrap_or_default(),
                facts.name()
            ));
        }
        if let Some(letters) = status.dead_letters.as_ref().filter(|tally| tally.total > 0) {
            hints.push(format!(
                "{} dead letters so far; those of the test say why: `kubectl millrace dead-letters \
                 list`",
                letters.total
            ));
        }
    }
    hints.push(format!("what is wrong: `kubectl millrace status {}`", facts.name()));
    hints
}
