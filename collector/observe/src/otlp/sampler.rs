//! Which traces are kept: a share of all, and of these so many a second at most, so that the cost
//! has a bound whatever the load.
//!
//! A trace that isn't kept costs a look at the clock and at one number (50 ns); with the export off
//! it costs a comparison.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tracing::Span;

use super::ids::{Ids, TraceId};

/// Decides about traces. Clones share its count; the default keeps none.
#[derive(Clone, Debug, Default)]
pub struct Tracer(Option<Arc<Sampler>>);

/// A trace's first span, where the trace is kept; nothing where it isn't.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// Disabled if the trace isn't kept: whatever is recorded on it or below it goes nowhere.
    pub span: Option<Span>,
    /// The trace's id.
    pub id: Option<TraceId>,
}

impl Tracer {
    pub(super) fn new(sampler: Sampler) -> Self {
        Self(Some(Arc::new(sampler)))
    }

    /// Begins a trace, if it is to be kept. `make` makes its first span, of the target
    /// [`super::SPANS`], without a parent and with the field `trace_id` of that number.
    pub fn begin(&self, make: impl FnOnce(u128) -> Span) -> Trace {
        let Some(id) = self.0.as_deref().and_then(Sampler::take) else { return Trace::default() };
        Trace { span: Some(make(id.number())), id: Some(id) }
    }
}

impl Trace {
    /// Its first span, or a disabled one.
    #[must_use]
    pub fn span(&self) -> Span {
        self.span.clone().unwrap_or_else(Span::none)
    }

    /// Notes on the first span how it went: with `error`, that it failed and why.
    pub fn ended(&self, error: Option<&str>) {
        if let (Some(span), Some(error)) = (&self.span, error) {
            span.record("otel.status_code", "ERROR");
            span.record("error", error);
        }
    }
}

/// Counts traces by the second.
#[derive(Debug)]
pub(super) struct Sampler {
    per_second: u32,
    percent: u8,
    ids: Ids,
    began: Instant,
    /// The second since `began` in the upper half, traces kept in it in the lower.
    second: AtomicU64,
}

impl Sampler {
    pub(super) fn new(per_second: u32, percent: u8) -> Self {
        let (ids, began) = (Ids::default(), Instant::now());
        Self { per_second, percent, ids, began, second: AtomicU64::new(0) }
    }

    fn take(&self) -> Option<TraceId> {
        if self.percent < 100 && self.ids.number() % 100 >= u64::from(self.percent) {
            return None;
        }
        self.has_room(self.began.elapsed().as_secs()).then(|| self.ids.trace())
    }

    /// Whether one more fits into this second.
    fn has_room(&self, second: u64) -> bool {
        let count = |state: u64| {
            let used = if state >> 32 == second { state & u64::from(u32::MAX) } else { 0 };
            (used < u64::from(self.per_second)).then_some(second << 32 | (used + 1))
        };
        self.second.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: far more traces than allowed in one second, then the next. Guarantee: as many as
    /// allowed are kept in each.
    #[test]
    fn so_many_traces_are_kept_a_second() {
        let sampler = Sampler::new(3, 100);
        let kept = |second| (0..1000).filter(|_| sampler.has_room(second)).count();
        assert_eq!((kept(0), kept(1), kept(9)), (3, 3, 3));
    }

    /// Scenario: a tenth of all is to be kept, without a limit. Guarantee: about a tenth is.
    #[test]
    fn a_share_of_traces_is_kept() {
        let sampler = Sampler::new(u32::MAX, 10);
        let kept = (0..10_000).filter(|_| sampler.take().is_some()).count();
        assert!((700..1300).contains(&kept), "{kept}");
    }

    /// Scenario: the export is off. Guarantee: no span is even made.
    #[test]
    fn without_an_export_no_span_is_made() {
        let trace = Tracer::default().begin(|_| panic!("made"));
        assert!(trace.id.is_none() && trace.span.is_none());
    }
}
