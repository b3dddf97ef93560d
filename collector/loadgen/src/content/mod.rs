//! The content of every record: the only source of truth, from which the sender writes bytes and
//! the checker derives the expected rows. The plan and the record's index determine all of it.

mod log;
mod metric;
mod resource;
mod set;
mod span;

pub(crate) use log::{Log, Logs};
pub(crate) use metric::{
    Data, ExemplarContent, ExponentialData, HistogramData, HistogramTotals, Measurement,
    MetricContent, MetricKind, PointContent, Points, SummaryData,
};
pub(crate) use resource::{RESOURCE_CYCLE, Resource, ScopeContent};
pub(crate) use set::{SentValue, Set};
pub(crate) use span::{SpanContent, SpanEvent, SpanLink, SpanStatus, Spans};

/// A list of attributes, in the order they are sent.
pub(crate) trait AttributeList {
    /// Passes each attribute to `take`.
    fn for_each(&self, take: &mut dyn FnMut(&str, SentValue<'_>));

    /// Returns the number of attributes.
    fn len(&self) -> usize {
        let mut count = 0;
        self.for_each(&mut |_, _| count += 1);
        count
    }
}
