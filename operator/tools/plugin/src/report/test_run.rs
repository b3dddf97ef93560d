//! Test records: the edge pods that accept them, the meaning of their answers, the stored rows, and
//! possible causes of missing ones. Pure.

use millrace_crds::v1alpha1::{Acknowledge, EdgePool, Signal};
use millrace_reports::units::format_plural;
use serde::{Deserialize, Serialize};

use crate::facts::{Facts, Role};

/// What an edge's answer guarantees about Kafka, the strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum InKafka {
    /// It answers after Kafka has the record.
    Yes,
    /// It answers after Kafka or its own disk has the record.
    OrOnDisk,
    /// It answers before that.
    NotTold,
}

/// An edge pod that accepts test records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entrance {
    /// The pod.
    pub pod: String,
    /// Its pool.
    pub pool: String,
    /// Whether its listener uses TLS.
    pub encrypted: bool,
    /// What its answer guarantees about Kafka.
    pub in_kafka: InKafka,
    /// The topic it writes to.
    pub topic: String,
}

/// Returns the ready edge pods that accept test records of a signal, pool by pool.
///
/// # Errors
/// When there is none: the reason, for each pool.
pub fn find_entrances(
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
        match pool_entrances(facts, edge, pool, signal) {
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
        "no edge pod of pipeline {} accepts test records: {why}{}",
        facts.name(),
        gaps.collect::<String>()
    ))
}

fn pool_entrances(
    facts: &Facts,
    edge: &EdgePool,
    pool: &str,
    signal: Signal,
) -> Result<Vec<Entrance>, String> {
    let settings = &edge.spec.settings;
    let Some(signal_settings) = edge.spec.signals.get(signal) else {
        return Err(format!("it does not receive {}", signal.as_str()));
    };
    let tls = settings.receivers.otlp.tls.as_ref();
    if tls.is_some_and(|tls| tls.client_ca.is_some()) {
        return Err(
            "it requires client certificates (receivers.otlp.tls.clientCa), which the API \
             server's proxy can't present: send a record with your own client"
                .to_owned(),
        );
    }
    let in_kafka = match (settings.acknowledge, &settings.buffer) {
        (Acknowledge::AfterBuffering, _) => InKafka::NotTold,
        (Acknowledge::AfterKafka, Some(_)) => InKafka::OrOnDisk,
        (Acknowledge::AfterKafka, None) => InKafka::Yes,
    };
    let topic = signal_settings.topic_name.as_ref().map(|name| name.as_str().to_owned());
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
        true => Err("none of its pods is ready: `kubectl millrace status` shows why".to_owned()),
        false => Ok(pods),
    }
}

/// One observation of the table: a line of the collector's command `rows`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RowCounts {
    /// The table.
    pub table: String,
    /// Stored records, each counted once.
    pub found: u64,
    /// Duplicate rows.
    pub repeated: u64,
    /// Rows with numbers that the run does not have.
    pub unexpected: u64,
    /// The first missing numbers.
    pub missing_first: Vec<u32>,
}

/// The result of a run of test records.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TestRun {
    /// The pipeline's namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The signal of the records.
    pub signal: &'static str,
    /// The run: the attribute `millrace.test.run` of all of its records.
    pub run: String,
    /// The seed of the records' sizes.
    pub seed: u64,
    /// The number of records.
    pub records: u32,
    /// The number of requests.
    pub requests: u32,
    /// The pods that accepted them.
    pub pods: Vec<String>,
    /// The topics that these pods write to.
    pub topics: Vec<String>,
    /// The weakest guarantee about Kafka of all pods.
    pub in_kafka: InKafka,
    /// Time from the first request until the edge had answered all.
    pub accepted_millis: u64,
    /// Time from the first request until all rows were observed; `None` if they weren't.
    pub stored_millis: Option<u64>,
    /// Time that the command waited for rows, from the last answer on.
    pub waited_millis: u64,
    /// Records that are not stored.
    pub missing: u64,
    /// The last observation.
    #[serde(flatten)]
    pub rows: RowCounts,
    /// Possible causes.
    pub hints: Vec<String>,
}

impl TestRun {
    /// Returns whether each record is stored once, and no other row exists.
    #[must_use]
    pub const fn each_once(&self) -> bool {
        self.missing == 0 && self.rows.repeated == 0 && self.rows.unexpected == 0
    }
}

/// Returns possible reasons why rows are missing, from statuses, and where to check next.
#[must_use]
pub fn collect_hints(facts: &Facts) -> Vec<String> {
    let mut hints = Vec::new();
    for pool in &facts.gateways {
        let Some(status) = &pool.status else { continue };
        if let Some(lag) = status.lag.as_ref().filter(|lag| lag.messages > 0) {
            let oldest = lag.seconds.map(|seconds| format!(", the oldest {seconds} s old"));
            hints.push(format!(
                "lag before the test: {}{}: `kubectl millrace lag {}`",
                format_plural(lag.messages, "message"),
                oldest.unwrap_or_default(),
                facts.name()
            ));
        }
        if let Some(dead_letters) = status.dead_letters.as_ref().filter(|tally| tally.total > 0) {
            hints.push(format!(
                "dead letters so far: {}; those of the test name the cause: `kubectl millrace \
                 dead-letters list`",
                dead_letters.total
            ));
        }
    }
    hints.push(format!("more: `kubectl millrace status {}`", facts.name()));
    hints
}
