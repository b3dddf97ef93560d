//! Encoders between two batches.

use millrace_pipeline::budget::Reservation;
use millrace_pipeline::sink::Encoder;
use millrace_wire::Signal;

/// Encoders kept for the next batch, per signal: one partition's batch is usually cut while the
/// next one's is begun.
const MAX_SPARES: usize = 2;

/// Empty encoders with their memory, and what covers it.
#[derive(Default)]
pub(super) struct Spares {
    by_signal: [Vec<(Box<dyn Encoder>, Reservation)>; 3],
}

impl Spares {
    pub(super) fn take(&mut self, signal: Signal) -> Option<(Box<dyn Encoder>, Reservation)> {
        self.by_signal[signal.index()].pop()
    }

    pub(super) fn keep(
        &mut self,
        signal: Signal,
        encoder: Box<dyn Encoder>,
        mut cover: Reservation,
    ) {
        let spares = &mut self.by_signal[signal.index()];
        let held = u64::try_from(encoder.memory_bytes()).unwrap_or(u64::MAX);
        if spares.len() < MAX_SPARES && cover.try_resize(held) {
            spares.push((encoder, cover));
        }
    }

    /// Frees their memory. True when there was any.
    pub(super) fn clear(&mut self) -> bool {
        let any = self.by_signal.iter().any(|spares| !spares.is_empty());
        self.by_signal.iter_mut().for_each(Vec::clear);
        any
    }
}
