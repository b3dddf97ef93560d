//! A compiled rule set, and what it does with a request.

mod compile;
mod compile_steps;

use millrace_wire::{Signal, WireErrorKind};

use crate::counts::Counts;
use crate::edit::memory::{Memory, Ref};
use crate::edit::object::Object;
use crate::edit::segments::Segments;
use crate::enrich::RequestOrigin;
use crate::error::RuleFailure;
use crate::eval::{Buffers, Machine};
use crate::limits::{OUTPUT_BYTES, WORK_FACTOR};
use crate::ottl::context::CONTEXTS;
use crate::program::Pass;
use crate::timer::{ClockNanos, RuleTimer};
use crate::walk::{Stop, Walk};

/// Compiled rules. Immutable, so threads can share it.
#[derive(Clone, Debug, Default)]
pub struct RuleSet {
    /// The walks of each signal.
    passes: [Vec<Pass>; 3],
    /// The texts and values of the rules.
    constants: Vec<u8>,
    rules: Vec<Rule>,
    route_topics: Vec<RouteTopic>,
}

/// A topic to which a `route` step sends records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteTopic {
    /// The signal of its records.
    pub signal: Signal,
    /// The topic's name.
    pub topic: String,
}

/// Records that a step routed, as a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutedRequest {
    /// The position of its topic in [`RuleSet::route_topics`].
    pub route: usize,
    /// The request.
    pub bytes: Vec<u8>,
}

/// A rule: one statement or condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its step's name.
    pub step: String,
    /// The list in the step, such as `statements` or `drop.logs`.
    pub list: &'static str,
    /// Its position in that list, from 0.
    pub index: usize,
    /// Its text.
    pub text: String,
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// The request is to be passed on as it was received.
    Unchanged,
    /// The request to pass on instead.
    Changed(Vec<u8>),
    /// Rules dropped or routed all records.
    Emptied,
}

/// Why a request can't be passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProcessError {
    /// The request isn't OTLP. A request that passed `wire`'s check never is.
    #[error("the request is malformed: {0}")]
    Malformed(WireErrorKind),
    /// A rule failed, and its step has the error mode `propagate`.
    #[error("rule {rule} failed: {error}")]
    Rejected {
        /// The rule's position in [`RuleSet::rules`].
        rule: usize,
        /// Why it failed.
        error: RuleFailure,
    },
}

impl From<Stop> for ProcessError {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Malformed(kind) => Self::Malformed(kind),
            Stop::Rejected { rule, error } => Self::Rejected { rule, error },
        }
    }
}

/// The allocations of runs: one for each thread.
#[derive(Debug, Default)]
pub struct Scratch {
    arena: Vec<u8>,
    objects: [Object; CONTEXTS],
    segments: Segments,
    buffers: Buffers,
    timer: RuleTimer,
}

/// A scratch retains an arena up to this length: 4 MiB, the longest usual request. A longer one
/// is allocated again when it is needed.
const RETAINED_BYTES: usize = 4 << 20;

impl Scratch {
    /// Returns a scratch whose runs estimate the time of each rule in
    /// [`crate::RuleCounts::nanos`].
    #[must_use]
    pub fn with_clock(clock: ClockNanos) -> Self {
        Self { timer: RuleTimer::new(clock), ..Self::default() }
    }

    /// Frees what an unusual request took.
    fn shrink(&mut self) {
        if self.arena.capacity() > RETAINED_BYTES {
            self.arena = Vec::new();
        }
        self.segments.shrink();
        self.buffers.shrink();
    }
}

impl RuleSet {
    /// Returns the rules in their order. Counters have the same positions.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Whether any rule applies to a signal. If not, [`Self::run`] returns at once.
    #[must_use]
    pub fn applies_to(&self, signal: Signal) -> bool {
        !self.passes[signal.index()].is_empty()
    }

    /// Returns the topics of `route` steps, each once.
    #[must_use]
    pub fn route_topics(&self) -> &[RouteTopic] {
        &self.route_topics
    }

    /// Returns the number of `route` steps that apply to a signal.
    #[must_use]
    pub fn count_routes(&self, signal: Signal) -> usize {
        let passes = self.passes[signal.index()].iter();
        passes.filter(|pass| pass.route().is_some()).count()
    }

    /// Whether any rule may change the times of a signal's records.
    #[must_use]
    pub fn writes_times(&self, signal: Signal) -> bool {
        self.passes[signal.index()].iter().any(|pass| pass.usage.writes_times)
    }

    /// Returns the number of walks over a request of a signal: usually one. One that routes is
    /// repeated if it matches a record.
    #[must_use]
    pub fn walks(&self, signal: Signal) -> usize {
        self.passes[signal.index()].len()
    }

    /// Runs the rules on a request of unknown origin: see [`Self::run_from`].
    ///
    /// # Errors
    /// As [`Self::run_from`].
    pub fn run(
        &self,
        signal: Signal,
        request_bytes: &[u8],
        limit_bytes: usize,
        scratch: &mut Scratch,
        counts: &mut Counts,
        routed: &mut Vec<RoutedRequest>,
    ) -> Result<Outcome, ProcessError> {
        let request = (signal, request_bytes);
        self.run_from(RequestOrigin::default(), request, limit_bytes, scratch, counts, routed)
    }

    /// Runs the rules on a request that passed `wire`'s check. Requests for other topics are
    /// added to `routed`, also if a later rule refuses the request: the caller ignores them then.
    ///
    /// The result is at most `limit_bytes` long: a record that would exceed that is left as it was
    /// and counted in [`Counts::over_limit`]. Beyond the result, a run takes at most
    /// [`WORK_FACTOR`] times `limit_bytes` in `scratch`; usual rules take less than the request's
    /// length. Each of [`Self::count_routes`] adds at most the request's length to `routed`.
    ///
    /// # Errors
    /// If the request is malformed, or a rule failed whose step propagates errors.
    pub fn run_from(
        &self,
        origin: RequestOrigin<'_>,
        (signal, request_bytes): (Signal, &[u8]),
        limit_bytes: usize,
        scratch: &mut Scratch,
        counts: &mut Counts,
        routed: &mut Vec<RoutedRequest>,
    ) -> Result<Outcome, ProcessError> {
        let passes = &self.passes[signal.index()];
        if passes.is_empty() || request_bytes.is_empty() {
            return Ok(Outcome::Unchanged);
        }
        if counts.rules.len() < self.rules.len() {
            counts.rules.resize(self.rules.len(), Default::default());
        }
        let limit_bytes = limit_bytes.min(OUTPUT_BYTES).max(request_bytes.len());
        let mut outcome = Outcome::Unchanged;
        for pass in passes {
            let input = match &outcome {
                Outcome::Unchanged => request_bytes,
                Outcome::Changed(changed) => changed,
                Outcome::Emptied => break,
            };
            let request = (signal, input, limit_bytes);
            let left = self.walk(pass, request, origin, scratch, counts, false)?;
            if left == Outcome::Unchanged {
                continue;
            }
            if let Some(route) = pass.route() {
                // Its rules were counted by the first walk.
                let selected =
                    self.walk(pass, request, origin, scratch, &mut Counts::default(), true)?;
                let bytes = match selected {
                    Outcome::Unchanged => input.to_vec(),
                    Outcome::Changed(bytes) => bytes,
                    Outcome::Emptied => Vec::new(),
                };
                routed.push(RoutedRequest { route, bytes });
            }
            outcome = left;
        }
        scratch.shrink();
        Ok(outcome)
    }

    fn walk(
        &self,
        pass: &Pass,
        (signal, input, limit_bytes): (Signal, &[u8], usize),
        origin: RequestOrigin<'_>,
        scratch: &mut Scratch,
        counts: &mut Counts,
        is_selecting: bool,
    ) -> Result<Outcome, ProcessError> {
        let arena = std::mem::take(&mut scratch.arena);
        let work_bytes = WORK_FACTOR * limit_bytes;
        scratch.segments.clear();
        let machine = Machine {
            memory: Memory::new(input, &self.constants, arena, work_bytes),
            objects: &mut scratch.objects,
            buffers: &mut scratch.buffers,
            event_index: 0,
            metric_type: 0,
            has_new_structure: false,
            record: Ref::EMPTY,
            is_over_limit: false,
            origin,
        };
        let mut walk = Walk {
            machine,
            segments: &mut scratch.segments,
            counts,
            timer: &mut scratch.timer,
            pass,
            signal,
            input_len: input.len(),
            limit_bytes,
            pending_bytes: 0,
            is_selecting,
            changes: 0,
            unlabeled: None,
        };
        let walked = walk.request();
        let outcome = match walked {
            Ok(()) if walk.changes == 0 => Ok(Outcome::Unchanged),
            Ok(()) if walk.segments.bytes() == 0 => Ok(Outcome::Emptied),
            Ok(()) => Ok(Outcome::Changed(walk.segments.write(&walk.machine.memory))),
            Err(stop) => Err(stop.into()),
        };
        let arena = walk.machine.memory.into_arena();
        scratch.arena = arena;
        outcome
    }
}
