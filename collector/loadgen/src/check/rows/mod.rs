//! The expected rows of each signal, in the order of their tables' columns.

mod log;
mod metric;
mod span;

use millrace_schema::TableKind;

use super::cell::StoredCell;
use super::compare::Comparison;
use crate::content::{Logs, Points, Spans};
use crate::plan::{LoadPlan, LoadShape, STEP_NANOS};

/// The expected rows of one plan.
pub(super) trait Rows {
    /// Returns their tables.
    fn tables(&self) -> &'static [TableKind];

    /// Returns the position of the column that identifies the record.
    fn id_column(&self) -> usize;

    /// Returns the record that a row claims to be; it may be beyond the plan.
    fn index_of(&self, row: &[StoredCell<'_>]) -> Option<u64>;

    /// Describes how to find a record in its table.
    fn describe_id(&self, index: u64) -> String;

    /// Returns the table of a record.
    fn table_of(&self, index: u64) -> TableKind;

    /// Describes every value of a record's row.
    fn describe_row(&self, index: u64, row: &mut Comparison<'_>);
}

/// Returns the rows of a plan's shape.
pub(super) fn rows_of_plan(plan: &LoadPlan) -> Box<dyn Rows> {
    match plan.shape {
        LoadShape::Lean | LoadShape::Rich | LoadShape::Ruled => {
            Box::new(span::Rows::new(Spans::new(plan)))
        }
        LoadShape::Logs => Box::new(log::Rows::new(Logs::new(plan), Times::new(plan))),
        LoadShape::Metrics => Box::new(metric::Rows::new(Points::new(plan), Times::new(plan))),
    }
}

/// Records identified by their time, which no two of a plan share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    start_nanos: u64,
}

impl Times {
    const fn new(plan: &LoadPlan) -> Self {
        Self { start_nanos: plan.start_unix_nanos }
    }

    /// Returns the index of the record with the time in a cell.
    fn index_of(self, cell: Option<&StoredCell<'_>>) -> Option<u64> {
        let since = cell?.as_number()?.checked_sub(self.start_nanos)?;
        since.is_multiple_of(STEP_NANOS).then_some(since / STEP_NANOS)
    }

    fn describe_id(self, index: u64) -> String {
        format!("time {}", self.start_nanos + index * STEP_NANOS)
    }
}
