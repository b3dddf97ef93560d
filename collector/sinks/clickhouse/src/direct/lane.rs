//! One signal's open batches: requests are encoded as they arrive, and cut by rows, bytes and age.
//!
//! There are as many open batches as publishing threads, so that no thread waits for another's
//! encoding. Under light load only the first is used, so inserts stay few and big.

use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use millrace_config::AcknowledgeInsert;
use millrace_pipeline::batch::{BatchSize, CutReason};
use millrace_pipeline::budget::Reservation;
use millrace_pipeline::mutex::lock;
use millrace_pipeline::publish::{DeliveryReceipt, PendingDelivery, PublishError, PublishRequest};
use millrace_pipeline::sink::{Block, Encoder, Insert};
use millrace_pipeline::telemetry::RefusalReason;
use millrace_wire::Signal;
use millrace_wire::otlp::RequestOutline;

use super::DirectInner;
use super::batch::{BatchRequest, CutBatch};

/// The bytes that a request may add to an encoder and its bodies, as a multiple of its size:
/// columns with their identifiers in text are under three times, half of that again for LZ4.
const GROWTH: u64 = 5;
/// The step in which reservations change.
const RESERVATION_STEP_BYTES: u64 = 1 << 20;
/// The minimum size of a batch that is cut to free memory: many small inserts would cost more than
/// they free.
const MIN_CUT_FOR_ROOM_BYTES: usize = 1 << 20;
/// The maximum number of requests in one batch. Each waits with its own answer, of about 100 bytes.
const MAX_REQUESTS: usize = 16 * 1024;

/// A signal's open batches.
pub(super) struct Lane {
    signal: Signal,
    shards: Vec<Mutex<Shard>>,
}

#[derive(Default)]
struct Shard {
    open: Option<OpenBatch>,
    /// The previous batch's encoder, with its memory and reservation.
    spare: Option<(Box<dyn Encoder>, Reservation)>,
}

/// A batch being filled. It has at least one request whenever its lock is free.
struct OpenBatch {
    encoder: Box<dyn Encoder>,
    /// Covers the encoder's memory, the bodies to come and the stored requests.
    reservation: Reservation,
    requests: Vec<BatchRequest>,
    bytes: Vec<u8>,
    opened: Instant,
}

impl Lane {
    pub(super) fn new(signal: Signal, shards: usize) -> Self {
        Self { signal, shards: (0..shards).map(|_| Mutex::default()).collect() }
    }

    /// Adds a request to an open batch, or refuses it for lack of memory.
    pub(super) fn add_request(
        &self,
        request: PublishRequest<'_>,
        shared: &Arc<DirectInner>,
    ) -> Result<PendingDelivery, PublishError> {
        let PublishRequest { bytes, checked, mut reservation, cancellation, .. } = request;
        let RequestOutline { records, written_bytes, .. } = checked;
        let needed = growth_bytes(bytes.len() as u64, written_bytes);
        let Some(growth) = shared.budget.try_reserve(needed) else {
            shared.free_memory();
            return Err(PublishError::of_full_budget(&reservation, reservation.bytes() + needed));
        };
        if !cancellation.begin_send() {
            // Rows that share a batch with others can't be withdrawn.
            return Err(PublishError::Unavailable("its client was answered before".to_owned()));
        }
        reservation.absorb(growth);
        let mut shard = self.lock_shard();
        let first = shard.open.is_none();
        let open = shard.open_batch(self.signal, shared, reservation);
        if let Err(rejection) = open.encoder.append(bytes) {
            // The request is well-formed but can't be stored: only its records are excluded.
            tracing::warn!(
                signal = %self.signal, records, reason = rejection.reason,
                detail = rejection.detail, "a request can't be stored"
            );
            shared.telemetry.record_refused(self.signal, RefusalReason::Malformed, records);
            open.resize_reservation();
            if open.requests.is_empty() {
                // An open batch has a request, and its opener wakes the timer thread.
                shard.cut_batch(self.signal, shared);
            }
            return Ok(PendingDelivery::delivered(DeliveryReceipt::with_rejected(records)));
        }
        shared.telemetry.add_buffered(self.signal, records as i64);
        let (sender, delivery) = match shared.acknowledge {
            AcknowledgeInsert::AfterInsert => {
                let (sender, delivery) = PendingDelivery::new_pair();
                (Some(sender), delivery)
            }
            AcknowledgeInsert::AfterBuffering => {
                (None, PendingDelivery::delivered(DeliveryReceipt::default()))
            }
        };
        open.bytes.extend_from_slice(bytes);
        open.requests.push(BatchRequest { end: open.bytes.len(), records, sender });
        open.resize_reservation();
        if open.cut_reason(shared).is_some() {
            shard.cut_batch(self.signal, shared);
        } else if first {
            drop(shard);
            shared.outbox.wake();
        }
        Ok(delivery)
    }

    /// Cuts batches at least as old as `max_age`. Returns when the next one will be.
    pub(super) fn cut_aged(
        &self,
        now: Instant,
        max_age: Duration,
        shared: &Arc<DirectInner>,
    ) -> Option<Instant> {
        let due = self.shards.iter().filter_map(|shard| {
            let mut shard = lock(shard);
            let due = shard.open.as_ref()?.opened + max_age;
            if due > now {
                return Some(due);
            }
            shard.cut_batch(self.signal, shared);
            None
        });
        due.min()
    }

    /// Cuts all open batches.
    pub(super) fn cut_all(&self, shared: &Arc<DirectInner>) {
        for shard in &self.shards {
            lock(shard).cut_batch(self.signal, shared);
        }
    }

    /// Frees the memory cached for later batches, and sends batches that are worth an insert.
    pub(super) fn free_memory(&self, shared: &Arc<DirectInner>) {
        for shard in &self.shards {
            // Its own thread is about to cut or refuse a batch in use.
            let Ok(mut shard) = shard.try_lock() else { continue };
            shard.spare = None;
            let open = shard.open.as_ref();
            if open.is_some_and(|open| open.encoder.plain_bytes() >= MIN_CUT_FOR_ROOM_BYTES) {
                shard.cut_batch(self.signal, shared);
            }
        }
    }

    /// Returns the first batch that no other thread is filling.
    fn lock_shard(&self) -> MutexGuard<'_, Shard> {
        let free = self.shards.iter().find_map(|shard| match shard.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        });
        free.unwrap_or_else(|| lock(&self.shards[0]))
    }
}

/// Returns the bytes that a request may add to an encoder and its bodies.
fn growth_bytes(bytes: u64, written_bytes: u64) -> u64 {
    (bytes * GROWTH).max(bytes.saturating_add(written_bytes))
}

impl Shard {
    /// Returns the open batch, created if needed, with another request's reservation added.
    fn open_batch(
        &mut self,
        signal: Signal,
        shared: &DirectInner,
        more: Reservation,
    ) -> &mut OpenBatch {
        let spare = &mut self.spare;
        let open = self.open.get_or_insert_with(|| {
            let (encoder, reservation) = match spare.take() {
                Some((encoder, reservation)) => (encoder, Some(reservation)),
                None => (shared.sink.new_encoder(signal), None),
            };
            OpenBatch {
                encoder,
                reservation: reservation.unwrap_or_else(|| shared.budget.empty_reservation()),
                requests: Vec::new(),
                bytes: Vec::new(),
                opened: Instant::now(),
            }
        });
        open.reservation.absorb(more);
        open
    }

    /// Ends the open batch, if any: its blocks go to the sink.
    fn cut_batch(&mut self, signal: Signal, shared: &Arc<DirectInner>) {
        let Some(open) = self.open.take() else { return };
        let OpenBatch { mut encoder, mut reservation, requests, bytes, opened: _ } = open;
        let blocks = encoder.take_blocks();
        let retained = reservation.split_off(bytes.capacity() as u64);
        let origin = shared.series.next_origin(signal, requests.len());
        let insert = |block: Block| {
            let reservation = reservation.split_off(block.body.len() as u64);
            Some(Insert { block, origin: origin.clone()?, reservation })
        };
        let inserts: Vec<Insert> = blocks.into_iter().filter_map(insert).collect();
        if !requests.is_empty() {
            let batch = CutBatch::new(signal, bytes, requests, inserts.len(), retained);
            shared.send_batch(Arc::new(batch), inserts);
        }
        // The encoder is reused if the budget still covers it.
        if reservation.try_resize(encoder.memory_bytes() as u64) {
            self.spare = Some((encoder, reservation));
        }
    }
}

impl OpenBatch {
    /// Adjusts the reservation to the memory in use, as far as the budget allows. It was made
    /// larger by [`GROWTH`] times the last request.
    fn resize_reservation(&mut self) {
        let memory = self.encoder.memory_bytes() as u64;
        let needed = memory + (self.encoder.body_bytes() + self.bytes.capacity()) as u64;
        // Fails only if the request grew by more than expected; then the reservation stays
        // unchanged.
        let _ = self.reservation.try_resize(needed.next_multiple_of(RESERVATION_STEP_BYTES));
    }

    fn cut_reason(&self, shared: &DirectInner) -> Option<CutReason> {
        if self.requests.len() >= MAX_REQUESTS {
            return Some(CutReason::Rows);
        }
        shared.limits.cut_reason(BatchSize {
            rows: self.encoder.row_count(),
            bytes: self.encoder.plain_bytes(),
            age: self.opened.elapsed(),
        })
    }
}
