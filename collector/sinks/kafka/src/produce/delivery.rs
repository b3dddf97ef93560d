//! Handles a message from the client library's acceptance until Kafka's answer.
//!
//! A message that its topic refuses as too long is divided in two and sent again: a joined message
//! between its requests, a single request between its records. Only a record that is too long
//! alone, or a group that can't be divided, is returned.

use std::borrow::Cow;
use std::sync::{Arc, MutexGuard};
use std::time::Instant;

use millrace_observe::otlp::{SPANS, Trace, is_own_telemetry};
use millrace_pipeline::failpoint;
use millrace_pipeline::publish::PublishError;
use millrace_pipeline::telemetry::RefusalReason;
use rdkafka::error::RDKafkaErrorCode as Code;
use rdkafka::producer::BaseRecord;
use tracing::field::Empty;

use crate::produce::failure::Class;
use crate::produce::message::{Envelope, Message, split_message};
use crate::produce::partition_queue::InFlight;
use crate::produce::producer::{Shipment, StoredPosition, code_of};
use crate::request::request_part::RequestPart;
use crate::topics::topic::{DeliveryContext, TopicOptions, TopicPublisher, TopicState};

impl TopicPublisher {
    /// Passes a message to the library, which copies it.
    pub(crate) fn hand_over(
        self: &Arc<Self>,
        mut state: MutexGuard<'_, TopicState>,
        partition: usize,
        payload: &[u8],
        mut envelope: Envelope,
    ) {
        let mut payload = Cow::Borrowed(payload);
        let abandoned = envelope.remove(&mut payload, |part| !part.begin_send());
        if envelope.parts.is_empty() {
            drop(state);
            return self.withdraw_parts(abandoned);
        }
        let (records, requests) = (envelope.records, envelope.parts.len());
        let number = state.partitions.begin_send(partition, envelope, Instant::now());
        if !self.is_healthy() {
            // It may be the probe of its partition.
            self.publish_state(&state);
        }
        drop(state);
        self.withdraw_parts(abandoned);
        let trace = self.begin_trace(partition, &payload, records, requests);
        let (topic, bytes) = (Arc::downgrade(self), payload.len());
        let batch = Box::new(DeliveryContext { number, partition, bytes, trace, topic });
        let name = self.settings.name.as_str();
        let record = BaseRecord::<[u8], [u8], _>::with_opaque_to(name, batch);
        let record = record.partition(i32::try_from(partition).unwrap_or(i32::MAX));
        failpoint::hit("before-produce");
        if let Err((error, record)) = self.settings.producer.send(record.payload(&payload[..])) {
            // The next answer or `tend` sends waiting messages; sending them here would loop.
            self.record_failed(*record.delivery_opaque, code_of(&error), &payload);
        }
    }

    /// Begins the trace of a message in flight, if it is sampled.
    fn begin_trace(
        &self,
        partition: usize,
        payload: &[u8],
        records: u64,
        requests: usize,
    ) -> Trace {
        if is_own_telemetry(payload) {
            return Trace::default();
        }
        let TopicOptions { signal, name, telemetry, .. } = &self.settings;
        telemetry.tracer().begin_trace(|trace_id| {
            tracing::debug_span!(
                target: SPANS,
                parent: None,
                "publish",
                trace_id,
                otel.name = format!("publish {name}"),
                otel.kind = "producer",
                otel.status_code = Empty,
                signal = signal.as_str(),
                topic = name.as_str(),
                partition,
                bytes = payload.len(),
                records,
                requests,
                error = Empty,
            )
        })
    }

    /// Records that Kafka has stored a message.
    fn record_stored(&self, batch: DeliveryContext) {
        let TopicOptions { signal, telemetry, .. } = &self.settings;
        let mut state = self.lock();
        // A stored message is stronger evidence than an unanswered query.
        (state.metadata_error, state.last_failure) = (None, None);
        let stored_at = Some(Instant::now());
        let Some(message) = state.partitions.end_send(batch.partition, batch.number, stored_at)
        else {
            return;
        };
        self.publish_state(&state);
        drop(state);
        failpoint::hit("after-produce");
        self.join_limit.record_fitted(batch.bytes);
        let InFlight { envelope: Envelope { records, parts, .. }, sent_at, .. } = message;
        telemetry.add_buffered(*signal, -(records as i64));
        telemetry.record_produce_time(sent_at.elapsed(), batch.trace.id);
        telemetry.records_out(*signal, records);
        parts.into_iter().for_each(RequestPart::mark_delivered);
    }

    /// Records that Kafka has not confirmed a message, or that the library did not accept it.
    fn record_failed(&self, batch: DeliveryContext, code: Code, payload: &[u8]) {
        let class = Class::from_code(code);
        let DeliveryContext { number, partition, trace, .. } = batch;
        let now = Instant::now();
        let mut state = self.lock();
        let is_withdrawn = matches!(code, Code::PurgeQueue | Code::PurgeInflight);
        if is_withdrawn || code == Code::UnknownPartition {
            state.partitions.suspend_partitions(Some(partition), now);
        } else if matches!(class, Class::Denied | Class::NoTopic) {
            state.partitions.suspend_partitions(None, now);
        }
        let is_new = class == Class::TooLarge && self.join_limit.too_long(payload.len());
        let Some(message) = state.partitions.end_send(partition, number, None) else { return };
        let InFlight { envelope, .. } = message;
        let pieces = (class == Class::TooLarge)
            .then(|| split_message(self.settings.signal, payload, &envelope.parts))
            .flatten();
        if let Some(pieces) = pieces {
            self.return_pieces(&mut state, partition, envelope, pieces);
            drop(state);
            if is_new {
                tracing::warn!(
                    signal = %self.settings.signal, topic = %self.settings.name,
                    bytes = payload.len(),
                    "a message exceeds the topic's max.message.bytes; it is sent in parts"
                );
            }
            return;
        }
        if !is_withdrawn {
            state.last_failure = Some(format!("{code}; {}", class.advice()));
        }
        self.publish_state(&state);
        drop(state);
        trace.record_result(Some(&code.to_string()));
        self.fail_requests(envelope, code);
    }

    /// Queues the pieces of a message in its position. Its records still count as buffered.
    fn return_pieces(
        &self,
        state: &mut TopicState,
        partition: usize,
        envelope: Envelope,
        pieces: Vec<(Vec<u8>, Vec<RequestPart>)>,
    ) {
        let closed_at = envelope.closed_at;
        for (payload, parts) in pieces.into_iter().rev() {
            let records = parts.iter().map(|part| part.records).sum();
            let envelope = Envelope { records, parts, closed_at };
            let message = Message { payload, envelope, partition: Some(partition) };
            state.partitions.return_first(partition, message);
        }
        envelope.parts.into_iter().for_each(RequestPart::mark_replaced);
    }

    /// Answers the clients of a message that Kafka has not confirmed.
    fn fail_requests(&self, envelope: Envelope, code: Code) {
        let TopicOptions { signal, telemetry, .. } = &self.settings;
        let Envelope { records, parts, .. } = envelope;
        let class = Class::from_code(code);
        telemetry.produce_failed(class.as_str());
        let (refusal, why) = match class {
            Class::Full => (RefusalReason::Full, PublishError::Full),
            Class::TooLarge | Class::Denied | Class::NoTopic => {
                (RefusalReason::Unavailable, PublishError::Unavailable(code.to_string()))
            }
            Class::Passing | Class::Fatal => {
                (RefusalReason::Unconfirmed, PublishError::Unconfirmed(code.to_string()))
            }
        };
        self.count_refused(refusal, records);
        tracing::warn!(
            %signal, records, %code, advice = class.advice(), "Kafka did not confirm a message"
        );
        parts.into_iter().for_each(|part| part.mark_failed(why.clone()));
    }
}

impl Shipment for DeliveryContext {
    /// Ends it at its topic, which then sends the next. The topic is gone when the publisher is.
    fn handle_result(self, result: Result<StoredPosition, (Code, &[u8])>) {
        let Some(topic) = self.topic.upgrade() else { return };
        match result {
            Ok(_position) => topic.record_stored(self),
            Err((code, payload)) => topic.record_failed(self, code, payload),
        }
        topic.send_waiting();
    }
}
