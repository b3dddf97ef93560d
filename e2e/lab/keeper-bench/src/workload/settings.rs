//! A workload as users write it, in YAML. Nothing is checked here but names and types; `plan` does
//! the rest. Unknown fields are refused.

use serde::Deserialize;

/// A whole workload.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Workload {
    pub(crate) name: String,
    /// The node that everything lies below. It is made at the start and removed at the end.
    #[serde(default = "root")]
    pub(crate) root: String,
    /// Every choice follows from it.
    #[serde(default = "one_u64")]
    pub(crate) seed: u64,
    /// Connections, each a session of its own.
    #[serde(default = "one")]
    pub(crate) sessions: u32,
    /// Threads that the sessions are spread over.
    #[serde(default = "one")]
    pub(crate) threads: u32,
    /// Requests under way at once in a session.
    #[serde(default = "one")]
    pub(crate) pipeline: u32,
    /// Operations a second by all sessions together: an open loop. Without it each reply is
    /// followed by the next request: a closed loop.
    pub(crate) rate: Option<f64>,
    #[serde(default)]
    pub(crate) arrivals: Arrivals,
    /// How long is measured, after the warm-up.
    pub(crate) seconds: Option<f64>,
    /// How many operations are measured, in all sessions together.
    pub(crate) operations: Option<u64>,
    #[serde(default)]
    pub(crate) warmup_seconds: f64,
    /// A session is closed after so many operations, and another opened.
    pub(crate) session_operations: Option<u64>,
    #[serde(default = "session_timeout_ms")]
    pub(crate) session_timeout_ms: u64,
    #[serde(default = "operation_timeout_ms")]
    pub(crate) operation_timeout_ms: u64,
    /// Errors that belong to the workload, by name. They are counted apart.
    #[serde(default)]
    pub(crate) ignore: Vec<String>,
    /// Nodes made before the start.
    #[serde(default)]
    pub(crate) setup: Vec<Node>,
    /// Watches that stay, set by each session when it begins.
    #[serde(default)]
    pub(crate) watches: Vec<StayingWatch>,
    #[serde(with = "serde_norway::with::singleton_map_recursive")]
    pub(crate) requests: Vec<Ask>,
}

/// How an open loop's operations are spread over time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Arrivals {
    /// At equal distances.
    #[default]
    Even,
    /// Independent of each other, as many clients' are.
    Poisson,
}

/// A node that is made before the start, or several.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Node {
    pub(crate) name: String,
    /// How many: `name-0`, `name-1` and so on. Without it one, by its name alone.
    pub(crate) count: Option<u32>,
    #[serde(default)]
    pub(crate) data_bytes: u32,
    /// The set that their paths belong to.
    pub(crate) tag: Option<String>,
    #[serde(default)]
    pub(crate) nodes: Vec<Node>,
}

/// A watch that stays.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StayingWatch {
    /// Every path of this set is watched.
    pub(crate) tag: String,
    /// With everything below.
    #[serde(default)]
    pub(crate) recursive: bool,
    /// The first so many sessions set it; all without it.
    pub(crate) sessions: Option<u32>,
}

/// A kind of request, as a mapping of one key.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Ask {
    Create(Create),
    Remove(Plain),
    Set(Set),
    Get(Read),
    Exists(Read),
    List(Read),
    /// In a multi of writes: the node has to be there.
    Check(Plain),
    Sync(Plain),
    Multi(Multi),
}

/// `create`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Create {
    #[serde(default = "one")]
    pub(crate) weight: u32,
    /// The set of parents.
    pub(crate) tag: String,
    /// Length of the new name; it is never shorter than what makes it unique.
    #[serde(default)]
    pub(crate) name_bytes: u32,
    #[serde(default)]
    pub(crate) data_bytes: Size,
    #[serde(default)]
    pub(crate) ephemeral: bool,
    /// The server adds a number. Such nodes are in no set, since their names aren't known.
    #[serde(default)]
    pub(crate) sequential: bool,
    /// The set that new paths go into.
    pub(crate) into: Option<String>,
    /// The share of these operations that removes one of the set instead.
    #[serde(default)]
    pub(crate) remove_factor: f64,
}

/// `remove`, `check`, `sync`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Plain {
    #[serde(default = "one")]
    pub(crate) weight: u32,
    pub(crate) tag: String,
}

/// `set`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Set {
    #[serde(default = "one")]
    pub(crate) weight: u32,
    pub(crate) tag: String,
    #[serde(default)]
    pub(crate) data_bytes: Size,
}

/// `get`, `exists`, `list`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Read {
    #[serde(default = "one")]
    pub(crate) weight: u32,
    pub(crate) tag: String,
    /// The share that sets a watch, which fires once.
    #[serde(default)]
    pub(crate) watch_probability: f64,
}

/// `multi`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Multi {
    #[serde(default = "one")]
    pub(crate) weight: u32,
    /// So many parts, chosen by weight. Without it one of each, in order.
    pub(crate) size: Option<Size>,
    pub(crate) requests: Vec<Ask>,
}

/// A number, or any between two.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(untagged)]
pub(crate) enum Size {
    One(u32),
    Between { least: u32, most: u32 },
}

impl Default for Size {
    fn default() -> Self {
        Self::One(0)
    }
}

/// What the command line says instead.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Overrides {
    /// The node that everything lies below.
    #[arg(long)]
    root: Option<String>,
    /// Every choice follows from it.
    #[arg(long)]
    seed: Option<u64>,
    /// Connections, each a session of its own.
    #[arg(long)]
    sessions: Option<u32>,
    /// Threads that the sessions are spread over.
    #[arg(long)]
    threads: Option<u32>,
    /// Requests under way at once in a session.
    #[arg(long)]
    pipeline: Option<u32>,
    /// Operations a second by all sessions together: an open loop.
    #[arg(long)]
    rate: Option<f64>,
    /// How long is measured; unbound by the workload's own count.
    #[arg(long)]
    seconds: Option<f64>,
    /// How many operations are measured; unbound by the workload's own time.
    #[arg(long)]
    operations: Option<u64>,
    /// Runs so long before it measures.
    #[arg(long)]
    warmup_seconds: Option<f64>,
    /// A session is closed after so many operations, and another opened.
    #[arg(long)]
    session_operations: Option<u64>,
}

impl Overrides {
    pub(crate) fn apply(self, to: &mut Workload) {
        if self.seconds.is_some() || self.operations.is_some() {
            (to.seconds, to.operations) = (self.seconds, self.operations);
        }
        to.rate = self.rate.or(to.rate);
        to.session_operations = self.session_operations.or(to.session_operations);
        let Self { root, seed, sessions, threads, pipeline, warmup_seconds, .. } = self;
        replace(&mut to.root, root);
        replace(&mut to.seed, seed);
        replace(&mut to.sessions, sessions);
        replace(&mut to.threads, threads);
        replace(&mut to.pipeline, pipeline);
        replace(&mut to.warmup_seconds, warmup_seconds);
    }
}

fn replace<T>(to: &mut T, by: Option<T>) {
    if let Some(by) = by {
        *to = by;
    }
}

fn root() -> String {
    "/keeper-bench".to_owned()
}

fn one() -> u32 {
    1
}

fn one_u64() -> u64 {
    1
}

/// ClickHouse's own session timeout.
fn session_timeout_ms() -> u64 {
    30_000
}

/// ClickHouse's own operation timeout.
fn operation_timeout_ms() -> u64 {
    10_000
}
