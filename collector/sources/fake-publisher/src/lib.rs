//! A publisher for the tests of sources: it follows a script and retains the log records that it
//! accepted. No product links it.
#![allow(clippy::unwrap_in_result, clippy::unwrap_used, missing_docs)]

use std::collections::VecDeque;
use std::sync::Mutex;

use millrace_pipeline::budget::Reservation;
use millrace_pipeline::publish::{
    DeliveryReceipt, DeliverySender, PendingDelivery, Publish, PublishError, PublishRequest,
};
use millrace_wire::Signal;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use prost::Message;

/// What the publisher does with requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Script {
    Deliver,
    Refuse,
    /// Takes it and says that it failed.
    Fail,
    /// Takes it and doesn't answer.
    Hold,
    /// The process is as good as dead: nothing arrives.
    Dead,
}

/// How a request's reservation compares with its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserved {
    Exactly,
    AtLeast,
}

/// A log record that arrived.
#[derive(Clone, Debug, PartialEq)]
pub struct ReceivedRecord {
    pub text: String,
    pub severity: (i32, String),
    pub time_unix_nano: u64,
    pub resource: Vec<(String, String)>,
    pub attributes: Vec<(String, String)>,
}

impl ReceivedRecord {
    pub fn find_attribute(&self, key: &str) -> Option<&String> {
        self.attributes.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }
}

#[derive(Debug)]
pub struct FakePublisher {
    pub script: Mutex<Script>,
    pub records: Mutex<Vec<ReceivedRecord>>,
    pub held: Mutex<VecDeque<(DeliverySender, Reservation)>>,
    /// Requests that were offered, one each.
    pub tries: Mutex<u64>,
    reserved: Reserved,
}

impl FakePublisher {
    /// One that delivers.
    pub fn new(reserved: Reserved) -> Self {
        Self {
            script: Mutex::new(Script::Deliver),
            records: Mutex::default(),
            held: Mutex::default(),
            tries: Mutex::default(),
            reserved,
        }
    }

    pub fn attempt_count(&self) -> u64 {
        *self.tries.lock().unwrap()
    }

    fn record_request(&self, bytes: &[u8]) {
        self.records.lock().unwrap().extend(decode_records(bytes));
    }

    fn hold_request(&self, sender: DeliverySender, reservation: Reservation) {
        self.held.lock().unwrap().push_back((sender, reservation));
    }
}

impl Publish for FakePublisher {
    fn publish(&self, request: PublishRequest<'_>) -> Result<PendingDelivery, PublishError> {
        assert_eq!(request.signal, Signal::Logs);
        let (reserved, length) = (request.reservation.bytes(), request.bytes.len() as u64);
        match self.reserved {
            Reserved::Exactly => assert_eq!(reserved, length),
            Reserved::AtLeast => assert!(reserved >= length),
        }
        *self.tries.lock().unwrap() += 1;
        let script = *self.script.lock().unwrap();
        let (sender, delivery) = PendingDelivery::new_pair();
        match script {
            Script::Refuse => return Err(PublishError::Full),
            Script::Dead => self.hold_request(sender, request.reservation),
            Script::Fail => sender.finish_with(Err(PublishError::Unavailable("told so".into()))),
            Script::Deliver => {
                self.record_request(request.bytes);
                sender.finish_with(Ok(DeliveryReceipt::default()));
            }
            Script::Hold => {
                self.record_request(request.bytes);
                self.hold_request(sender, request.reservation);
            }
        }
        Ok(delivery)
    }

    fn accepts_signal(&self, _: Signal) -> bool {
        true
    }
}

fn decode_records(bytes: &[u8]) -> Vec<ReceivedRecord> {
    let request = ExportLogsServiceRequest::decode(bytes).unwrap();
    let mut decoded = Vec::new();
    for group in request.resource_logs {
        let resource = decode_attributes(&group.resource.unwrap_or_default().attributes);
        let records = group.scope_logs.into_iter().flat_map(|scope| scope.log_records);
        decoded.extend(records.map(|record| ReceivedRecord {
            text: text_of_value(record.body.as_ref()),
            severity: (record.severity_number, record.severity_text.clone()),
            time_unix_nano: record.time_unix_nano,
            resource: resource.clone(),
            attributes: decode_attributes(&record.attributes),
        }));
    }
    decoded
}

fn decode_attributes(from: &[KeyValue]) -> Vec<(String, String)> {
    from.iter().map(|one| (one.key.clone(), text_of_value(one.value.as_ref()))).collect()
}

fn text_of_value(value: Option<&AnyValue>) -> String {
    match value.and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        other => format!("{other:?}"),
    }
}
