//! Judges a stored row: whether it is what its record must be. The record is made anew from the
//! plan; nothing of what was sent is kept.

use std::collections::HashMap;

use millrace_ddl::Attributes as Variant;
use millrace_schema::{Table, TableKind, table};

use super::cell::{Cell, Form, forms};
use super::compare::{Comparison, Known};
use super::rows::{Rows, rows};
use crate::content::{RESOURCE_CYCLE, Resource, Scope};
use crate::plan::Plan;

/// A column that is not what it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) column: &'static str,
    pub(crate) found: String,
    pub(crate) wanted: String,
}

/// One table to judge.
pub(crate) struct Source {
    pub(crate) table: Table,
    pub(crate) forms: Vec<Form>,
}

/// Knows what every row of a plan must look like.
pub(crate) struct Judge {
    plan: Plan,
    rows: Box<dyn Rows>,
    variant: Variant,
    known: HashMap<u64, Known>,
    right_scope: Vec<u8>,
    scratch: String,
}

impl Judge {
    pub(crate) fn new(plan: &Plan, variant: Variant) -> Self {
        Self {
            plan: plan.clone(),
            rows: rows(plan),
            variant,
            known: HashMap::new(),
            right_scope: Vec::new(),
            scratch: String::new(),
        }
    }

    /// The tables that hold the plan's rows.
    pub(crate) fn sources(&self) -> Vec<Source> {
        let source = |kind: &TableKind| {
            let table = table(*kind, self.variant);
            let forms = forms(&table);
            Source { table, forms }
        };
        self.rows.tables().iter().map(source).collect()
    }

    /// The index a row claims to have; `None` if no record of the plan is like it.
    pub(crate) fn index_of(&self, row: &[Cell<'_>]) -> Option<u64> {
        self.rows.index_of(row).filter(|index| *index < self.plan.count)
    }

    /// How a row says who it is, for showing.
    pub(crate) fn id(&self, row: &[Cell<'_>]) -> String {
        row.get(self.rows.id_column()).map_or_else(String::new, |cell| match cell {
            Cell::Number(nanos) => format!("time {nanos}"),
            cell => format!("id {cell}"),
        })
    }

    /// How record `index` is found in a table, for showing.
    pub(crate) fn wanted_id(&self, index: u64) -> String {
        self.rows.wanted_id(index)
    }

    /// The first column of a row of `table` that is not what record `index` must have; `None` if
    /// all are right.
    pub(crate) fn first_fault(
        &mut self,
        index: u64,
        source: &Source,
        row: &[Cell<'_>],
    ) -> Option<Fault> {
        let wanted = self.rows.table_of(index);
        if wanted != source.table.kind {
            let found = source.table.kind.to_string();
            return Some(Fault { column: "table", found, wanted: wanted.to_string() });
        }
        let group = index / u64::from(self.plan.records_per_resource);
        let known = self.known.entry(group % RESOURCE_CYCLE).or_insert_with(|| Known {
            resource: Resource::at(&self.plan, group),
            right: Vec::new(),
        });
        let mut comparison = Comparison {
            cells: row,
            at: 0,
            fault: None,
            variant: self.variant,
            schema_url: Resource::schema_url(&self.plan),
            scope: Scope::of(&self.plan),
            known,
            right_scope: &mut self.right_scope,
            scratch: &mut self.scratch,
        };
        self.rows.describe(index, &mut comparison);
        let Comparison { at, fault, .. } = comparison;
        let name = |at| source.table.insert_columns().nth(at).map_or("", |column| column.name);
        if let Some((at, wanted)) = fault {
            let found = row.get(at).map_or_else(String::new, ToString::to_string);
            return Some(Fault { column: name(at), found, wanted });
        }
        // A description shorter than the row would leave columns unseen.
        let unseen = || Fault { column: name(at), found: "unseen".into(), wanted: "seen".into() };
        (at != row.len()).then(unseen)
    }
}
