//! One signal's open batches: requests encoded as they come, cut by rows, bytes and age.
//!
//! There are as many open batches as threads publish, so that no thread waits for another's
//! encoding; under light load only the first is used, which keeps inserts few and big.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use millrace_config::AcknowledgeInsert;
use millrace_pipeline::batch::{BatchSize, CutReason};
use millrace_pipeline::budget::Reservation;
use millrace_pipeline::publish::{Delivered, Delivery, Refused, Request};
use millrace_pipeline::sink::{Block, Encoder, Insert};
use millrace_pipeline::telemetry::Refusal;
use millrace_wire::Signal;
use millrace_wire::otlp::Checked;

use super::Shared;
use super::batch::{Batch, Held};

/// What a request may add to an encoder and to the bodies made of it, as a multiple of its bytes:
/// columns with their identifiers in text are under three times, half of that again for LZ4.
const GROWTH: u64 = 5;
/// Reservations change in steps of this.
const RESERVATION_STEP_BYTES: u64 = 1 << 20;
/// A batch smaller than this isn't cut to make room: many small inserts would cost more than they
/// free.
const MIN_CUT_FOR_ROOM_BYTES: usize = 1 << 20;
/// Requests in one batch. Each waits with its own answer, of about 100 bytes.
const MAX_REQUESTS: usize = 16 * 1024;

/// A signal's open batches.
pub(super) struct Lane {
    signal: Signal,
    shards: Vec<Mutex<Shard>>,
}

#[derive(Default)]
struct Shard {
    open: Option<Open>,
    /// The encoder of the batch before, with its memory and what covers it.
    spare: Option<(Box<dyn Encoder>, Reservation)>,
}

/// A batch being filled. It has a request at least whenever nobody holds its lock.
struct Open {
    encoder: Box<dyn Encoder>,
    /// Covers the encoder's memory, the bodies to come and the requests kept.
    reservation: Reservation,
    requests: Vec<Held>,
    bytes: Vec<u8>,
    opened: Instant,
}

impl Lane {
    pub(super) fn new(signal: Signal, shards: usize) -> Self {
        Self { signal, shards: (0..shards).map(|_| Mutex::default()).collect() }
    }

    /// Takes a request into an open batch, or refuses it for want of memory.
    pub(super) fn add(
        &self,
        request: Request<'_>,
        shared: &Arc<Shared>,
    ) -> Result<Delivery, Refused> {
        let Request { signal: _, bytes, checked, mut reservation } = request;
        let Checked { records, written_bytes, .. } = checked;
        let needed = growth_bytes(bytes.len() as u64, written_bytes);
        let Some(growth) = shared.budget.try_reserve(needed) else {
            shared.make_room();
            return Err(Refused::Full);
        };
        reservation.absorb(growth);
        let (sender, delivery) = Delivery::pair();
        let mut shard = self.shard();
        let first = shard.open.is_none();
        let open = shard.open(self.signal, shared, reservation);
        if let Err(rejection) = open.encoder.append(bytes) {
            // Well-formed, and yet not storable: only this request's records are left out.
            tracing::warn!(
                signal = %self.signal, records, reason = rejection.reason,
                detail = rejection.detail, "a request can't be stored"
            );
            shared.telemetry.refused(self.signal, Refusal::Malformed, records);
            open.cover();
            if open.requests.is_empty() {
                // An open batch has a request: its opener wakes the clock.
                shard.cut(self.signal, shared);
            }
            drop(shard);
            sender.finish(Ok(Delivered { rejected_records: records }));
            return Ok(delivery);
        }
        shared.telemetry.buffered(self.signal, records as i64);
        let sender = match shared.acknowledge {
            AcknowledgeInsert::AfterInsert => Some(sender),
            AcknowledgeInsert::AfterBuffering => {
                sender.finish(Ok(Delivered::default()));
                None
            }
        };
        open.bytes.extend_from_slice(bytes);
        open.requests.push(Held { end: open.bytes.len(), records, sender });
        open.cover();
        if open.due(shared).is_some() {
            shard.cut(self.signal, shared);
        } else if first {
            drop(shard);
            shared.outbox.wake();
        }
        Ok(delivery)
    }

    /// Cuts batches at least as old as `max_age`; when the next one will be.
    pub(super) fn cut_aged(
        &self,
        now: Instant,
        max_age: Duration,
        shared: &Arc<Shared>,
    ) -> Option<Instant> {
        let due = self.shards.iter().filter_map(|shard| {
            let mut shard = lock(shard);
            let due = shard.open.as_ref()?.opened + max_age;
            if due > now {
                return Some(due);
            }
            shard.cut(self.signal, shared);
            None
        });
        due.min()
    }

    /// Cuts everything open.
    pub(super) fn cut_all(&self, shared: &Arc<Shared>) {
        for shard in &self.shards {
            lock(shard).cut(self.signal, shared);
        }
    }

    /// Frees the memory kept for later batches and sends batches that are worth an insert.
    pub(super) fn make_room(&self, shared: &Arc<Shared>) {
        for shard in &self.shards {
            // One in use is about to be cut or refused by its own thread.
            let Ok(mut shard) = shard.try_lock() else { continue };
            shard.spare = None;
            let open = shard.open.as_ref();
            if open.is_some_and(|open| open.encoder.plain_bytes() >= MIN_CUT_FOR_ROOM_BYTES) {
                shard.cut(self.signal, shared);
            }
        }
    }

    /// The first batch that no other thread fills at the moment.
    fn shard(&self) -> MutexGuard<'_, Shard> {
        let free = self.shards.iter().find_map(|shard| match shard.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        });
        free.unwrap_or_else(|| lock(&self.shards[0]))
    }
}

/// What a request may add to an encoder and to the bodies made of it.
fn growth_bytes(bytes: u64, written_bytes: u64) -> u64 {
    (bytes * GROWTH).max(bytes.saturating_add(written_bytes))
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    // A panic ends the process, so a poisoned lock is not seen outside tests.
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shard {
    /// The open batch, made if there is none, with another request's reservation.
    fn open(&mut self, signal: Signal, shared: &Shared, more: Reservation) -> &mut Open {
        let spare = &mut self.spare;
        let open = self.open.get_or_insert_with(|| {
            let (encoder, reservation) = match spare.take() {
                Some((encoder, reservation)) => (encoder, Some(reservation)),
                None => (shared.sink.encoder(signal), None),
            };
            Open {
                encoder,
                reservation: reservation.unwrap_or_else(|| shared.budget.nothing()),
                requests: Vec::new(),
                bytes: Vec::new(),
                opened: Instant::now(),
            }
        });
        open.reservation.absorb(more);
        open
    }

    /// Ends the open batch, if there is one: its blocks go to the sink.
    fn cut(&mut self, signal: Signal, shared: &Arc<Shared>) {
        let Some(open) = self.open.take() else { return };
        let Open { mut encoder, mut reservation, requests, bytes, opened: _ } = open;
        let blocks = encoder.take();
        let kept = reservation.split(bytes.capacity() as u64);
        let origin = shared.series.origin(signal, requests.len());
        let insert = |block: Block| {
            let reservation = reservation.split(block.body.len() as u64);
            Some(Insert { block, origin: origin.clone()?, reservation })
        };
        let inserts: Vec<Insert> = blocks.into_iter().filter_map(insert).collect();
        if !requests.is_empty() {
            let batch = Batch::new(signal, bytes, requests, inserts.len(), kept);
            shared.send(Arc::new(batch), inserts);
        }
        // Kept if the budget still covers it.
        if reservation.try_resize(encoder.memory_bytes() as u64) {
            self.spare = Some((encoder, reservation));
        }
    }
}

impl Open {
    /// Keeps the reservation over what is held, as far as the budget allows: it was made larger by
    /// [`GROWTH`] times the request before.
    fn cover(&mut self) {
        let memory = self.encoder.memory_bytes() as u64;
        let needed = memory + (self.encoder.body_bytes() + self.bytes.capacity()) as u64;
        // Refused only if the request grew by more than allowed for; then it stays as it is.
        let _ = self.reservation.try_resize(needed.next_multiple_of(RESERVATION_STEP_BYTES));
    }

    fn due(&self, shared: &Shared) -> Option<CutReason> {
        if self.requests.len() >= MAX_REQUESTS {
            return Some(CutReason::Rows);
        }
        shared.limits.due(BatchSize {
            rows: self.encoder.rows(),
            bytes: self.encoder.plain_bytes(),
            age: self.opened.elapsed(),
        })
    }
}
