//! Refused rows: divides the batch, down to single messages, of which the bad ones become dead
//! letters.
//!
//! Messages aren't retained while their rows are in flight: every batch would need the memory that
//! only a bad one uses. Instead the ledger divides a batch of which parts were refused, and its
//! partition is read again from there: through the ordinary path, in pieces that follow from the
//! batch's offsets alone, of which only the refused parts are sent. A batch is never divided when a
//! view refused it, nor for lack of memory if it may be stored: the sink decides that.

use std::time::Duration;

use millrace_ledger::{AckOutcome, MAX_REFUSED_PARTS, RefusedParts, Ticket};
use millrace_pipeline::sink::{Block, DeadLetter, Rejection};

use crate::batches::dead_letter_queues::PendingDeadLetter;
use crate::batches::outcomes::{DeadLetterId, Outcomes, PartStatus};
use crate::batches::parts::{BlockName, LastMessage, name_of};
use crate::group::member::Member;
use crate::group::partition_key::PartitionKey;
use crate::group::session::GroupSession;

/// How long a partition with a divided batch waits for the answers to its other batches, before it
/// is read again: a batch whose result is unknown then is sent again under its token. An insert
/// usually takes under one second.
const QUIET_WAIT: Duration = Duration::from_secs(5);

/// The reason for messages of parts that no commit can name.
const TOO_MANY_PARTS: &str = "too_many_refused_parts";

/// The parts of a batch, by what is to be done with them.
#[derive(Default)]
pub(crate) struct BatchParts {
    /// To be sent, and whether an earlier attempt may have stored them.
    pub(crate) unsent: Vec<(Block, bool)>,
    /// Refused before.
    pub(crate) refused: Vec<(Block, Rejection)>,
    /// The records of those that are stored.
    pub(crate) stored_records: u64,
    /// Parts were refused that no commit names: they are unknown, and so is which others are
    /// stored.
    pub(crate) has_unnamed: bool,
}

impl BatchParts {
    /// Sorts the blocks of a batch of `range`. `parts` are those to send if it is a piece of a
    /// divided range. `is_repeat`: the batch was announced before.
    pub(crate) fn new(
        blocks: Vec<Block>,
        range: millrace_ledger::OffsetRange,
        outcomes: &Outcomes,
        parts: Option<&RefusedParts>,
        is_repeat: bool,
    ) -> Self {
        let mut sorted = Self::default();
        for block in blocks {
            if parts.is_some_and(|parts| !parts.contains(name_of(&block))) {
                sorted.has_unnamed |= parts.is_some_and(RefusedParts::has_more);
                sorted.stored_records += block.records;
                continue;
            }
            match outcomes.of_part(range, block.table, block.slice) {
                Some(PartStatus::Stored) => sorted.stored_records += block.records,
                Some(PartStatus::Refused(rejection)) => {
                    sorted.refused.push((block, rejection.clone()));
                }
                Some(PartStatus::Unstored) => sorted.unsent.push((block, false)),
                None => sorted.unsent.push((block, is_repeat)),
            }
        }
        sorted
    }
}

/// Returns the reason for a message with rows of unnamed parts.
pub(crate) fn too_many_parts() -> Rejection {
    let detail = format!(
        "more than {MAX_REFUSED_PARTS} parts of its batch were refused; rows of it may be stored"
    );
    Rejection { reason: TOO_MANY_PARTS, detail }
}

impl<M: Member> GroupSession<M> {
    /// Reads partitions again that have a divided batch, once nothing of them is in flight.
    pub(crate) fn reread_divided(&mut self) {
        let divided = self.partitions.keys().filter(|key| self.ledger.has_divided(**key));
        for key in divided.copied().collect::<Vec<PartitionKey>>() {
            // What is in flight of the open batch's partition comes first; it is read again then.
            self.reread_open(key);
            let Some(partition) = self.partitions.get_mut(&key) else { continue };
            let since = *partition.divided_since.get_or_insert(self.now);
            if !self.ledger.has_unanswered(key) || self.now - since >= QUIET_WAIT {
                self.rewind_partition(key);
            }
        }
    }

    /// Handles a part that was refused for its rows: its batch is divided once all its parts are
    /// answered, or its only message becomes a dead letter.
    pub(crate) fn record_refusal(
        &mut self,
        ticket: &Ticket<PartitionKey>,
        part: BlockName,
        message: Option<&LastMessage>,
        rejection: Rejection,
    ) {
        if let Some(message) = message {
            return self.send_to_dead_letters(ticket, message, rejection);
        }
        if self.ledger.refuse_part(ticket, part.name) != AckOutcome::Stale {
            tracing::warn!(
                topic = %self.topic_of(ticket.key).name, partition = ticket.key.partition,
                range = %ticket.range, day = part.slice.day, reason = rejection.reason,
                detail = rejection.detail, "an insert was refused for its rows; dividing its batch"
            );
        }
    }

    /// Sends a message to the dead letters, unless another part of it was refused before.
    pub(crate) fn send_to_dead_letters(
        &mut self,
        ticket: &Ticket<PartitionKey>,
        message: &LastMessage,
        rejection: Rejection,
    ) {
        if self.ledger.open_parts(ticket).is_none() {
            return;
        }
        let id = DeadLetterId { offset: ticket.range.first(), is_refused: true };
        let is_known =
            self.partitions.get(&ticket.key).is_some_and(|it| it.outcomes.has_dead_letter(id));
        match message.take().filter(|_| !is_known) {
            None => {
                self.ledger.ack_part(ticket);
            }
            Some((dead_letter, cover)) => {
                self.shared.telemetry.add_buffered(dead_letter.signal, 1);
                let dead_letter = Box::new(DeadLetter { rejection, ..*dead_letter });
                self.dead_letters.push(PendingDeadLetter {
                    ticket: *ticket,
                    id,
                    dead_letter,
                    cover,
                });
            }
        }
    }
}
