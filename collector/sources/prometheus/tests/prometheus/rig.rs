//! Targets that answer as they are told, byte by byte, and a receiver that scrapes them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, UNIX_EPOCH};

use millrace_config::{PrometheusReceiver, ScrapeJob, ScrapeShare, TargetAddress};
use millrace_pipeline::budget::Budget;
use millrace_pipeline::component::SourceContext;
use millrace_pipeline::drain::Drain;
use millrace_pipeline::publish::{
    DeliveryReceipt, PendingDelivery, Publish, PublishError, PublishRequest,
};
use millrace_pipeline::share::Shares;
use millrace_pipeline::telemetry::Telemetry;
use millrace_source_prometheus::{HostNames, PrometheusSource, StartError, TargetStatus, start};
use millrace_wire::Signal;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::{metric, number_data_point};
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Longer than any wait here should take, even on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// What a target does with a request.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// A whole answer: head and body.
    Bytes(Vec<u8>),
    /// The same after so long.
    Slow(Vec<u8>, Duration),
    /// The same, then nothing more, with the connection left open.
    Hang(Vec<u8>),
    /// A head and lines without end.
    Endless,
    /// The same bytes again and again, without end, behind others.
    Repeated(Vec<u8>, Vec<u8>),
    /// The second part of an answer a byte a second.
    Drip(Vec<u8>, Vec<u8>),
    /// Another whole answer each time, in turn.
    Turns(Vec<Vec<u8>>),
}

impl Answer {
    /// A body with its length.
    pub(crate) fn ok(content_type: &str, body: impl AsRef<[u8]>) -> Self {
        let body = body.as_ref();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        Self::Bytes([head.as_bytes(), body].concat())
    }

    pub(crate) fn text(body: &str) -> Self {
        Self::ok("text/plain; version=0.0.4", body)
    }

    pub(crate) fn head(head: &str) -> Self {
        Self::Bytes(head.as_bytes().to_vec())
    }
}

/// A point of a number that arrived: its target, name, value; NaN if it is gone.
#[derive(Clone, Debug)]
pub(crate) struct Came {
    pub(crate) instance: String,
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) is_gone: bool,
    /// Its attributes, as `name=value` joined by commas.
    pub(crate) labels: String,
}

#[derive(Debug, Default)]
struct FakePublisher {
    refuses: Mutex<bool>,
    /// How long it takes to answer.
    delay: Mutex<Duration>,
    tries: AtomicU64,
    came: Mutex<Vec<Came>>,
}

impl Publish for FakePublisher {
    fn publish(&self, request: PublishRequest<'_>) -> Result<PendingDelivery, PublishError> {
        assert_eq!(request.signal, Signal::Metrics);
        assert_eq!(request.reservation.bytes(), request.bytes.len() as u64);
        self.tries.fetch_add(1, Ordering::SeqCst);
        if *self.refuses.lock().unwrap() {
            return Err(PublishError::Unavailable("told so".into()));
        }
        self.came.lock().unwrap().extend(decoded(request.bytes));
        let (sender, delivery) = PendingDelivery::new_pair();
        let delay = *self.delay.lock().unwrap();
        if delay.is_zero() {
            sender.finish_with(Ok(DeliveryReceipt::default()));
        } else {
            tokio::spawn(async move {
                tokio::time::sleep(delay).await;
                sender.finish_with(Ok(DeliveryReceipt::default()));
            });
        }
        Ok(delivery)
    }

    fn accepts_signal(&self, _: Signal) -> bool {
        true
    }
}

fn said(attributes: &[KeyValue]) -> String {
    let each = attributes.iter().map(|one| {
        let value = one.value.as_ref().and_then(|value| value.value.as_ref());
        match value {
            Some(Value::StringValue(text)) => format!("{}={text}", one.key),
            other => panic!("{other:?}"),
        }
    });
    each.collect::<Vec<_>>().join(",")
}

fn decoded(bytes: &[u8]) -> Vec<Came> {
    let request = ExportMetricsServiceRequest::decode(bytes).unwrap();
    let mut came = Vec::new();
    for group in request.resource_metrics {
        let attributes = group.resource.unwrap().attributes;
        let instance = attributes.iter().find(|it| it.key == "service.instance.id").unwrap();
        let instance = match instance.value.as_ref().unwrap().value.as_ref().unwrap() {
            Value::StringValue(text) => text.clone(),
            other => panic!("{other:?}"),
        };
        for one in group.scope_metrics.into_iter().flat_map(|scope| scope.metrics) {
            let points = match one.data.unwrap() {
                metric::Data::Gauge(gauge) => gauge.data_points,
                metric::Data::Sum(sum) => sum.data_points,
                other => panic!("{other:?}"),
            };
            came.extend(points.into_iter().map(|point| Came {
                instance: instance.clone(),
                name: one.name.clone(),
                value: match point.value {
                    Some(number_data_point::Value::AsDouble(value)) => value,
                    _ => f64::NAN,
                },
                is_gone: point.flags == 1,
                labels: said(&point.attributes),
            }));
        }
    }
    came
}

/// An address on loopback that no other running test has. Tests scrape targets that refuse
/// connections, and the port of one could become that of another test's target.
pub(crate) fn own_loopback() -> IpAddr {
    // A process id has 22 bits.
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, high, middle, low).into()
}

/// A target on loopback.
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    answer: Arc<Mutex<Answer>>,
    asked: Arc<Mutex<Vec<String>>>,
    scrapes: Arc<Mutex<Scrapes>>,
    kept: Arc<Mutex<usize>>,
    serving: JoinHandle<()>,
}

/// Scrapes of a target, as it sees them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scrapes {
    pub(crate) connections: usize,
    pub(crate) began: Vec<Instant>,
    /// The same by the clock that decides when a target is due.
    pub(crate) began_unix_millis: Vec<u64>,
    /// Those that wait for their answer, and the most there were at once.
    pub(crate) open: usize,
    pub(crate) most: usize,
}

impl Target {
    pub(crate) async fn new(answer: Answer) -> Self {
        Self::at(own_loopback(), answer).await
    }

    pub(crate) async fn at(address: IpAddr, answer: Answer) -> Self {
        let listener = TcpListener::bind((address, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let answer = Arc::new(Mutex::new(answer));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let scrapes = Arc::new(Mutex::new(Scrapes::default()));
        let (shared, log) = (Arc::clone(&answer), Arc::clone(&asked));
        let seen = Arc::clone(&scrapes);
        let kept = Arc::new(Mutex::new(0));
        let shared_kept = Arc::clone(&kept);
        let serving = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (answer, log) = (Arc::clone(&shared), Arc::clone(&log));
                let seen = Arc::clone(&seen);
                let kept = Arc::clone(&shared_kept);
                seen.lock().unwrap().connections += 1;
                tokio::spawn(async move {
                    let mut served = 0;
                    while let Some(head) = head(&mut stream).await {
                        log.lock().unwrap().push(head);
                        let (answers, most) =
                            (answer.lock().unwrap().clone(), *kept.lock().unwrap());
                        if served > 0 && served == most {
                            return;
                        }
                        served += 1;
                        if reply(&mut stream, &seen, answers).await.is_err() || most == 0 {
                            return;
                        }
                    }
                });
            }
        });
        Self { address, answer, asked, scrapes, kept, serving }
    }

    pub(crate) fn name(&self) -> String {
        self.address.to_string()
    }

    /// Refuses connections from now on.
    pub(crate) fn close(&self) {
        self.serving.abort();
    }

    pub(crate) fn answer(&self, answer: Answer) {
        *self.answer.lock().unwrap() = answer;
    }

    /// Keeps each connection from now on, and closes it at the request after so many.
    pub(crate) fn keep(&self, requests: usize) {
        *self.kept.lock().unwrap() = requests;
    }

    /// The scrapes so far.
    pub(crate) fn scrapes(&self) -> Scrapes {
        self.scrapes.lock().unwrap().clone()
    }

    /// Heads of the requests so far.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// The head of the next request, if one comes.
async fn head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if stream.read(&mut byte).await.unwrap_or(0) == 0 {
            return None;
        }
        head.push(byte[0]);
    }
    Some(String::from_utf8(head).unwrap())
}

async fn reply(
    stream: &mut TcpStream,
    seen: &Mutex<Scrapes>,
    answer: Answer,
) -> std::io::Result<()> {
    {
        let mut seen = seen.lock().unwrap();
        seen.began.push(Instant::now());
        let unix = UNIX_EPOCH.elapsed().unwrap();
        seen.began_unix_millis.push(unix.as_millis() as u64);
        seen.open += 1;
        seen.most = seen.most.max(seen.open);
    }
    if let Answer::Slow(_, time) = &answer {
        tokio::time::sleep(*time).await;
    }
    // Before the answer: who has it knows that this scrape has ended.
    seen.lock().unwrap().open -= 1;
    match answer {
        Answer::Bytes(bytes) | Answer::Slow(bytes, _) => stream.write_all(&bytes).await,
        Answer::Hang(bytes) => {
            let _ = stream.write_all(&bytes).await;
            let _ = stream.read(&mut [0]).await;
            Ok(())
        }
        Answer::Endless => endless(stream).await,
        Answer::Repeated(head, bytes) => {
            stream.write_all(&head).await?;
            let bytes = bytes.repeat(16_384 / bytes.len());
            loop {
                stream.write_all(&bytes).await?;
            }
        }
        Answer::Drip(head, rest) => {
            stream.write_all(&head).await?;
            for byte in rest {
                stream.write_all(&[byte]).await?;
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            Ok(())
        }
        Answer::Turns(answers) => {
            let turn = seen.lock().unwrap().began.len() % answers.len();
            stream.write_all(&answers[turn]).await
        }
    }
}

async fn endless(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n").await?;
    let mut number = 0_u64;
    loop {
        let lines: String = (0..100).map(|n| format!("m{{n=\"{}\"}} 1\n", number + n)).collect();
        number += 100;
        stream.write_all(lines.as_bytes()).await?;
    }
}

/// A job with an interval of a second.
pub(crate) fn job(name: &str, targets: &[&Target]) -> ScrapeJob {
    let targets = targets.iter().map(|it| TargetAddress::new(it.name()).unwrap()).collect();
    ScrapeJob {
        name: name.into(),
        targets,
        interval_seconds: 1,
        timeout_seconds: 1,
        ..ScrapeJob::default()
    }
}

pub(crate) struct Rig {
    publisher: Arc<FakePublisher>,
    telemetry: Arc<Telemetry>,
    pub(crate) budget: Budget,
    pub(crate) drain: Drain,
    pub(crate) board: TargetStatus,
    running: Option<JoinHandle<bool>>,
}

impl Rig {
    pub(crate) fn start(jobs: Vec<ScrapeJob>, budget_bytes: u64) -> Self {
        Self::start_with(jobs, budget_bytes, true).unwrap()
    }

    pub(crate) fn start_with(
        jobs: Vec<ScrapeJob>,
        budget_bytes: u64,
        allow_local_addresses: bool,
    ) -> Result<Self, StartError> {
        let settings =
            PrometheusReceiver { jobs, allow_local_addresses, ..PrometheusReceiver::default() };
        let room = (budget_bytes, PATIENCE);
        Self::of(settings, None, room, HostNames::of_system())
    }

    /// A receiver that knows names by what it is told.
    pub(crate) fn with_names(jobs: Vec<ScrapeJob>, budget_bytes: u64, hosts: HostNames) -> Self {
        let settings = PrometheusReceiver {
            jobs,
            allow_local_addresses: true,
            ..PrometheusReceiver::default()
        };
        Self::of(settings, None, (budget_bytes, PATIENCE), hosts).unwrap()
    }

    /// A receiver whose targets come from a share, in a process that may drain for so long.
    pub(crate) fn of_share(shares: Shares, drain_time: Duration) -> Self {
        let settings = PrometheusReceiver {
            share: Some(ScrapeShare {}),
            allow_local_addresses: true,
            ..PrometheusReceiver::default()
        };
        let room = (64 << 20, drain_time);
        Self::of(settings, Some(shares), room, HostNames::of_system()).unwrap()
    }

    fn of(
        settings: PrometheusReceiver,
        share: Option<Shares>,
        (budget_bytes, drain_time): (u64, Duration),
        hosts: HostNames,
    ) -> Result<Self, StartError> {
        let budget = Budget::new(budget_bytes);
        let telemetry = Arc::new(Telemetry::new(budget.clone(), "0", "system").unwrap());
        let publisher = Arc::new(FakePublisher::default());
        let drain = Drain::new(drain_time);
        let board = TargetStatus::default();
        let context = SourceContext {
            budget: budget.clone(),
            drain: drain.clone(),
            telemetry: Arc::clone(&telemetry),
            publisher: Arc::clone(&publisher) as _,
        };
        let targets = PrometheusSource { settings, target_status: board.clone(), share, hosts };
        let prometheus = start(targets, context)?;
        let running = Some(tokio::spawn(prometheus.run()));
        Ok(Self { publisher, telemetry, budget, drain, board, running })
    }

    pub(crate) fn refuse(&self, refuses: bool) {
        *self.publisher.refuses.lock().unwrap() = refuses;
    }

    /// Takes so long to answer from now on.
    pub(crate) fn delay(&self, delay: Duration) {
        *self.publisher.delay.lock().unwrap() = delay;
    }

    pub(crate) fn tries(&self) -> u64 {
        self.publisher.tries.load(Ordering::SeqCst)
    }

    pub(crate) fn came(&self) -> Vec<Came> {
        self.publisher.came.lock().unwrap().clone()
    }

    /// Values of a target's metric, in order.
    pub(crate) fn values(&self, target: &Target, name: &str) -> Vec<f64> {
        let (instance, came) = (target.name(), self.publisher.came.lock().unwrap());
        let own = came.iter().filter(|point| point.instance == instance && point.name == name);
        own.map(|point| point.value).collect()
    }

    pub(crate) fn metric(&self, name: &str) -> u64 {
        let text = self.telemetry.render().unwrap();
        let line = text.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap();
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }

    pub(crate) async fn until(&self, holds: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !holds(self) {
            let count = self.publisher.came.lock().unwrap().len();
            assert!(Instant::now() < deadline, "{count} points, {} tries", self.tries());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.running.as_ref().is_some_and(JoinHandle::is_finished)
    }

    /// Ends it in the middle of whatever it does.
    pub(crate) async fn kill(mut self) {
        let running = self.running.take().unwrap();
        running.abort();
        assert!(running.await.unwrap_err().is_cancelled());
    }

    /// Drains in order. Everything is given back.
    pub(crate) async fn stop(self) {
        self.stop_and_see().await;
    }

    /// Likewise; all that came.
    pub(crate) async fn stop_and_see(mut self) -> Vec<Came> {
        self.drain.begin();
        assert!(self.running.take().unwrap().await.unwrap());
        assert_eq!(self.budget.used_bytes(), 0, "the budget is given back");
        assert_eq!(self.metric("millrace_scrape_series_bytes"), 0);
        self.came()
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.drain.begin_by(Instant::now());
    }
}
