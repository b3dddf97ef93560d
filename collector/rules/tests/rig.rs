//! A publisher that records what it gets, behind rules.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use millrace_pipeline::budget::Budget;
use millrace_pipeline::cancellation::{Cancellation, Canceller};
use millrace_pipeline::publish::{
    DeliveryReceipt, PendingDelivery, Publish, PublishError, PublishRequest,
};
use millrace_pipeline::telemetry::Telemetry;
use millrace_processing::Config;
use millrace_rules::Rules;
use millrace_wire::limits::WireLimits;
use millrace_wire::{Signal, otlp};
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use prost::Message;
use serde_json::json;

/// Room for any request of these tests.
const BUDGET_BYTES: u64 = 64 << 20;

#[derive(Default)]
pub(crate) struct Recorder {
    pub(crate) requests: Mutex<Vec<(Signal, Vec<u8>, u64)>>,
    pub(crate) refusal: Mutex<Option<PublishError>>,
}

impl Publish for Recorder {
    fn publish(&self, request: PublishRequest<'_>) -> Result<PendingDelivery, PublishError> {
        let PublishRequest { signal, bytes, checked, reservation, .. } = request;
        assert!(reservation.bytes() >= bytes.len() as u64, "bytes that nothing covers");
        let found = otlp::check_request(signal, bytes, &WireLimits::default());
        assert_eq!(found.as_ref(), Ok(&checked), "the outline differs from the check");
        if let Some(refusal) = self.refusal.lock().unwrap().clone() {
            return Err(refusal);
        }
        self.requests.lock().unwrap().push((signal, bytes.to_vec(), checked.records));
        let (sender, delivery) = PendingDelivery::new_pair();
        sender.finish_with(Ok(DeliveryReceipt::default()));
        Ok(delivery)
    }

    fn accepts_signal(&self, signal: Signal) -> bool {
        signal != Signal::Metrics
    }
}

pub(crate) struct Rig {
    pub(crate) budget: Budget,
    pub(crate) telemetry: Arc<Telemetry>,
    pub(crate) recorder: Arc<Recorder>,
    /// Gets what rules route.
    pub(crate) audit: Arc<Recorder>,
    pub(crate) rules: Arc<Rules>,
    pub(crate) publisher: Arc<dyn Publish>,
    /// The address that requests come from.
    pub(crate) client: Option<IpAddr>,
}

pub(crate) fn steps(steps: serde_json::Value) -> Config {
    serde_json::from_value(steps).unwrap()
}

/// Renames an attribute, and drops debug logs.
pub(crate) fn rename_and_drop() -> Config {
    steps(json!([
        {"name": "rename", "context": "log", "statements": [
            "set(attributes[\"new\"], attributes[\"old\"]) where attributes[\"old\"] != nil",
            "delete_key(attributes, \"old\")",
        ]},
        {"name": "quiet", "drop": {"logs": ["severity_number < 9"]}},
    ]))
}

impl Rig {
    pub(crate) fn new(config: &Config) -> Self {
        Self::with_budget(config, BUDGET_BYTES)
    }

    pub(crate) fn with_budget(config: &Config, bytes: u64) -> Self {
        let budget = Budget::new(bytes);
        let telemetry = Arc::new(Telemetry::new(budget.clone(), "0", "system").unwrap());
        let recorder = Arc::new(Recorder::default());
        let rules = Rules::load(config, &telemetry).unwrap().unwrap();
        let next = Arc::clone(&recorder) as Arc<dyn Publish>;
        let audit = Arc::new(Recorder::default());
        let routes = rules.route_topics().iter().map(|_| Arc::clone(&audit) as Arc<dyn Publish>);
        let routes = routes.collect();
        let publisher = rules.run_before(next, routes, budget.clone(), Arc::clone(&telemetry));
        Self { budget, telemetry, recorder, audit, rules, publisher, client: None }
    }

    /// Hands over a request as a receiver with a client does.
    pub(crate) fn publish(&self, signal: Signal, bytes: &[u8]) -> Result<(), PublishError> {
        let canceller = Canceller::new(Instant::now() + Duration::from_secs(60));
        self.publish_as(signal, bytes, canceller.cancellation())
    }

    /// Hands over a request as a source does that reads files.
    pub(crate) fn publish_own(&self, signal: Signal, bytes: &[u8]) -> Result<(), PublishError> {
        self.publish_as(signal, bytes, Cancellation::default())
    }

    fn publish_as(
        &self,
        signal: Signal,
        bytes: &[u8],
        cancellation: Cancellation,
    ) -> Result<(), PublishError> {
        let checked = otlp::check_request(signal, bytes, &WireLimits::default()).unwrap();
        let reservation = self.budget.try_reserve(bytes.len() as u64).unwrap();
        let client = self.client;
        let request = PublishRequest { signal, bytes, checked, reservation, cancellation, client };
        let delivery = self.publisher.publish(request)?;
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(delivery).map(drop)
    }

    /// The value of a metric's series whose labels contain all of `labels`; 0 if there is none.
    pub(crate) fn metric(&self, name: &str, labels: &[&str]) -> f64 {
        let text = self.telemetry.render().unwrap();
        let is_meant = |line: &&str| {
            line.starts_with(&format!("{name}{{"))
                && labels.iter().all(|label| line.contains(label))
        };
        let values = text.lines().filter(is_meant).filter_map(|line| line.rsplit(' ').next());
        values.map(|value| value.parse::<f64>().unwrap()).sum()
    }

    pub(crate) fn received(&self) -> Vec<LogRecord> {
        self.recorder.records()
    }
}

impl Recorder {
    pub(crate) fn records(&self) -> Vec<LogRecord> {
        let requests = self.requests.lock().unwrap();
        let records = |(_, bytes, _): &(Signal, Vec<u8>, u64)| {
            let request = ExportLogsServiceRequest::decode(bytes.as_slice()).unwrap();
            let groups = request.resource_logs.into_iter().flat_map(|group| group.scope_logs);
            groups.flat_map(|scope| scope.log_records).collect::<Vec<_>>()
        };
        requests.iter().flat_map(records).collect()
    }
}

pub(crate) fn text(text: &str) -> AnyValue {
    AnyValue { value: Some(Value::StringValue(text.to_owned())) }
}

/// A log record with an attribute.
pub(crate) fn record(severity_number: i32, key: &str, value: &str) -> LogRecord {
    LogRecord {
        severity_number,
        time_unix_nano: 1_700_000_000_000_000_000,
        body: Some(text("body")),
        attributes: vec![KeyValue {
            key: key.to_owned(),
            value: Some(text(value)),
            ..Default::default()
        }],
        ..Default::default()
    }
}

pub(crate) fn logs(log_records: Vec<LogRecord>) -> Vec<u8> {
    let scope_logs = vec![ScopeLogs { log_records, ..Default::default() }];
    let resource_logs = vec![ResourceLogs { scope_logs, ..Default::default() }];
    ExportLogsServiceRequest { resource_logs }.encode_to_vec()
}
