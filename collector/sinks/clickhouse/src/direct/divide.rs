//! Finds the bad requests when ClickHouse refuses an insert for its content, and splits inserts
//! that need too much of its memory.
//!
//! The refused block's requests are halved and stored part by part down to single requests; the
//! good ones are stored, and the clients of the others learn how many of their records were not.
//! One thread handles one batch at a time, while other batches continue. The Kafka source reads
//! pieces of a range of offsets again and names them in commits: the two share no rule.

use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use millrace_pipeline::sink::{Completion, DeliveryOutcome, Insert, PartId};

use super::DirectInner;
use super::batch::{CutBatch, RefusedPart};

/// The maximum number of waiting refused batches. Clients of further ones get a retryable answer.
pub(super) const MAX_JOBS: usize = 16;
/// The duration of one poll for a job, an answer or capacity.
const WAIT: Duration = Duration::from_millis(50);

/// A batch of which all blocks are answered and some were refused.
pub(super) struct RefusedBatch {
    pub(super) batch: Arc<CutBatch>,
    pub(super) refused: Vec<RefusedPart>,
}

/// A part was abandoned, or the process ends: the outcome of the others is unknown.
struct AbandonedPart;

/// Processes jobs until the publisher stops.
pub(super) fn run_jobs(shared: &Arc<DirectInner>, jobs: &Receiver<RefusedBatch>) {
    loop {
        let job = match jobs.recv_timeout(WAIT) {
            Ok(job) => job,
            Err(RecvTimeoutError::Timeout) if !shared.outbox.is_stopped() => continue,
            Err(_) => return,
        };
        match bad_requests(shared, &job) {
            Ok(bad) => shared.complete_requests(&job.batch, &bad),
            Err(AbandonedPart) => shared.abandon_batch(&job.batch),
        }
    }
}

/// Returns the requests with rows that can't be stored, after storing all other rows.
fn bad_requests(shared: &DirectInner, job: &RefusedBatch) -> Result<Vec<usize>, AbandonedPart> {
    let mut bad = Vec::new();
    for refused in &job.refused {
        let RefusedPart { table: _, day, rejection } = refused;
        tracing::warn!(
            signal = %job.batch.signal, day, reason = rejection.reason, detail = rejection.detail,
            requests = job.batch.len(), "ClickHouse rejects rows; searching for the invalid \
                                         requests"
        );
        // All of them together are known to be refused.
        let mut spans = vec![(0..job.batch.len(), true)];
        while let Some((span, known)) = spans.pop() {
            if !known && is_stored(shared, &job.batch, refused, span.clone())? {
                continue;
            }
            if span.len() <= 1 {
                bad.extend(span);
                continue;
            }
            let middle = span.start + span.len() / 2;
            spans.push((middle..span.end, false));
            spans.push((span.start..middle, false));
        }
    }
    bad.sort_unstable();
    bad.dedup();
    Ok(bad)
}

/// Stores the rows of these requests in the refused block's table and day. Returns false when they
/// are refused.
fn is_stored(
    shared: &DirectInner,
    batch: &CutBatch,
    refused: &RefusedPart,
    span: Range<usize>,
) -> Result<bool, AbandonedPart> {
    let mut encoder = shared.sink.new_encoder(batch.signal);
    let origin = shared.series.next_origin(batch.signal, span.len()).ok_or(AbandonedPart)?;
    for request in batch.request_bytes(span) {
        // It was appended before without a failure, and has not changed since.
        let _ = encoder.append(request);
    }
    let blocks = encoder.take_blocks().into_iter();
    let blocks = blocks.filter(|b| b.table == refused.table && b.slice.day == refused.day);
    for block in blocks {
        // This module's own bound covers it, one batch at a time, not the budget.
        let reservation = shared.budget.empty_reservation();
        match store_insert(shared, Insert { block, origin: origin.clone(), reservation })? {
            DeliveryOutcome::Stored => {}
            DeliveryOutcome::Rejected(_) => return Ok(false),
            DeliveryOutcome::Abandoned | DeliveryOutcome::Deferred => return Err(AbandonedPart),
        }
    }
    Ok(true)
}

fn store_insert(
    shared: &DirectInner,
    mut insert: Insert,
) -> Result<DeliveryOutcome, AbandonedPart> {
    let (sender, answer) = sync_channel(1);
    let mut completion =
        Completion::new(PartId(0), move |answer| drop(sender.try_send(answer.outcome)));
    while let Err(back) = shared.sink.submit(insert, completion) {
        if shared.outbox.is_stopped() || shared.drain.remaining().is_zero() {
            return Err(AbandonedPart);
        }
        (insert, completion) = (back.work, back.completion);
        std::thread::sleep(WAIT);
    }
    // Every completion is answered, at the drain's deadline at the latest.
    answer.recv().map_err(|_| AbandonedPart)
}
