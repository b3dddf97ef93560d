//! A job for the disk, and who is answered when it is done.

use crate::produce::message::Message;
use crate::request::request_part::RequestPart;
use crate::topics::destination::TopicKey;
use millrace_pipeline::publish::PublishError;

/// Requests to be written to the disk.
pub(super) struct WriteJob {
    pub(super) topic: TopicKey,
    /// Requests of at most a message's length, with their record counts.
    pub(super) pieces: Vec<(Vec<u8>, u64)>,
    /// The requests whose clients are answered once the bytes are on disk: one that arrived while
    /// its topic stored nothing, or those of a message that waited for Kafka.
    pub(super) parts: Vec<RequestPart>,
}

impl WriteJob {
    /// Creates the job of a message that waited for Kafka.
    pub(super) fn of_message(topic: TopicKey, message: Message) -> Self {
        let Message { payload, envelope, .. } = message;
        Self { topic, pieces: vec![(payload, envelope.records)], parts: envelope.parts }
    }

    pub(super) fn record_count(&self) -> u64 {
        self.pieces.iter().map(|(_, records)| records).sum()
    }

    /// Records that the bytes are written. Returns false when no client waits for them any more.
    pub(super) fn begin_write(&self) -> bool {
        self.parts.iter().any(RequestPart::begin_send)
    }

    /// Answers the clients.
    pub(super) fn finish_with(self, result: Result<(), PublishError>) {
        self.parts.into_iter().for_each(|part| match &result {
            Ok(()) => part.mark_delivered(),
            Err(refused) => part.mark_failed(refused.clone()),
        });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use millrace_pipeline::budget::Budget;
    use millrace_pipeline::cancellation::Canceller;
    use millrace_pipeline::publish::{DeliveryReceipt, PendingDelivery};
    use millrace_wire::Signal;

    use super::WriteJob;
    use crate::request::request_part::{RequestPart, Waiter};
    use crate::topics::destination::TopicKey;

    /// Scenario: of two requests in a job, the clients go or are answered one after the other.
    /// Guarantee: it is written while one of them waits, and not afterwards: both send again.
    #[test]
    fn what_no_client_waits_for_is_not_written() {
        let budget = Budget::new(100);
        let clients =
            [(); 2].map(|()| (PendingDelivery::new_pair(), Canceller::new(Instant::now())));
        let [((first, gone), one), ((second, _waiting), other)] = clients;
        let part = |sender, canceller: &Canceller| {
            let waiter = Waiter::Client(sender, canceller.cancellation());
            let result = DeliveryReceipt::default();
            RequestPart::new_parts(1, result, waiter, budget.empty_reservation())
        };
        let parts = part(first, &one).chain(part(second, &other)).collect();
        let job = WriteJob { topic: TopicKey::own(Signal::Logs), pieces: Vec::new(), parts };
        assert!(job.begin_write());
        drop(gone);
        assert!(job.begin_write());
        other.cancel();
        assert!(!job.begin_write());
    }
}
