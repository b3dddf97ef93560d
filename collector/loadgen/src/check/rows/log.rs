//! Rows of the logs table.

use millrace_schema::TableKind;

use super::super::cell::Cell;
use super::super::compare::Comparison;
use super::super::text::plain;
use super::Times;
use crate::content::Logs;

/// Position of `Timestamp`.
const TIMESTAMP: usize = 0;

pub(super) struct Rows {
    logs: Logs,
    times: Times,
}

impl Rows {
    pub(super) const fn new(logs: Logs, times: Times) -> Self {
        Self { logs, times }
    }
}

impl super::Rows for Rows {
    fn tables(&self) -> &'static [TableKind] {
        &[TableKind::Logs]
    }

    fn id_column(&self) -> usize {
        TIMESTAMP
    }

    fn index_of(&self, row: &[Cell<'_>]) -> Option<u64> {
        self.times.index_of(row.get(TIMESTAMP))
    }

    fn wanted_id(&self, index: u64) -> String {
        self.times.wanted_id(index)
    }

    fn table_of(&self, _: u64) -> TableKind {
        TableKind::Logs
    }

    fn describe(&self, index: u64, row: &mut Comparison<'_>) {
        let log = self.logs.at(index);
        row.number(log.row_nanos());
        row.trace_id(log.trace_id);
        row.span_id(log.span_id);
        row.number(log.flags.into());
        row.text(log.severity_text);
        row.number(log.severity_number.into());
        row.service_name();
        let mut scratch = std::mem::take(row.scratch);
        log.with_body(&mut scratch, |body| match body {
            Some(value) => row.text(&plain(&value)),
            None => row.text(""),
        });
        *row.scratch = scratch;
        row.resource_schema_url();
        row.resource_attributes();
        row.scope_schema_url();
        row.scope_name();
        row.scope_version();
        row.scope_attributes();
        row.set(&log.attributes);
        row.text(log.event_name);
    }
}
