//! What tests of the node's receivers share: a publisher that does as it is told, and the log
//! records that it took. Each test file uses its part.
#![allow(dead_code, missing_docs, unreachable_pub)]

use std::collections::VecDeque;
use std::sync::Mutex;

use millrace_pipeline::budget::Reservation;
use millrace_pipeline::publish::{Delivered, Delivery, DeliverySender, Publish, Refused, Request};
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
pub struct Record {
    pub text: String,
    pub severity: (i32, String),
    pub time_unix_nano: u64,
    pub resource: Vec<(String, String)>,
    pub attributes: Vec<(String, String)>,
}

impl Record {
    pub fn attribute(&self, key: &str) -> Option<&String> {
        self.attributes.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }
}

#[derive(Debug)]
pub struct FakePublisher {
    pub script: Mutex<Script>,
    pub records: Mutex<Vec<Record>>,
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

    pub fn tries(&self) -> u64 {
        *self.tries.lock().unwrap()
    }

    fn take(&self, bytes: &[u8]) {
        self.records.lock().unwrap().extend(decoded(bytes));
    }

    fn hold(&self, sender: DeliverySender, reservation: Reservation) {
        self.held.lock().unwrap().push_back((sender, reservation));
    }
}

impl Publish for FakePublisher {
    fn publish(&self, request: Request<'_>) -> Result<Delivery, Refused> {
        assert_eq!(request.signal, Signal::Logs);
        let (reserved, length) = (request.reservation.bytes(), request.bytes.len() as u64);
        match self.reserved {
            Reserved::Exactly => assert_eq!(reserved, length),
            Reserved::AtLeast => assert!(reserved >= length),
        }
        *self.tries.lock().unwrap() += 1;
        let script = *self.script.lock().unwrap();
        let (sender, delivery) = Delivery::pair();
        match script {
            Script::Refuse => return Err(Refused::Full),
            Script::Dead => self.hold(sender, request.reservation),
            Script::Fail => sender.finish(Err(Refused::Unavailable("told so".into()))),
            Script::Deliver => {
                self.take(request.bytes);
                sender.finish(Ok(Delivered::default()));
            }
            Script::Hold => {
                self.take(request.bytes);
                self.hold(sender, request.reservation);
            }
        }
        Ok(delivery)
    }

    fn takes(&self, _: Signal) -> bool {
        true
    }
}

fn decoded(bytes: &[u8]) -> Vec<Record> {
    let request = ExportLogsServiceRequest::decode(bytes).unwrap();
    let mut decoded = Vec::new();
    for group in request.resource_logs {
        let resource = attributes(&group.resource.unwrap_or_default().attributes);
        let records = group.scope_logs.into_iter().flat_map(|scope| scope.log_records);
        decoded.extend(records.map(|record| Record {
            text: text(record.body.as_ref()),
            severity: (record.severity_number, record.severity_text.clone()),
            time_unix_nano: record.time_unix_nano,
            resource: resource.clone(),
            attributes: attributes(&record.attributes),
        }));
    }
    decoded
}

fn attributes(from: &[KeyValue]) -> Vec<(String, String)> {
    from.iter().map(|one| (one.key.clone(), text(one.value.as_ref()))).collect()
}

fn text(value: Option<&AnyValue>) -> String {
    match value.and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        other => format!("{other:?}"),
    }
}
