//! What the console shows and no status contains: the last sizing decisions of each pool, its last
//! day, and the pending statements of tables. Nothing is stored where no console is served.
//!
//! In memory, of this process: a new leader starts without any. Limits: [`DECISIONS_MAX`] decisions
//! of 250 B in all (1 MB), [`POOL_DECISIONS_MAX`] of one pool; the plans of [`PLANS_MAX`] schemas,
//! [`STEPS_MAX`] steps of [`STATEMENT_BYTES_MAX`] each (2 MB).

mod day;

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use millrace_reports::day::DaySlot;
use millrace_reports::{PlannedStep, SizingDecision};

use day::DayHistory;

/// Maximum decisions of one pool: an hour of a pool whose figures change all the time.
const POOL_DECISIONS_MAX: usize = 64;
/// Maximum decisions of all pools; the newest are retained.
const DECISIONS_MAX: usize = 4_096;
/// Maximum plans; those of the schemas compared last are retained.
const PLANS_MAX: usize = 16;
/// Maximum steps of one plan.
const STEPS_MAX: usize = 32;
/// Maximum size of a statement; a longer one is truncated, since it is only for reading.
const STATEMENT_BYTES_MAX: usize = 4 * 1024;

/// Decisions and statements, by the uid of their object.
#[derive(Debug, Default)]
pub struct ConsoleHistory {
    is_enabled: bool,
    decisions: Mutex<VecDeque<(String, SizingDecision)>>,
    plans: Mutex<VecDeque<(String, Vec<PlannedStep>)>>,
    days: Mutex<DayHistory>,
}

impl ConsoleHistory {
    /// Creates a store that retains decisions and plans only if `is_enabled`.
    #[must_use]
    pub fn enabled_if(is_enabled: bool) -> Self {
        Self { is_enabled, ..Self::default() }
    }

    /// Adds a pool's decision. A decision that is already known changes nothing.
    pub fn record_decision(&self, uid: &str, decided: impl FnOnce() -> SizingDecision) {
        if !self.is_enabled {
            return;
        }
        let decided = decided();
        let mut all = self.decisions.lock().unwrap_or_else(PoisonError::into_inner);
        let of_pool = all.iter().filter(|(of, _)| of == uid);
        let (count, last) = of_pool.fold((0, None), |(count, _), one| (count + 1, Some(one)));
        if last.is_some_and(|(_, last)| last.at_second >= decided.at_second) {
            return;
        }
        if count >= POOL_DECISIONS_MAX
            && let Some(oldest) = all.iter().position(|(of, _)| of == uid)
        {
            all.remove(oldest);
        }
        if all.len() >= DECISIONS_MAX {
            all.pop_front();
        }
        all.push_back((uid.to_owned(), decided));
    }

    /// Adds a pool's figures to its last day.
    pub fn record_slot(&self, uid: &str, slot: DaySlot) {
        if self.is_enabled {
            self.days.lock().unwrap_or_else(PoisonError::into_inner).record(uid, slot);
        }
    }

    /// Returns a pool's last day, the oldest slot first.
    #[must_use]
    pub fn day_of(&self, uid: &str) -> Vec<DaySlot> {
        self.days.lock().unwrap_or_else(PoisonError::into_inner).slots_of(uid)
    }

    /// Replaces the pending steps of a schema.
    pub fn record_plan(&self, uid: &str, steps: impl FnOnce() -> Vec<PlannedStep>) {
        if !self.is_enabled {
            return;
        }
        let mut steps = steps();
        steps.truncate(STEPS_MAX);
        for step in &mut steps {
            shorten_statement(&mut step.statement);
        }
        let mut all = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(of, _)| of != uid);
        if steps.is_empty() {
            return;
        }
        if all.len() >= PLANS_MAX {
            all.pop_front();
        }
        all.push_back((uid.to_owned(), steps));
    }

    /// Returns a pool's decisions, the oldest first.
    #[must_use]
    pub fn decisions_of(&self, uid: &str) -> Vec<SizingDecision> {
        let all = self.decisions.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().filter(|(of, _)| of == uid).map(|(_, decided)| decided.clone()).collect()
    }

    /// Returns the pending steps of a schema.
    #[must_use]
    pub fn planned_steps(&self, uid: &str) -> Vec<PlannedStep> {
        let all = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().find(|(of, _)| of == uid).map(|(_, steps)| steps.clone()).unwrap_or_default()
    }
}

fn shorten_statement(statement: &mut String) {
    if statement.len() > STATEMENT_BYTES_MAX {
        millrace_crds::truncate_text(statement, STATEMENT_BYTES_MAX);
        statement.push_str(" …");
    }
}

#[cfg(test)]
mod tests;
