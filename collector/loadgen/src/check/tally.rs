//! Counts found records against acknowledged ones: two bits for each record, and a number for each
//! kind of fault.

use super::cell::StoredCell;
use super::report::CheckReport;
use super::row_checker::{CheckedTable, ColumnFault, RowChecker};
use crate::acked::SendState;

/// Maximum faults shown one by one; the others are only counted.
const EXAMPLES_MAX: usize = 10;

/// Maximum length of one: a row may contain anything.
const EXAMPLE_CHARS_MAX: usize = 2_000;

/// One bit for each of a fixed number of items.
struct Bits(Vec<u64>);

impl Bits {
    fn new(count: u64) -> Self {
        Self(vec![0; count.div_ceil(64) as usize])
    }

    fn get(&self, at: u64) -> bool {
        self.0.get((at / 64) as usize).is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    /// Sets a bit; returns `false` if it was set.
    fn set(&mut self, at: u64) -> bool {
        let Some(word) = self.0.get_mut((at / 64) as usize) else { return false };
        let was = *word >> (at % 64) & 1;
        *word |= 1 << (at % 64);
        was == 0
    }

    /// Returns the number of bits set within a range.
    fn count_in(&self, range: &std::ops::Range<u64>) -> u64 {
        let mut at = range.start;
        let mut sum = 0;
        while at < range.end {
            let end = ((at / 64 + 1) * 64).min(range.end);
            let word = self.0.get((at / 64) as usize).copied().unwrap_or(0) >> (at % 64);
            let remaining = end - at;
            let mask = if remaining == 64 { u64::MAX } else { (1 << remaining) - 1 };
            sum += u64::from((word & mask).count_ones());
            at = end;
        }
        sum
    }
}

/// Counts rows as they arrive.
pub(crate) struct Tally<'a> {
    acked: &'a SendState,
    checker: RowChecker,
    stored_records: Bits,
    altered: Bits,
    rows: u64,
    duplicated: u64,
    resent: u64,
    unacknowledged: u64,
    altered_rows: u64,
    invented: u64,
    examples: Vec<String>,
}

impl<'a> Tally<'a> {
    pub(crate) fn new(acked: &'a SendState, judge: RowChecker) -> Self {
        let count = acked.plan.count;
        Self {
            acked,
            checker: judge,
            stored_records: Bits::new(count),
            altered: Bits::new(count),
            rows: 0,
            duplicated: 0,
            resent: 0,
            unacknowledged: 0,
            altered_rows: 0,
            invented: 0,
            examples: Vec::new(),
        }
    }

    /// Adds one stored row of a table.
    pub(crate) fn add_row(&mut self, source: &CheckedTable, add_row: &[StoredCell<'_>]) {
        self.rows += 1;
        let id = |tally: &Self| tally.checker.row_id(add_row);
        let Some(index) = self.checker.index_of(add_row) else {
            self.invented += 1;
            self.add_example(|tally| format!("invented: no record has {}", id(tally)));
            return;
        };
        let request = index / self.acked.plan.records_per_request();
        if !self.acked.attempted.contains(request) {
            self.invented += 1;
            self.add_example(|tally| {
                format!("invented: record {index} ({}) was never sent", id(tally))
            });
            return;
        }
        if let Some(fault) = self.checker.first_fault(index, source, add_row) {
            self.altered_rows += u64::from(self.altered.set(index));
            self.add_example(|tally| {
                let ColumnFault { column, actual: found, expected } = fault;
                let (id, table) = (id(tally), source.table.kind);
                format!(
                    "altered: record {index} ({id}) in {table}, column {column}: found {found}, \
                     sent {expected}"
                )
            });
        }
        if self.stored_records.set(index) {
            if !self.acked.acknowledged.contains(request) {
                self.unacknowledged += 1;
            }
        } else if self.acked.resent.contains(request) {
            self.resent += 1;
        } else {
            self.duplicated += 1;
            self.add_example(|tally| format!("duplicated: record {index} ({})", id(tally)));
        }
    }

    fn add_example(&mut self, text: impl FnOnce(&Self) -> String) {
        if self.examples.len() < EXAMPLES_MAX {
            let text = text(self).chars().take(EXAMPLE_CHARS_MAX).collect();
            self.examples.push(text);
        }
    }

    /// Returns the result.
    pub(crate) fn into_report(mut self) -> CheckReport {
        let each = self.acked.plan.records_per_request();
        let count = self.acked.plan.count;
        let (mut sent, mut stored) = (0, 0);
        for requests in self.acked.acknowledged.iter() {
            let records = (requests.start * each)..(requests.end * each).min(count);
            sent += records.end - records.start;
            let found = self.stored_records.count_in(&records);
            stored += found;
            if found < records.end - records.start {
                self.missing_example(records);
            }
        }
        let Self {
            acked: _,
            checker: _,
            stored_records: _,
            altered: _,
            rows,
            duplicated,
            resent,
            unacknowledged,
            altered_rows,
            invented,
            examples,
        } = self;
        CheckReport {
            sent,
            stored,
            missing: sent - stored,
            duplicated,
            altered: altered_rows,
            invented,
            unacknowledged,
            resent,
            rows,
            examples,
        }
    }

    /// Adds an example for the first missing part of a range.
    fn missing_example(&mut self, records: std::ops::Range<u64>) {
        let Some(first) = records.clone().find(|index| !self.stored_records.get(*index)) else {
            return;
        };
        let end = (first..records.end)
            .find(|index| self.stored_records.get(*index))
            .unwrap_or(records.end);
        let each = self.acked.plan.records_per_request();
        let text = format!(
            "missing: records {first} to {} (from request {}), first {}",
            end - 1,
            first / each,
            self.checker.describe_id(first),
        );
        // Missing records are found last but matter most.
        self.examples.truncate(EXAMPLES_MAX - 1);
        self.examples.insert(0, text);
    }
}
