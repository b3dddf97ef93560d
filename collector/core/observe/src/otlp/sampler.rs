//! Samples traces: a share of all, and of these a maximum per second, so that the cost is bounded
//! at any load.
//!
//! A trace that isn't sampled costs a read of the clock and of one number (50 ns); with the export
//! off it costs a comparison.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tracing::Span;

use super::ids::{Ids, TraceId};

/// Samples traces. Clones share its count; the default samples none.
#[derive(Clone, Debug, Default)]
pub struct Tracer(Option<Arc<Sampler>>);

/// A trace's first span if the trace is sampled; empty otherwise.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// The first span. Without it, records on the trace or below it are discarded.
    pub span: Option<Span>,
    /// The trace's id.
    pub id: Option<TraceId>,
}

impl Tracer {
    pub(super) fn new(sampler: Sampler) -> Self {
        Self(Some(Arc::new(sampler)))
    }

    /// Begins a trace if it is sampled. `make` creates its first span, with the target
    /// [`super::SPANS`], without a parent and with the field `trace_id` of that number.
    pub fn begin_trace(&self, make: impl FnOnce(u128) -> Span) -> Trace {
        let Some(id) = self.0.as_deref().and_then(Sampler::sample_trace) else {
            return Trace::default();
        };
        Trace { span: Some(make(id.as_u128())), id: Some(id) }
    }
}

impl Trace {
    /// Returns its first span, or a disabled one.
    #[must_use]
    pub fn span(&self) -> Span {
        self.span.clone().unwrap_or_else(Span::none)
    }

    /// Records the result on the first span: with `error`, that it failed and why.
    pub fn record_result(&self, error: Option<&str>) {
        if let (Some(span), Some(error)) = (&self.span, error) {
            span.record("otel.status_code", "ERROR");
            span.record("error", error);
        }
    }
}

/// Counts traces per second.
#[derive(Debug)]
pub(super) struct Sampler {
    per_second: u32,
    percent: u8,
    ids: Ids,
    began: Instant,
    /// The second since `began` in the upper half, the traces sampled in it in the lower.
    second: AtomicU64,
}

impl Sampler {
    pub(super) fn new(per_second: u32, percent: u8) -> Self {
        let (ids, began) = (Ids::default(), Instant::now());
        Self { per_second, percent, ids, began, second: AtomicU64::new(0) }
    }

    fn sample_trace(&self) -> Option<TraceId> {
        if self.percent < 100 && self.ids.next_number() % 100 >= u64::from(self.percent) {
            return None;
        }
        self.acquire_slot(self.began.elapsed().as_secs()).then(|| self.ids.next_trace_id())
    }

    /// Whether one more trace may be sampled in this second; counts it if so.
    fn acquire_slot(&self, second: u64) -> bool {
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

    /// Scenario: far more traces than allowed in one second, then in later ones. Guarantee: exactly
    /// the allowed number is sampled in each.
    #[test]
    fn so_many_traces_are_kept_a_second() {
        let sampler = Sampler::new(3, 100);
        let kept = |second| (0..1000).filter(|_| sampler.acquire_slot(second)).count();
        assert_eq!((kept(0), kept(1), kept(9)), (3, 3, 3));
    }

    /// Scenario: a tenth of all traces, without a limit. Guarantee: about a tenth is sampled.
    #[test]
    fn a_share_of_traces_is_kept() {
        let sampler = Sampler::new(u32::MAX, 10);
        let kept = (0..10_000).filter(|_| sampler.sample_trace().is_some()).count();
        assert!((700..1300).contains(&kept), "{kept}");
    }

    /// Scenario: the export is off. Guarantee: no span is created.
    #[test]
    fn without_an_export_no_span_is_made() {
        let trace = Tracer::default().begin_trace(|_| panic!("made"));
        assert!(trace.id.is_none() && trace.span.is_none());
    }
}
