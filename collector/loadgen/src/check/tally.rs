//! Counts what was found against what was acknowledged: two bits for each record, and a word for
//! each kind of fault.

use super::cell::Cell;
use super::judge::{Fault, Judge, Source};
use super::report::Report;
use crate::acked::Acked;

/// Faults shown one by one; the rest is counted only.
const EXAMPLES_MAX: usize = 10;

/// Longest text of one: a row may hold anything.
const EXAMPLE_CHARS_MAX: usize = 2_000;

/// One bit for each of a fixed number of things.
struct Bits(Vec<u64>);

impl Bits {
    fn new(count: u64) -> Self {
        Self(vec![0; count.div_ceil(64) as usize])
    }

    fn get(&self, at: u64) -> bool {
        self.0.get((at / 64) as usize).is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    /// Sets a bit; `false` if it was set.
    fn set(&mut self, at: u64) -> bool {
        let Some(word) = self.0.get_mut((at / 64) as usize) else { return false };
        let was = *word >> (at % 64) & 1;
        *word |= 1 << (at % 64);
        was == 0
    }

    /// Bits set within a range.
    fn count(&self, range: &std::ops::Range<u64>) -> u64 {
        let mut at = range.start;
        let mut sum = 0;
        while at < range.end {
            let end = ((at / 64 + 1) * 64).min(range.end);
            let word = self.0.get((at / 64) as usize).copied().unwrap_or(0) >> (at % 64);
            let kept = end - at;
            let mask = if kept == 64 { u64::MAX } else { (1 << kept) - 1 };
            sum += u64::from((word & mask).count_ones());
            at = end;
        }
        sum
    }
}

/// Counts rows as they come.
pub(crate) struct Tally<'a> {
    acked: &'a Acked,
    judge: Judge,
    seen: Bits,
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
    pub(crate) fn new(acked: &'a Acked, judge: Judge) -> Self {
        let count = acked.plan.count;
        Self {
            acked,
            judge,
            seen: Bits::new(count),
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

    /// Takes one stored row of a table.
    pub(crate) fn row(&mut self, source: &Source, row: &[Cell<'_>]) {
        self.rows += 1;
        let id = |tally: &Self| tally.judge.id(row);
        let Some(index) = self.judge.index_of(row) else {
            self.invented += 1;
            self.example(|tally| format!("invented: no record has {}", id(tally)));
            return;
        };
        let request = index / self.acked.plan.records_per_request();
        if !self.acked.attempted.contains(request) {
            self.invented += 1;
            self.example(|tally| {
                format!("invented: record {index} ({}) was never sent", id(tally))
            });
            return;
        }
        if let Some(fault) = self.judge.first_fault(index, source, row) {
            self.altered_rows += u64::from(self.altered.set(index));
            self.example(|tally| {
                let Fault { column, found, wanted } = fault;
                let (id, table) = (id(tally), source.table.kind);
                format!(
                    "altered: record {index} ({id}) in {table}, column {column}: found {found}, \
                     sent {wanted}"
                )
            });
        }
        if self.seen.set(index) {
            if !self.acked.acknowledged.contains(request) {
                self.unacknowledged += 1;
            }
        } else if self.acked.resent.contains(request) {
            self.resent += 1;
        } else {
            self.duplicated += 1;
            self.example(|tally| format!("duplicated: record {index} ({})", id(tally)));
        }
    }

    fn example(&mut self, text: impl FnOnce(&Self) -> String) {
        if self.examples.len() < EXAMPLES_MAX {
            let text = text(self).chars().take(EXAMPLE_CHARS_MAX).collect();
            self.examples.push(text);
        }
    }

    /// What it comes to.
    pub(crate) fn finish(mut self) -> Report {
        let each = self.acked.plan.records_per_request();
        let count = self.acked.plan.count;
        let (mut sent, mut stored) = (0, 0);
        for requests in self.acked.acknowledged.iter() {
            let records = (requests.start * each)..(requests.end * each).min(count);
            sent += records.end - records.start;
            let found = self.seen.count(&records);
            stored += found;
            if found < records.end - records.start {
                self.missing_example(records);
            }
        }
        let Self {
            acked: _,
            judge: _,
            seen: _,
            altered: _,
            rows,
            duplicated,
            resent,
            unacknowledged,
            altered_rows,
            invented,
            examples,
        } = self;
        Report {
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

    /// Names the first stretch of a range that is not there.
    fn missing_example(&mut self, records: std::ops::Range<u64>) {
        let Some(first) = records.clone().find(|index| !self.seen.get(*index)) else { return };
        let end = (first..records.end).find(|index| self.seen.get(*index)).unwrap_or(records.end);
        let each = self.acked.plan.records_per_request();
        let text = format!(
            "missing: records {first} to {} (from request {}), first {}",
            end - 1,
            first / each,
            self.judge.wanted_id(first),
        );
        // Missing ones are found last but matter most.
        self.examples.truncate(EXAMPLES_MAX - 1);
        self.examples.insert(0, text);
    }
}
