//! Caches encoders between two batches.

use millrace_pipeline::budget::Reservation;
use millrace_pipeline::sink::Encoder;
use millrace_wire::Signal;

/// The encoders cached for the next batch, per signal: one partition's batch is usually cut while
/// the next one's is begun.
const MAX_SPARES: usize = 2;

/// Empty encoders with their memory and its reservation.
#[derive(Default)]
pub(crate) struct SpareEncoders {
    by_signal: [Vec<(Box<dyn Encoder>, Reservation)>; 3],
}

impl SpareEncoders {
    pub(crate) fn take_encoder(
        &mut self,
        signal: Signal,
    ) -> Option<(Box<dyn Encoder>, Reservation)> {
        self.by_signal[signal.index()].pop()
    }

    pub(crate) fn store_encoder(
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

    /// Frees their memory. Returns whether there was any.
    pub(crate) fn clear(&mut self) -> bool {
        let any = self.by_signal.iter().any(|spares| !spares.is_empty());
        self.by_signal.iter_mut().for_each(Vec::clear);
        any
    }
}
