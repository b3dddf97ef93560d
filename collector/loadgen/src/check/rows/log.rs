//! Rows of the logs table.

use millrace_schema::TableKind;

use super::super::cell::StoredCell;
use super::super::compare::Comparison;
use super::super::text::plain_text;
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

    fn index_of(&self, row: &[StoredCell<'_>]) -> Option<u64> {
        self.times.index_of(row.get(TIMESTAMP))
    }

    fn describe_id(&self, index: u64) -> String {
        self.times.describe_id(index)
    }

    fn table_of(&self, _: u64) -> TableKind {
        TableKind::Logs
    }

    fn describe_row(&self, index: u64, row: &mut Comparison<'_>) {
        let log = self.logs.log_at(index);
        row.expect_number(log.row_nanos());
        row.expect_trace_id(log.trace_id);
        row.expect_span_id(log.span_id);
        row.expect_number(log.flags.into());
        row.expect_text(log.severity_text);
        row.expect_number(log.severity_number.into());
        row.expect_service_name();
        let mut scratch = std::mem::take(row.scratch);
        log.with_body(&mut scratch, |body| match body {
            Some(value) => row.expect_text(&plain_text(&value)),
            None => row.expect_text(""),
        });
        *row.scratch = scratch;
        row.expect_resource_schema_url();
        row.expect_resource_attributes();
        row.expect_scope_schema_url();
        row.expect_scope_name();
        row.expect_scope_version();
        row.expect_scope_attributes();
        row.expect_set(&log.attributes);
        row.expect_text(log.event_name);
    }
}
