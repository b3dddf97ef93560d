//! What the rows of each signal must hold, in the order of their tables' columns.

mod log;
mod metric;
mod span;

use millrace_schema::TableKind;

use super::cell::Cell;
use super::compare::Comparison;
use crate::content::{Logs, Points, Spans};
use crate::plan::{Plan, STEP_NANOS, Shape};

/// Knows the rows of one plan.
pub(super) trait Rows {
    /// The tables they lie in.
    fn tables(&self) -> &'static [TableKind];

    /// Position of the column that says which record a row is.
    fn id_column(&self) -> usize;

    /// The record a row claims to be; may be beyond the plan.
    fn index_of(&self, row: &[Cell<'_>]) -> Option<u64>;

    /// How a record is found in its table, in words.
    fn wanted_id(&self, index: u64) -> String;

    /// The table of a record.
    fn table_of(&self, index: u64) -> TableKind;

    /// Names every value of a record's row.
    fn describe(&self, index: u64, row: &mut Comparison<'_>);
}

/// The rows of a plan's shape.
pub(super) fn rows(plan: &Plan) -> Box<dyn Rows> {
    match plan.shape {
        Shape::Lean | Shape::Rich => Box::new(span::Rows::new(Spans::new(plan))),
        Shape::Logs => Box::new(log::Rows::new(Logs::new(plan), Times::new(plan))),
        Shape::Metrics => Box::new(metric::Rows::new(Points::new(plan), Times::new(plan))),
    }
}

/// Records known by their time, which no two of a plan share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    start_nanos: u64,
}

impl Times {
    const fn new(plan: &Plan) -> Self {
        Self { start_nanos: plan.start_unix_nanos }
    }

    /// The index of the record with the time in a cell.
    fn index_of(self, cell: Option<&Cell<'_>>) -> Option<u64> {
        let since = cell?.number()?.checked_sub(self.start_nanos)?;
        since.is_multiple_of(STEP_NANOS).then_some(since / STEP_NANOS)
    }

    fn wanted_id(self, index: u64) -> String {
        format!("time {}", self.start_nanos + index * STEP_NANOS)
    }
}
