//! A job for the disk, and who is answered when it is done.

use crate::destination::TopicKey;
use crate::message::Message;
use crate::request_part::RequestPart;
use millrace_pipeline::budget::Reservation;
use millrace_pipeline::cancellation::Cancellation;
use millrace_pipeline::publish::{DeliveryReceipt, DeliverySender, PublishError};

/// Requests to be written to the disk.
pub(super) struct WriteJob {
    pub(super) topic: TopicKey,
    /// Requests of at most a message's length, with their record counts.
    pub(super) pieces: Vec<(Vec<u8>, u64)>,
    pub(super) client: WriteCaller,
}

/// The caller that gets an answer once the bytes are on disk.
pub(super) enum WriteCaller {
    /// The client of a request that arrived while its topic stored nothing.
    Request {
        result: DeliveryReceipt,
        answer: DeliverySender,
        cancellation: Cancellation,
        /// Reserved until the bytes are on disk.
        reservation: Reservation,
    },
    /// The clients of a message that waited for Kafka.
    Message(Vec<RequestPart>),
}

impl WriteJob {
    /// Creates the job of a message that waited for Kafka.
    pub(super) fn of_message(topic: TopicKey, message: Message) -> Self {
        let Message { payload, envelope, .. } = message;
        let pieces = vec![(payload, envelope.records)];
        Self { topic, pieces, client: WriteCaller::Message(envelope.parts) }
    }

    pub(super) fn record_count(&self) -> u64 {
        self.pieces.iter().map(|(_, records)| records).sum()
    }

    /// Records that the bytes are written. Returns false when no client waits for them any more.
    pub(super) fn begin_write(&self) -> bool {
        match &self.client {
            WriteCaller::Request { cancellation, .. } => cancellation.begin_send(),
            WriteCaller::Message(_) => true,
        }
    }

    /// Frees the budget before it answers: an answered client may send again at once.
    pub(super) fn finish_with(self, result: Result<(), PublishError>) {
        match self.client {
            WriteCaller::Request { result: delivered, answer, reservation, .. } => {
                drop(reservation);
                answer.finish_with(result.map(|()| delivered));
            }
            WriteCaller::Message(parts) => parts.into_iter().for_each(|part| match &result {
                Ok(()) => part.mark_delivered(),
                Err(refused) => part.mark_failed(refused.clone()),
            }),
        }
    }
}
