//! What every record holds: the one source of truth, from which the sender writes bytes and the
//! checker knows what a row must be. Everything follows from the plan and the record's index.

mod log;
mod metric;
mod resource;
mod set;
mod span;

pub(crate) use log::{Log, Logs};
pub(crate) use metric::{
    Data, Exemplar, ExponentialData, HistogramData, Kind, Metric, Number, Point, Points,
    SummaryData, Totals,
};
pub(crate) use resource::{RESOURCE_CYCLE, Resource, Scope};
pub(crate) use set::{Set, Value};
pub(crate) use span::{Event, Link, Span, Spans, Status};

/// A list of attributes, in the order they are sent.
pub(crate) trait Attributes {
    /// Hands over each attribute.
    fn each(&self, take: &mut dyn FnMut(&str, Value<'_>));

    /// How many there are.
    fn count(&self) -> usize {
        let mut count = 0;
        self.each(&mut |_, _| count += 1);
        count
    }
}
