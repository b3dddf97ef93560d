//! What the console shows and no status holds: the last sizing decisions of each pool, and the
//! statements that tables wait for. Nothing is kept where no console is served.
//!
//! In memory, of this process: a new leader begins with nothing. Limits: [`DECISIONS_MAX`]
//! decisions of 250 B in all (1 MB), [`POOL_DECISIONS_MAX`] of one pool; the plans of
//! [`PLANS_MAX`] schemas, [`STEPS_MAX`] steps of [`STATEMENT_BYTES_MAX`] each (2 MB).

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use millrace_reports::{Decided, PlannedStep};

/// Decisions of one pool: an hour of a pool whose figures change all the time.
const POOL_DECISIONS_MAX: usize = 64;
/// Decisions of all pools, the newest.
const DECISIONS_MAX: usize = 4_096;
/// Schemas whose plans are kept, those that were compared last.
const PLANS_MAX: usize = 16;
/// Steps of one plan.
const STEPS_MAX: usize = 32;
/// The longest statement; a longer one is cut: it is made for reading.
const STATEMENT_BYTES_MAX: usize = 4 * 1024;

/// Decisions and statements, by the uid of their object.
#[derive(Debug, Default)]
pub struct Shown {
    keeps: bool,
    decisions: Mutex<VecDeque<(String, Decided)>>,
    plans: Mutex<VecDeque<(String, Vec<PlannedStep>)>>,
}

impl Shown {
    /// Keeps what it is told, or nothing.
    #[must_use]
    pub fn kept_if(keeps: bool) -> Self {
        Self { keeps, ..Self::default() }
    }

    /// A pool's decision; one that is known already changes nothing.
    pub fn decided(&self, uid: &str, decided: impl FnOnce() -> Decided) {
        if !self.keeps {
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

    /// The steps that a schema waits for now.
    pub fn planned(&self, uid: &str, steps: impl FnOnce() -> Vec<PlannedStep>) {
        if !self.keeps {
            return;
        }
        let mut steps = steps();
        steps.truncate(STEPS_MAX);
        for step in &mut steps {
            shorten(&mut step.statement);
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

    /// A pool's decisions, the oldest first.
    #[must_use]
    pub fn decisions(&self, uid: &str) -> Vec<Decided> {
        let all = self.decisions.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().filter(|(of, _)| of == uid).map(|(_, decided)| decided.clone()).collect()
    }

    /// The steps that a schema waits for.
    #[must_use]
    pub fn steps(&self, uid: &str) -> Vec<PlannedStep> {
        let all = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().find(|(of, _)| of == uid).map(|(_, steps)| steps.clone()).unwrap_or_default()
    }
}

fn shorten(statement: &mut String) {
    if statement.len() > STATEMENT_BYTES_MAX {
        millrace_crds::cut(statement, STATEMENT_BYTES_MAX);
        statement.push_str(" …");
    }
}

#[cfg(test)]
#[path = "../../tests/unit/cache/shown.rs"]
mod tests;
