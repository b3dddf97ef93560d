//! Finds the bad requests when ClickHouse refuses an insert for its content, and splits inserts
//! that need too much of its memory.
//!
//! The refused block's requests are halved and stored part by part down to single requests; the
//! good ones are stored, the clients of the others learn how many of their records were not. One
//! thread does it, for one batch after the other; other batches continue meanwhile. The Kafka
//! receiver halves ranges of offsets and records its place in commits: the two share no rule.

use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use millrace_pipeline::sink::{Completion, Insert, Outcome, PartId};

use super::Shared;
use super::batch::{Batch, RefusedPart};

/// Refused batches that may wait. More of them are answered with a request to send again.
pub(super) const MAX_JOBS: usize = 16;
/// How long one poll for a job, an answer or room takes.
const WAIT: Duration = Duration::from_millis(50);

/// A batch of which all blocks are answered and some were refused.
pub(super) struct Job {
    pub(super) batch: Arc<Batch>,
    pub(super) refused: Vec<RefusedPart>,
}

/// A part was given up, or the process ends: nothing is known of the rest.
struct GivenUp;

/// Does jobs until the publisher stops.
pub(super) fn work(shared: &Arc<Shared>, jobs: &Receiver<Job>) {
    loop {
        let job = match jobs.recv_timeout(WAIT) {
            Ok(job) => job,
            Err(RecvTimeoutError::Timeout) if !shared.outbox.is_stopped() => continue,
            Err(_) => return,
        };
        match bad_requests(shared, &job) {
            Ok(bad) => shared.answer(&job.batch, &bad),
            Err(GivenUp) => shared.give_up(&job.batch),
        }
    }
}

/// The requests with rows that can't be stored; all other rows are stored.
fn bad_requests(shared: &Shared, job: &Job) -> Result<Vec<usize>, GivenUp> {
    let mut bad = Vec::new();
    for refused in &job.refused {
        let RefusedPart { table: _, day, rejection } = refused;
        tracing::warn!(
            signal = %job.batch.signal, day, reason = rejection.reason, detail = rejection.detail,
            requests = job.batch.len(), "clickhouse refuses rows; looking for the bad requests"
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

/// Stores the rows that these requests have in the refused block's table and day. False when
/// they are refused.
fn is_stored(
    shared: &Shared,
    batch: &Batch,
    refused: &RefusedPart,
    span: Range<usize>,
) -> Result<bool, GivenUp> {
    let mut encoder = shared.sink.encoder(batch.signal);
    let origin = shared.series.origin(batch.signal, span.len()).ok_or(GivenUp)?;
    for request in batch.requests(span) {
        // It was appended once already, and nothing about it has changed.
        let _ = encoder.append(request);
    }
    let blocks = encoder.take().into_iter();
    let blocks = blocks.filter(|b| b.table == refused.table && b.slice.day == refused.day);
    for block in blocks {
        // Covered by this module's own bound, one batch at a time, not by the budget.
        let reservation = shared.budget.nothing();
        match store(shared, Insert { block, origin: origin.clone(), reservation })? {
            Outcome::Stored => {}
            Outcome::Rejected(_) => return Ok(false),
            Outcome::Abandoned => return Err(GivenUp),
        }
    }
    Ok(true)
}

fn store(shared: &Shared, mut insert: Insert) -> Result<Outcome, GivenUp> {
    let (sender, answer) = sync_channel(1);
    let mut completion =
        Completion::new(PartId(0), move |answer| drop(sender.try_send(answer.outcome)));
    while let Err(back) = shared.sink.submit(insert, completion) {
        if shared.outbox.is_stopped() || shared.drain.remaining().is_zero() {
            return Err(GivenUp);
        }
        (insert, completion) = (back.work, back.completion);
        std::thread::sleep(WAIT);
    }
    // Every completion is answered, at the drain's deadline at the latest.
    answer.recv().map_err(|_| GivenUp)
}
