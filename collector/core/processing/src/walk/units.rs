//! Runs the rules of a walk on one object.

use crate::config::ErrorMode;
use crate::error::RuleFailure;
use crate::ottl::context::StatementContext;
use crate::program::{Condition, PassAction, Statement, Unit};
use crate::walk::{Stop, Walk};

/// What rules decided on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Retained,
    Dropped {
        rule: usize,
    },
    /// The object would exceed a limit: it is left as it was.
    OverLimit,
}

impl Walk<'_> {
    /// Runs all rules on the open object of a context.
    #[inline]
    pub(super) fn run_units(&mut self, context: StatementContext) -> Result<Verdict, Stop> {
        if self.machine.is_over_limit {
            self.redact_over_limit(context)?;
            return Ok(Verdict::Retained);
        }
        if self.timer.begin_object() {
            self.run_measured(context)
        } else {
            self.run::<false>(context)
        }
    }

    #[cold]
    fn run_measured(&mut self, context: StatementContext) -> Result<Verdict, Stop> {
        self.run::<true>(context)
    }

    #[inline]
    fn run<const MEASURED: bool>(&mut self, context: StatementContext) -> Result<Verdict, Stop> {
        let pass = self.pass;
        for unit in pass.units(context) {
            let verdict = match &unit.action {
                PassAction::Statements(statements) => {
                    self.run_statements::<MEASURED>(unit, statements)?
                }
                PassAction::Drop(conditions) => {
                    self.run_conditions::<MEASURED>(unit, conditions)?
                }
                PassAction::Redact(step) => self.redact(unit, step)?,
                PassAction::Sample(step) => self.sample(unit, step)?,
                PassAction::Enrich(step) => self.enrich(unit, step)?,
            };
            if MEASURED && !unit.action.is_list() {
                self.record_time(unit.first_rule);
            }
            if self.is_selecting {
                return Ok(match verdict {
                    Verdict::Dropped { .. } => Verdict::Retained,
                    _ => Verdict::Dropped { rule: unit.first_rule },
                });
            }
            if verdict != Verdict::Retained {
                return Ok(verdict);
            }
        }
        Ok(Verdict::Retained)
    }

    fn run_statements<const MEASURED: bool>(
        &mut self,
        unit: &Unit,
        statements: &[Statement],
    ) -> Result<Verdict, Stop> {
        self.machine.objects[StatementContext::Cache.index()].slots.clear();
        for (position, statement) in statements.iter().enumerate() {
            let rule = unit.first_rule + position;
            let mark = self.machine.memory.mark();
            let executed = self.machine.execute(statement);
            if MEASURED {
                self.record_time(rule);
            }
            match executed {
                // A condition stores nothing that it computed.
                Ok((false, _)) => self.machine.memory.truncate(mark),
                Ok((true, is_changed)) => {
                    if let Some(counts) = self.counts.rules.get_mut(rule) {
                        counts.matched += 1;
                        counts.changed += u64::from(is_changed);
                    }
                }
                Err(error) => {
                    if let Some(verdict) = self.fail(unit, rule, error)? {
                        return Ok(verdict);
                    }
                }
            }
        }
        Ok(Verdict::Retained)
    }

    fn run_conditions<const MEASURED: bool>(
        &mut self,
        unit: &Unit,
        conditions: &[Condition],
    ) -> Result<Verdict, Stop> {
        for (position, condition) in conditions.iter().enumerate() {
            let rule = unit.first_rule + position;
            let mark = self.machine.memory.mark();
            let tested = self.machine.test(condition);
            if MEASURED {
                self.record_time(rule);
            }
            match tested {
                Ok(false) => self.machine.memory.truncate(mark),
                Ok(true) => {
                    if let Some(counts) = self.counts.rules.get_mut(rule) {
                        counts.matched += 1;
                    }
                    return Ok(Verdict::Dropped { rule });
                }
                Err(error) => {
                    if let Some(verdict) = self.fail(unit, rule, error)? {
                        return Ok(verdict);
                    }
                }
            }
        }
        Ok(Verdict::Retained)
    }

    /// Adds the time since the last rule to that of a rule.
    fn record_time(&mut self, rule: usize) {
        let nanos = self.timer.end_lap();
        if let Some(counts) = self.counts.rules.get_mut(rule) {
            counts.nanos = counts.nanos.saturating_add(nanos);
        }
    }

    /// Handles a rule's failure by its step's error mode.
    #[cold]
    pub(super) fn fail(
        &mut self,
        unit: &Unit,
        rule: usize,
        error: RuleFailure,
    ) -> Result<Option<Verdict>, Stop> {
        self.machine.reset_buffers();
        if let Some(counts) = self.counts.rules.get_mut(rule) {
            counts.failed += 1;
            if unit.error_mode != ErrorMode::Silent {
                counts.last_error = Some(error);
            }
        }
        if let RuleFailure::Malformed(kind) = error {
            return Err(Stop::Malformed(kind));
        }
        if error.is_limit() {
            self.counts.over_limit += 1;
            return Ok(Some(Verdict::OverLimit));
        }
        match unit.error_mode {
            ErrorMode::Ignore | ErrorMode::Silent => Ok(None),
            ErrorMode::Propagate => Err(Stop::Rejected { rule, error }),
        }
    }
}
