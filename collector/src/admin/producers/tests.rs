//! Tests of the estimate with requests of known services.

use millrace_pipeline::budget::Budget;
use millrace_pipeline::cancellation::Cancellation;
use millrace_pipeline::publish::{DeliveryReceipt, PendingDelivery};
use millrace_wire::limits::WireLimits;
use millrace_wire::otlp::check_request;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue as Value, KeyValue, any_value};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message;
use serde_json::Value as Json;

use super::heaviest::SLOTS;
use super::*;

fn attribute(key: &str, text: &str) -> KeyValue {
    let value = Value { value: Some(any_value::Value::StringValue(text.to_owned())) };
    KeyValue { key: key.to_owned(), value: Some(value), ..KeyValue::default() }
}

/// A request with a log record of so many bytes for each service.
fn request(services: &[(&str, usize)]) -> Vec<u8> {
    let resource_logs = services.iter().map(|(service, bytes)| {
        let attributes =
            vec![attribute("service.name", service), attribute("k8s.namespace.name", "shop")];
        let record = LogRecord { severity_text: "x".repeat(*bytes), ..LogRecord::default() };
        ResourceLogs {
            resource: Some(Resource { attributes, ..Resource::default() }),
            scope_logs: vec![ScopeLogs { log_records: vec![record], ..ScopeLogs::default() }],
            ..ResourceLogs::default()
        }
    });
    ExportLogsServiceRequest { resource_logs: resource_logs.collect() }.encode_to_vec()
}

fn report(meter: &ProducerMeter) -> Vec<(String, String, f64)> {
    let report: Json = serde_json::from_str(&meter.render_json()).unwrap();
    assert!(report["seconds"].as_f64().unwrap() < 60.0);
    let text = |one: &Json, key: &str| one[key].as_str().unwrap().to_owned();
    let producers = report["producers"].as_array().unwrap().iter();
    producers
        .map(|one| (text(one, "service"), text(one, "namespace"), one["bytes"].as_f64().unwrap()))
        .collect()
}

/// Scenario: 40 clients take turns, one of which sends as many bytes as all others. Guarantee: it
/// comes first with about half of all bytes, and the sum is about what was sent.
#[test]
fn the_heaviest_producer_comes_first_with_its_bytes() {
    let meter = ProducerMeter::new();
    let names: Vec<String> = (0..40).map(|client| format!("client-{client}")).collect();
    let requests: Vec<Vec<u8>> = names
        .iter()
        .map(|name| request(&[(name, if name == "client-7" { 39_000 } else { 1_000 })]))
        .collect();
    let mut sent = 0;
    for turn in 0..64_000 {
        let request = &requests[turn % 40];
        sent += request.len();
        meter.sample_request(request);
    }
    let found = report(&meter);
    assert_eq!((found[0].0.as_str(), found[0].1.as_str()), ("client-7", "shop"));
    let (first, all) = (found[0].2, found.iter().map(|(_, _, bytes)| bytes).sum::<f64>());
    // Some 50 samples of the heavy client have a standard deviation of 14 %.
    assert!((0.3..0.7).contains(&(first / all)), "{first} of {all}");
    assert!((0.5..1.5).contains(&(all / sent as f64)), "{all} of {sent}");
}

/// Scenario: ten times as many services as there are slots, and one with a tenth of all bytes; names
/// of a kilobyte; resources without names. Guarantee: the table is bounded, and the heavy one is in
/// it with its bytes, too many by a slot's share at most.
#[test]
fn memory_is_bounded_and_the_heaviest_is_never_missing() {
    let mut heaviest = Heaviest::default();
    let light: Vec<String> =
        (0..SLOTS * 10).map(|it| format!("{it}-{}", "é".repeat(600))).collect();
    for service in &light {
        add_resources(&mut heaviest, &request(&[(service, 100), ("heavy", 200)])).unwrap();
    }
    let all = heaviest.clone().into_sorted();
    let (first, bytes) = &all[0];
    assert_eq!((all.len(), first.service.as_str()), (SLOTS, "heavy"));
    let sent = (request(&[("heavy", 200)]).len() * light.len()) as u64 * REQUESTS_PER_SAMPLE;
    let total: u64 = all.iter().map(|(_, bytes)| bytes).sum();
    assert!((sent * 9 / 10..=sent + total / SLOTS as u64).contains(bytes), "{bytes} of {sent}");
    assert!(all.iter().all(|(producer, _)| producer.service.len() <= 128));
    let mut heaviest = Heaviest::default();
    let nobody = ExportLogsServiceRequest { resource_logs: vec![ResourceLogs::default()] };
    add_resources(&mut heaviest, &nobody.encode_to_vec()).unwrap();
    assert_eq!(heaviest.into_sorted()[0].0, Producer::default());
}

/// Scenario: windows end with and without load. Guarantee: the page shows the present window and
/// the one before, and nothing older.
#[test]
fn old_bytes_are_forgotten() {
    let meter = ProducerMeter::new();
    let mut state = meter.state.lock().unwrap();
    let began = state.began;
    add_resources(&mut state.present, &request(&[("old", 100)])).unwrap();
    state.start_due_window(began + WINDOW - Duration::from_secs(1));
    assert_eq!(state.present.clone().into_sorted().len(), 1);
    state.start_due_window(began + WINDOW);
    assert_eq!(state.present.clone().into_sorted().len(), 0);
    assert_eq!((state.before.0.clone().into_sorted().len(), state.before.1), (1, WINDOW));
    state.start_due_window(began + WINDOW * 3);
    assert_eq!(state.before.0.clone().into_sorted().len(), 0, "nothing came for a window");
}

/// A publisher that refuses each second request.
struct Refusing(AtomicI32);

impl Publish for Refusing {
    fn publish(&self, _: PublishRequest<'_>) -> Result<PendingDelivery, PublishError> {
        if self.0.fetch_add(1, Ordering::Relaxed) % 2 == 0 {
            return Err(PublishError::Full);
        }
        let (sender, delivery) = PendingDelivery::new_pair();
        sender.finish_with(Ok(DeliveryReceipt::default()));
        Ok(delivery)
    }

    fn accepts_signal(&self, signal: Signal) -> bool {
        signal == Signal::Logs
    }
}

/// Scenario: the exporter refuses a request, whose client sends it again. Guarantee: it counts
/// once; the signals are the exporter's.
#[test]
fn a_refused_request_does_not_count() {
    let meter = ProducerMeter::new();
    meter.countdown.store(1, Ordering::Relaxed);
    let publisher = meter.measure_after(Arc::new(Refusing(AtomicI32::new(0))));
    assert!(publisher.accepts_signal(Signal::Logs) && !publisher.accepts_signal(Signal::Traces));
    let budget = Budget::new(1 << 20);
    let bytes = request(&[("a", 100)]);
    for expected in [0, 1] {
        let request = PublishRequest {
            signal: Signal::Logs,
            bytes: &bytes,
            checked: check_request(Signal::Logs, &bytes, &WireLimits::of_readers()).unwrap(),
            reservation: budget.try_reserve(bytes.len() as u64).unwrap(),
            cancellation: Cancellation::default(),
            client: None,
        };
        assert_eq!(publisher.publish(request).is_ok(), expected == 1);
        assert_eq!(report(&meter).len(), expected);
    }
}

/// Scenario: requests of one resource, and of 100 whose producers outnumber the slots, as an edge
/// publishes them. It says what the meter adds to each on average.
#[test]
#[ignore = "a measurement, with --release"]
fn cost_of_a_request() {
    const REQUESTS: u32 = 200_000;
    let names: Vec<String> = (0..1_000).map(|number| format!("service-{number}")).collect();
    for resources in [1, 100] {
        let requests: Vec<Vec<u8>> = names
            .chunks(resources)
            .map(|names| {
                let services: Vec<_> = names.iter().map(|name| (name.as_str(), 300)).collect();
                request(&services)
            })
            .collect();
        let meter = ProducerMeter::new();
        let began = Instant::now();
        for request in requests.iter().cycle().take(REQUESTS as usize) {
            meter.sample_request(request);
        }
        println!("{resources} resources: {:?} a request", began.elapsed() / REQUESTS);
    }
}
