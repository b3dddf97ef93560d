//! OTLP protobuf, written and read by hand: only the parts that a load needs. Tests compare the
//! output with the official messages.

mod log;
mod metric;
mod response;
mod span;
#[cfg(test)]
mod tests;
mod write;

use std::ops::Range;

pub(crate) use response::{rejected_records, retry_delay};
use write::{put_attributes, put_bytes, put_message, put_text, put_varint};

use crate::content::{Logs, Points, Resource, ScopeContent, Spans};
use crate::plan::{LoadPlan, LoadShape};

/// Writes records of one signal.
trait Records {
    /// Appends records to their scope's message, in its field 2.
    fn put_records(&mut self, records: Range<u64>, scope: &mut Vec<u8>);
}

/// Writes requests of one plan. It reuses its buffers between requests.
pub(crate) struct RequestWriter {
    plan: LoadPlan,
    records: Box<dyn Records + Send>,
}

impl RequestWriter {
    pub(crate) fn new(plan: &LoadPlan) -> Self {
        let records: Box<dyn Records + Send> = match plan.shape {
            LoadShape::Lean | LoadShape::Rich | LoadShape::Ruled => Box::new(Spans::new(plan)),
            LoadShape::Logs => Box::new(log::LogWriter::new(Logs::new(plan))),
            LoadShape::Metrics => Box::new(Points::new(plan)),
        };
        Self { plan: plan.clone(), records }
    }

    /// Appends one complete export request to `out`. Its outer messages are the same in all
    /// signals.
    pub(crate) fn put_request(&mut self, request: u64, out: &mut Vec<u8>) {
        let range = self.plan.records_of(request);
        let each = u64::from(self.plan.records_per_resource);
        let mut first = range.start;
        while first < range.end {
            let end = (first + each).min(range.end);
            let resource = Resource::of_group(&self.plan, first / each);
            put_message(out, 1, |out| {
                put_message(out, 1, |out| put_attributes(out, 1, &resource));
                put_message(out, 2, |out| self.put_scope(first..end, out));
                put_text(out, 3, Resource::schema_url(&self.plan));
            });
            first = end;
        }
    }

    fn put_scope(&mut self, records: Range<u64>, out: &mut Vec<u8>) {
        let scope = ScopeContent::of_plan(&self.plan);
        put_message(out, 1, |out| {
            put_bytes(out, 1, ScopeContent::NAME.as_bytes());
            put_bytes(out, 2, ScopeContent::VERSION.as_bytes());
            put_attributes(out, 3, &scope);
            if scope.dropped_count() > 0 {
                put_varint(out, 4, scope.dropped_count().into());
            }
        });
        self.records.put_records(records, out);
        put_text(out, 3, scope.schema_url());
    }
}
