//! Compares a stored row with its expected record. It generates the record again from the plan; the
//! sender stores no content.

use std::collections::HashMap;

use millrace_ddl::AttributeStorage as Variant;
use millrace_schema::{Table, TableKind, build_table};

use super::cell::{CellForm, StoredCell, column_forms};
use super::compare::{Comparison, Known};
use super::rows::{Rows, rows_of_plan};
use crate::content::{RESOURCE_CYCLE, Resource, ScopeContent};
use crate::plan::LoadPlan;

/// A column with a wrong value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ColumnFault {
    pub(crate) column: &'static str,
    pub(crate) actual: String,
    pub(crate) expected: String,
}

/// One table to check.
pub(crate) struct CheckedTable {
    pub(crate) table: Table,
    pub(crate) forms: Vec<CellForm>,
}

/// Checks rows against a plan.
pub(crate) struct RowChecker {
    plan: LoadPlan,
    rows: Box<dyn Rows>,
    variant: Variant,
    known: HashMap<u64, Known>,
    right_scope: Vec<u8>,
    scratch: String,
}

impl RowChecker {
    pub(crate) fn new(plan: &LoadPlan, variant: Variant) -> Self {
        Self {
            plan: plan.clone(),
            rows: rows_of_plan(plan),
            variant,
            known: HashMap::new(),
            right_scope: Vec::new(),
            scratch: String::new(),
        }
    }

    /// Returns the tables that hold the plan's rows.
    pub(crate) fn build_sources(&self) -> Vec<CheckedTable> {
        let source = |kind: &TableKind| {
            let table = build_table(*kind, self.variant);
            let forms = column_forms(&table);
            CheckedTable { table, forms }
        };
        self.rows.tables().iter().map(source).collect()
    }

    /// Returns the index that a row claims to have; `None` if the plan has no such record.
    pub(crate) fn index_of(&self, row: &[StoredCell<'_>]) -> Option<u64> {
        self.rows.index_of(row).filter(|index| *index < self.plan.count)
    }

    /// Returns the identity of a row, for display.
    pub(crate) fn row_id(&self, row: &[StoredCell<'_>]) -> String {
        row.get(self.rows.id_column()).map_or_else(String::new, |cell| match cell {
            StoredCell::Number(nanos) => format!("time {nanos}"),
            cell => format!("id {cell}"),
        })
    }

    /// Returns how to find record `index` in a table, for display.
    pub(crate) fn describe_id(&self, index: u64) -> String {
        self.rows.describe_id(index)
    }

    /// Returns the first column of a row of `table` that differs from record `index`; `None` if all
    /// are right.
    pub(crate) fn first_fault(
        &mut self,
        index: u64,
        source: &CheckedTable,
        row: &[StoredCell<'_>],
    ) -> Option<ColumnFault> {
        let expected = self.rows.table_of(index);
        if expected != source.table.kind {
            let found = source.table.kind.to_string();
            return Some(ColumnFault {
                column: "table",
                actual: found,
                expected: expected.to_string(),
            });
        }
        let group = index / u64::from(self.plan.records_per_resource);
        let known = self.known.entry(group % RESOURCE_CYCLE).or_insert_with(|| Known {
            resource: Resource::of_group(&self.plan, group),
            right: Vec::new(),
        });
        let mut comparison = Comparison {
            cells: row,
            at: 0,
            fault: None,
            variant: self.variant,
            schema_url: Resource::schema_url(&self.plan),
            scope: ScopeContent::of_plan(&self.plan),
            known,
            right_scope: &mut self.right_scope,
            scratch: &mut self.scratch,
        };
        self.rows.describe_row(index, &mut comparison);
        let Comparison { at, fault, .. } = comparison;
        let name = |at| source.table.insert_columns().nth(at).map_or("", |column| column.name);
        if let Some((at, expected)) = fault {
            let found = row.get(at).map_or_else(String::new, ToString::to_string);
            return Some(ColumnFault { column: name(at), actual: found, expected });
        }
        // A description shorter than the row would leave columns unchecked.
        let unseen =
            || ColumnFault { column: name(at), actual: "unseen".into(), expected: "seen".into() };
        (at != row.len()).then(unseen)
    }
}
