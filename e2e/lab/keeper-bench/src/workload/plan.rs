//! A workload, checked: names of sets are numbers, every bound is known, and it can't starve. Made
//! from settings alone; reads no clock and no server.

use std::collections::BTreeMap;
use std::time::Duration;

use super::kind::Kind;
use super::settings::{Arrivals, Ask, Node, Size, Workload};
use crate::random::Weights;
use crate::wire::{self, Mode, WatchMode};

/// One connection takes a file; with 1,048,576 files (systemd's usual hard limit) this leaves room.
const SESSIONS_MAX: u32 = 100_000;
/// A session's requests under way take memory, about 200 bytes each beside their data.
const PIPELINE_MAX: u32 = 10_000;
const THREADS_MAX: u32 = 256;
/// ZooKeeper's own limit of a request is 1 MiB (`jute.maxbuffer`).
pub(crate) const DATA_BYTES_MAX: u32 = 1_000_000;
const MULTI_PARTS_MAX: u32 = 1_000;
/// ZooKeeper holds a tree in memory, about 200 bytes a node and more: 2 GB.
const SETUP_NODES_MAX: u64 = 10_000_000;
const NAME_BYTES_MAX: u32 = 200;
/// ClickHouse Keeper has the least: half a second.
const SESSION_TIMEOUT_MS_MIN: u64 = 100;

/// A workload can't be run as written.
#[derive(Debug, thiserror::Error, PartialEq)]
pub(crate) enum PlanError {
    #[error("{field} is {value}: write one from {least} to {most}")]
    Range { field: &'static str, value: f64, least: f64, most: f64 },
    #[error("no end: give `seconds`, `operations` or both")]
    NoEnd,
    #[error("root is `{0}`: write an absolute path of one or more names, without `/` at its end")]
    Root(String),
    #[error(
        "no set is called `{0}`: tag a node of `setup` with it, or let a create put nodes `into` it"
    )]
    NoSet(String),
    #[error("`{0}` is no name of a node: it may hold no `/` and not be empty, `.` or `..`")]
    NodeName(String),
    #[error("`requests` is empty, or every weight in it is 0")]
    NoRequests,
    #[error("a multi is empty, or every weight in it is 0")]
    EmptyMulti,
    #[error(
        "a multi holds another multi or a sync: it takes create, remove, set and check, or get and list"
    )]
    NotInMulti,
    #[error("a multi holds reads and writes: the protocol has no such request; make it two")]
    MixedMulti,
    #[error("a read in a multi has a watch: the protocol has no such request")]
    WatchInMulti,
    #[error("`check` stands alone: the protocol knows it only in a multi")]
    LoneCheck,
    #[error(
        "a create is sequential and has `into` or `remove_factor`: the server chooses its name, so it can't be in a set"
    )]
    SequentialSet,
    #[error("a create has `remove_factor` and no `into`: name the set that it removes from")]
    NothingToRemove,
    #[error(
        "`{0}` holds nodes that are removed or are not there yet, and nothing else is asked for: add a request that can always be made"
    )]
    Starves(String),
    #[error("`ignore` has `{0}`: no error is called that")]
    UnknownError(String),
}

/// What ends a run; at least one is set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bounds {
    pub(crate) time: Option<Duration>,
    pub(crate) operations: Option<u64>,
}

/// When requests are made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Pace {
    /// One follows the other's reply.
    Closed,
    /// At a rate, whatever the replies.
    Open { per_second: f64, arrivals: Arrivals },
}

/// A set's number.
pub(crate) type SetId = usize;

/// Any number in a range, both ends with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) least: u32,
    pub(crate) most: u32,
}

/// What a request of a workload does.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Action {
    Create {
        parents: SetId,
        name_bytes: usize,
        data: Span,
        mode: Mode,
        into: Option<SetId>,
        remove_factor: f64,
    },
    Remove {
        from: SetId,
    },
    Set {
        of: SetId,
        data: Span,
    },
    Read {
        of: SetId,
        kind: Kind,
        watch_probability: f64,
    },
    Check {
        of: SetId,
    },
    Sync {
        of: SetId,
    },
}

/// A request: alone, or several in one.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    One(Action),
    Multi { reads: bool, size: Option<Span>, parts: Vec<Action>, weights: Weights },
}

/// A watch that each session sets when it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WatchPlan {
    pub(crate) of: SetId,
    pub(crate) mode: WatchMode,
    /// The first so many sessions.
    pub(crate) sessions: u32,
}

/// How sessions behave, whatever they ask for.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    pub(crate) name: String,
    pub(crate) root: String,
    pub(crate) seed: u64,
    pub(crate) sessions: u32,
    pub(crate) threads: u32,
    pub(crate) pipeline: usize,
    pub(crate) bounds: Bounds,
    pub(crate) warmup: Duration,
    pub(crate) session_operations: Option<u64>,
    pub(crate) session_timeout: Duration,
    pub(crate) operation_timeout: Duration,
    /// Numbers of the errors that belong to the workload.
    pub(crate) ignore: Vec<i32>,
    /// Anything is watched, so changes are noted.
    pub(crate) watching: bool,
}

/// A workload that can be run.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) terms: Terms,
    pub(crate) pace: Pace,
    pub(crate) setup: Vec<super::settings::Node>,
    pub(crate) watches: Vec<WatchPlan>,
    pub(crate) steps: Vec<Step>,
    pub(crate) weights: Weights,
    /// Names of sets by number.
    pub(crate) sets: Vec<String>,
    /// Sets whose nodes come and go: each session has its own share of them.
    pub(crate) changing: Vec<bool>,
}

impl Plan {
    pub(crate) fn new(workload: Workload) -> Result<Self, PlanError> {
        ranges(&workload)?;
        let valid = |name: &str| !name.is_empty() && name != "." && name != "..";
        let names = workload.root.strip_prefix('/').unwrap_or_default();
        if !names.split('/').all(valid) {
            return Err(PlanError::Root(workload.root));
        }
        let mut sets = Sets::default();
        sets.nodes(&workload.setup)?;
        sets.made(&workload.requests);
        let mut steps: Vec<(u32, Step)> =
            workload.requests.iter().map(|ask| sets.step(ask)).collect::<Result<_, _>>()?;
        steps.retain(|(weight, _)| *weight > 0);
        let watches = sets.watches(&workload)?;
        let ignore = workload.ignore.iter();
        let ignore = ignore
            .map(|name| wire::code(name).ok_or_else(|| PlanError::UnknownError(name.clone())))
            .collect::<Result<_, _>>()?;
        let weights =
            Weights::new(steps.iter().map(|(weight, _)| *weight)).ok_or(PlanError::NoRequests)?;
        let plan = Self {
            pace: match workload.rate {
                None => Pace::Closed,
                Some(per_second) => Pace::Open { per_second, arrivals: workload.arrivals },
            },
            terms: Terms {
                bounds: Bounds {
                    time: workload.seconds.map(Duration::from_secs_f64),
                    operations: workload.operations,
                },
                warmup: Duration::from_secs_f64(workload.warmup_seconds),
                session_timeout: Duration::from_millis(workload.session_timeout_ms),
                operation_timeout: Duration::from_millis(workload.operation_timeout_ms),
                name: workload.name,
                root: workload.root,
                seed: workload.seed,
                sessions: workload.sessions,
                threads: workload.threads.min(workload.sessions),
                pipeline: workload.pipeline as usize,
                session_operations: workload.session_operations,
                ignore,
                watching: !watches.is_empty() || steps.iter().any(|(_, step)| step.watches()),
            },
            setup: workload.setup,
            watches,
            steps: steps.into_iter().map(|(_, step)| step).collect(),
            weights,
            sets: sets.by_number(),
            changing: sets.changing,
        };
        plan.can_always_ask()?;
        Ok(plan)
    }

    /// One request at least draws from nodes that are always there.
    fn can_always_ask(&self) -> Result<(), PlanError> {
        let steady = |action: &Action| !self.changing[action.draws_from()];
        let sure = self.steps.iter().any(|step| match step {
            Step::One(action) => steady(action),
            Step::Multi { parts, .. } => parts.iter().any(steady),
        });
        let first = || match &self.steps[0] {
            Step::One(action) => action.draws_from(),
            Step::Multi { parts, .. } => parts[0].draws_from(),
        };
        match sure {
            true => Ok(()),
            false => Err(PlanError::Starves(self.sets.get(first()).cloned().unwrap_or_default())),
        }
    }
}

impl Step {
    fn watches(&self) -> bool {
        matches!(self, Self::One(Action::Read { watch_probability, .. }) if *watch_probability > 0.0)
    }
}

impl Action {
    /// The set that one of its nodes is drawn from.
    pub(crate) fn draws_from(&self) -> SetId {
        match self {
            Self::Create { parents, .. } => *parents,
            Self::Remove { from } => *from,
            Self::Set { of, .. }
            | Self::Read { of, .. }
            | Self::Check { of }
            | Self::Sync { of } => *of,
        }
    }

    fn is_read(&self) -> bool {
        matches!(self, Self::Read { .. })
    }
}

/// The set of the root node alone, which every workload has.
const ROOT_SET: &str = "root";

/// Sets by name; which of them change.
#[derive(Debug)]
struct Sets {
    names: BTreeMap<String, SetId>,
    changing: Vec<bool>,
}

impl Default for Sets {
    fn default() -> Self {
        Self { names: BTreeMap::from([(ROOT_SET.to_owned(), 0)]), changing: vec![false] }
    }
}

impl Sets {
    fn add(&mut self, name: &str) -> SetId {
        let next = self.names.len();
        let id = *self.names.entry(name.to_owned()).or_insert(next);
        self.changing.resize(self.names.len(), false);
        id
    }

    fn by_number(&self) -> Vec<String> {
        let mut names = vec![String::new(); self.names.len()];
        for (name, id) in &self.names {
            names[*id].clone_from(name);
        }
        names
    }

    fn get(&self, name: &str) -> Result<SetId, PlanError> {
        self.names.get(name).copied().ok_or_else(|| PlanError::NoSet(name.to_owned()))
    }

    fn nodes(&mut self, nodes: &[super::settings::Node]) -> Result<(), PlanError> {
        for node in nodes {
            let name = &node.name;
            if name.is_empty() || name.contains('/') || name == "." || name == ".." {
                return Err(PlanError::NodeName(name.clone()));
            }
            range("setup.data_bytes", node.data_bytes, 0, DATA_BYTES_MAX)?;
            range("setup.count", node.count.unwrap_or(1), 1, u32::MAX)?;
            if let Some(tag) = &node.tag {
                self.add(tag);
            }
            self.nodes(&node.nodes)?;
        }
        Ok(())
    }

    /// Sets that requests put nodes into, or take nodes from.
    fn made(&mut self, asks: &[Ask]) {
        for ask in asks {
            let changed = match ask {
                Ask::Create(create) => create.into.as_ref(),
                Ask::Remove(remove) => {
                    Some(&remove.tag).filter(|tag| self.names.contains_key(*tag))
                }
                Ask::Multi(multi) => {
                    self.made(&multi.requests);
                    None
                }
                _ => None,
            };
            if let Some(name) = changed {
                let id = self.add(name);
                self.changing[id] = true;
            }
        }
    }

    fn watches(&self, workload: &Workload) -> Result<Vec<WatchPlan>, PlanError> {
        let plan = |watch: &super::settings::StayingWatch| {
            Ok(WatchPlan {
                of: self.get(&watch.tag)?,
                mode: match watch.recursive {
                    true => WatchMode::Recursive,
                    false => WatchMode::Persistent,
                },
                sessions: watch.sessions.unwrap_or(u32::MAX),
            })
        };
        workload.watches.iter().map(plan).collect()
    }

    fn step(&self, ask: &Ask) -> Result<(u32, Step), PlanError> {
        let Ask::Multi(multi) = ask else {
            return match self.action(ask)? {
                (_, Action::Check { .. }) => Err(PlanError::LoneCheck),
                (weight, action) => Ok((weight, Step::One(action))),
            };
        };
        let parts: Vec<(u32, Action)> =
            multi.requests.iter().map(|ask| self.action(ask)).collect::<Result<_, _>>()?;
        let weights =
            Weights::new(parts.iter().map(|(weight, _)| *weight)).ok_or(PlanError::EmptyMulti)?;
        let parts: Vec<Action> = parts.into_iter().map(|(_, action)| action).collect();
        let reads = parts.iter().filter(|action| action.is_read()).count();
        if reads != 0 && reads != parts.len() {
            return Err(PlanError::MixedMulti);
        }
        for part in &parts {
            match part {
                Action::Read { watch_probability, .. } if *watch_probability > 0.0 => {
                    return Err(PlanError::WatchInMulti);
                }
                Action::Read { kind: Kind::Exists, .. } | Action::Sync { .. } => {
                    return Err(PlanError::NotInMulti);
                }
                _ => {}
            }
        }
        let size =
            multi.size.map(|size| span("multi.size", size, 1, MULTI_PARTS_MAX)).transpose()?;
        Ok((multi.weight, Step::Multi { reads: reads > 0, size, parts, weights }))
    }

    fn action(&self, ask: &Ask) -> Result<(u32, Action), PlanError> {
        let read = |read: &super::settings::Read, kind| {
            let of = self.get(&read.tag)?;
            let watch_probability = share("watch_probability", read.watch_probability)?;
            Ok((read.weight, Action::Read { of, kind, watch_probability }))
        };
        match ask {
            Ask::Create(create) => self.create(create),
            Ask::Remove(plain) => {
                Ok((plain.weight, Action::Remove { from: self.get(&plain.tag)? }))
            }
            Ask::Check(plain) => Ok((plain.weight, Action::Check { of: self.get(&plain.tag)? })),
            Ask::Sync(plain) => Ok((plain.weight, Action::Sync { of: self.get(&plain.tag)? })),
            Ask::Set(set) => {
                let data = span("set.data_bytes", set.data_bytes, 0, DATA_BYTES_MAX)?;
                Ok((set.weight, Action::Set { of: self.get(&set.tag)?, data }))
            }
            Ask::Get(get) => read(get, Kind::Get),
            Ask::Exists(exists) => read(exists, Kind::Exists),
            Ask::List(list) => read(list, Kind::List),
            Ask::Multi(_) => Err(PlanError::NotInMulti),
        }
    }

    fn create(&self, create: &super::settings::Create) -> Result<(u32, Action), PlanError> {
        let into = create.into.as_deref().map(|name| self.get(name)).transpose()?;
        let remove_factor = share("remove_factor", create.remove_factor)?;
        if create.sequential && (into.is_some() || remove_factor > 0.0) {
            return Err(PlanError::SequentialSet);
        }
        if remove_factor > 0.0 && into.is_none() {
            return Err(PlanError::NothingToRemove);
        }
        range("create.name_bytes", create.name_bytes, 0, NAME_BYTES_MAX)?;
        let action = Action::Create {
            parents: self.get(&create.tag)?,
            name_bytes: create.name_bytes as usize,
            data: span("create.data_bytes", create.data_bytes, 0, DATA_BYTES_MAX)?,
            mode: Mode { ephemeral: create.ephemeral, sequential: create.sequential },
            into,
            remove_factor,
        };
        Ok((create.weight, action))
    }
}

fn ranges(workload: &Workload) -> Result<(), PlanError> {
    range("sessions", workload.sessions, 1, SESSIONS_MAX)?;
    range("threads", workload.threads, 1, THREADS_MAX)?;
    range("pipeline", workload.pipeline, 1, PIPELINE_MAX)?;
    within("rate", workload.rate.unwrap_or(1.0), 0.001, 1e9)?;
    // A year: beyond any run, and far below where a clock's arithmetic ends.
    within("seconds", workload.seconds.unwrap_or(1.0), 0.001, 31_536_000.0)?;
    within("warmup_seconds", workload.warmup_seconds, 0.0, 86_400.0)?;
    within("operations", workload.operations.unwrap_or(1) as f64, 1.0, 1e15)?;
    within("session_operations", workload.session_operations.unwrap_or(1) as f64, 1.0, 1e15)?;
    let (session, operation) = (workload.session_timeout_ms, workload.operation_timeout_ms);
    within("session_timeout_ms", session as f64, SESSION_TIMEOUT_MS_MIN as f64, 3_600_000.0)?;
    within("operation_timeout_ms", operation as f64, 1.0, 3_600_000.0)?;
    within("setup (nodes)", planned_nodes(&workload.setup) as f64, 0.0, SETUP_NODES_MAX as f64)?;
    match (workload.seconds, workload.operations) {
        (None, None) => Err(PlanError::NoEnd),
        _ => Ok(()),
    }
}

/// How many nodes a set-up makes.
fn planned_nodes(nodes: &[Node]) -> u64 {
    let of = |node: &Node| {
        let below = planned_nodes(&node.nodes).saturating_add(1);
        u64::from(node.count.unwrap_or(1)).saturating_mul(below)
    };
    nodes.iter().map(of).fold(0, u64::saturating_add)
}

fn range(field: &'static str, value: u32, least: u32, most: u32) -> Result<(), PlanError> {
    within(field, value.into(), least.into(), most.into())
}

fn share(field: &'static str, value: f64) -> Result<f64, PlanError> {
    within(field, value, 0.0, 1.0).map(|()| value)
}

fn span(field: &'static str, size: Size, least: u32, most: u32) -> Result<Span, PlanError> {
    let span = match size {
        Size::One(size) => Span { least: size, most: size },
        Size::Between { least, most } => Span { least, most },
    };
    range(field, span.most, least, most)?;
    range(field, span.least, least, span.most)?;
    Ok(span)
}

fn within(field: &'static str, value: f64, least: f64, most: f64) -> Result<(), PlanError> {
    match (least..=most).contains(&value) {
        true => Ok(()),
        false => Err(PlanError::Range { field, value, least, most }),
    }
}
