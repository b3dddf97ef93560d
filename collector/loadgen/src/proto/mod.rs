//! OTLP protobuf, written and read by hand: only what a load needs. Writing is checked against the
//! official messages in tests.

mod answer;
mod log;
mod metric;
mod span;
#[cfg(test)]
#[path = "../../tests/unit/proto.rs"]
mod tests;
mod write;

use std::ops::Range;

pub(crate) use answer::{rejected_records, retry_delay};
use write::{put_attributes, put_bytes, put_message, put_text, put_varint};

use crate::content::{Logs, Points, Resource, Scope, Spans};
use crate::plan::{Plan, Shape};

/// Writes records of one signal.
trait Records {
    /// Appends records to their scope's message, in its field 2.
    fn put(&mut self, records: Range<u64>, scope: &mut Vec<u8>);
}

/// Writes requests of one plan. Buffers are kept between requests.
pub(crate) struct Writer {
    plan: Plan,
    records: Box<dyn Records + Send>,
}

impl Writer {
    pub(crate) fn new(plan: &Plan) -> Self {
        let records: Box<dyn Records + Send> = match plan.shape {
            Shape::Lean | Shape::Rich => Box::new(Spans::new(plan)),
            Shape::Logs => Box::new(log::Writer::new(Logs::new(plan))),
            Shape::Metrics => Box::new(Points::new(plan)),
        };
        Self { plan: plan.clone(), records }
    }

    /// Appends one whole export request to `out`. Its outer messages are the same in all signals.
    pub(crate) fn request(&mut self, request: u64, out: &mut Vec<u8>) {
        let range = self.plan.records_of(request);
        let each = u64::from(self.plan.records_per_resource);
        let mut first = range.start;
        while first < range.end {
            let end = (first + each).min(range.end);
            let resource = Resource::at(&self.plan, first / each);
            put_message(out, 1, |out| {
                put_message(out, 1, |out| put_attributes(out, 1, &resource));
                put_message(out, 2, |out| self.scope(first..end, out));
                put_text(out, 3, Resource::schema_url(&self.plan));
            });
            first = end;
        }
    }

    fn scope(&mut self, records: Range<u64>, out: &mut Vec<u8>) {
        let scope = Scope::of(&self.plan);
        put_message(out, 1, |out| {
            put_bytes(out, 1, Scope::NAME.as_bytes());
            put_bytes(out, 2, Scope::VERSION.as_bytes());
            put_attributes(out, 3, &scope);
            if scope.dropped() > 0 {
                put_varint(out, 4, scope.dropped().into());
            }
        });
        self.records.put(records, out);
        put_text(out, 3, scope.schema_url());
    }
}
