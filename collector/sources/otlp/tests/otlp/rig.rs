//! A receiver with a scripted publisher, and small helpers for its clients.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use millrace_config::OtlpReceiver;
use millrace_pipeline::budget::{Budget, Reservation};
use millrace_pipeline::cancellation::Cancellation;
use millrace_pipeline::component::SourceContext;
use millrace_pipeline::drain::Drain;
use millrace_pipeline::publish::{
    DeliveryReceipt, DeliverySender, PendingDelivery, Publish, PublishError, PublishRequest,
};
use millrace_pipeline::telemetry::Telemetry;
use millrace_source_otlp::Otlp;
use millrace_wire::Signal;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message;
use tokio::task::JoinHandle;

/// A time limit longer than any wait here, even on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// How the publisher handles requests.
#[derive(Clone)]
pub(crate) enum Script {
    /// Delivers at once.
    Deliver(DeliveryReceipt),
    /// Refuses the request when it is passed on.
    Refuse(PublishError),
    /// Accepts the request, and fails later.
    Fail(PublishError),
    /// Holds the request until the test ends it, as if Kafka had it.
    Hold,
    /// Holds the request without sending any of it.
    Queue,
    /// Delivers the request if the budget holds this many quarters of its length besides its bytes.
    Copy(u64),
}

pub(crate) struct FakePublisher {
    pub(crate) script: Mutex<Script>,
    pub(crate) taken: Mutex<Vec<(Signal, Vec<u8>, u64)>>,
    pub(crate) held: Mutex<Vec<(DeliverySender, Reservation)>>,
    pub(crate) cancellations: Mutex<Vec<Cancellation>>,
}

impl Publish for FakePublisher {
    fn publish(&self, mut request: PublishRequest<'_>) -> Result<PendingDelivery, PublishError> {
        let script = self.script.lock().unwrap().clone();
        if let Script::Refuse(refused) = script {
            return Err(refused);
        }
        assert!(request.reservation.bytes() >= request.bytes.len() as u64);
        let taken = (request.signal, request.bytes.to_vec(), request.checked.records);
        self.taken.lock().unwrap().push(taken);
        self.cancellations.lock().unwrap().push(request.cancellation.clone());
        let (sender, delivery) = PendingDelivery::new_pair();
        match script {
            Script::Deliver(delivered) => sender.finish_with(Ok(delivered)),
            Script::Fail(refused) => sender.finish_with(Err(refused)),
            Script::Copy(quarters) => {
                let bytes = request.bytes.len() as u64 * quarters / 4;
                let fits = request.reservation.try_resize(bytes);
                sender.finish_with(if fits {
                    Ok(DeliveryReceipt::default())
                } else {
                    Err(PublishError::Full)
                });
            }
            Script::Hold if !request.cancellation.begin_send() => {}
            _ => self.held.lock().unwrap().push((sender, request.reservation)),
        }
        Ok(delivery)
    }

    fn accepts_signal(&self, signal: Signal) -> bool {
        // Metrics have no topic in these tests.
        signal != Signal::Metrics
    }
}

pub(crate) struct Rig {
    pub(crate) publisher: Arc<FakePublisher>,
    pub(crate) telemetry: Arc<Telemetry>,
    pub(crate) budget: Budget,
    pub(crate) drain: Drain,
    pub(crate) grpc: SocketAddr,
    pub(crate) http: SocketAddr,
    pub(crate) served: JoinHandle<()>,
}

impl Rig {
    pub(crate) async fn start() -> Self {
        Self::with(256 << 20, |_| {}).await
    }

    pub(crate) async fn with(budget_bytes: u64, change: impl FnOnce(&mut OtlpReceiver)) -> Self {
        let mut settings = OtlpReceiver::default();
        settings.grpc.address = ([127, 0, 0, 1], 0).into();
        settings.http.address = ([127, 0, 0, 1], 0).into();
        change(&mut settings);
        let budget = Budget::new(budget_bytes);
        let telemetry = Arc::new(Telemetry::new(budget.clone(), "0", "system").unwrap());
        let drain = Drain::new(Duration::from_secs(10));
        let publisher = Arc::new(FakePublisher {
            script: Mutex::new(Script::Deliver(DeliveryReceipt::default())),
            taken: Mutex::default(),
            held: Mutex::default(),
            cancellations: Mutex::default(),
        });
        let context = SourceContext {
            budget: budget.clone(),
            drain: drain.clone(),
            telemetry: Arc::clone(&telemetry),
            publisher: Arc::clone(&publisher) as Arc<dyn Publish>,
        };
        let otlp = Otlp::bind(&settings, 2, context).await.unwrap();
        let (grpc, http) = (otlp.grpc_address().unwrap(), otlp.http_address().unwrap());
        let served = tokio::spawn(otlp.serve());
        Self { publisher, telemetry, budget, drain, grpc, http, served }
    }

    pub(crate) fn script(&self, script: Script) {
        *self.publisher.script.lock().unwrap() = script;
    }

    pub(crate) fn taken(&self) -> Vec<(Signal, Vec<u8>, u64)> {
        self.publisher.taken.lock().unwrap().clone()
    }

    /// Waits until the publisher holds a request, and removes its sender.
    pub(crate) async fn held(&self) -> (DeliverySender, Reservation) {
        let held = async {
            loop {
                if let Some(held) = self.publisher.held.lock().unwrap().pop() {
                    return held;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, held).await.expect("a held request")
    }

    pub(crate) fn refused(&self, reason: &str, signal: &str) -> u64 {
        self.metric(&format!(
            "millrace_records_refused_total{{reason=\"{reason}\",signal=\"{signal}\"}}"
        ))
    }

    pub(crate) fn metric(&self, line: &str) -> u64 {
        let text = self.telemetry.render().unwrap();
        let found = text.lines().find_map(|found| found.strip_prefix(line)?.trim().parse().ok());
        found.unwrap_or(0)
    }

    /// Ends the receiver and waits for it.
    pub(crate) async fn end(self) {
        self.drain.begin();
        tokio::time::timeout(PATIENCE, self.served).await.expect("the receiver to end").unwrap();
    }

    /// Ends the receiver when no worker retains a buffer, and checks that the complete budget is
    /// free.
    pub(crate) async fn end_with_nothing_held(self) {
        let budget = self.budget.clone();
        self.end().await;
        assert_eq!(budget.used_bytes(), 0);
    }
}

pub(crate) fn traces(spans: usize) -> ExportTraceServiceRequest {
    let span = |index| Span { name: format!("span {index}"), ..Span::default() };
    let scope = ScopeSpans { spans: (0..spans).map(span).collect(), ..ScopeSpans::default() };
    let resource = ResourceSpans { scope_spans: vec![scope], ..ResourceSpans::default() };
    ExportTraceServiceRequest { resource_spans: vec![resource] }
}

pub(crate) fn trace_bytes(spans: usize) -> Vec<u8> {
    traces(spans).encode_to_vec()
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Returns a small body that expands to `bytes` zeros.
pub(crate) fn bomb(bytes: usize) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let chunk = vec![0; 1 << 20];
    for _ in 0..bytes >> 20 {
        encoder.write_all(&chunk).unwrap();
    }
    encoder.finish().unwrap()
}
