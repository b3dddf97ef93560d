//! The path of a span, all parts real: OTLP in at the edge, Kafka, a gateway, the engine; and what
//! is answered to those who send something else.

use std::time::Duration;

use millrace_e2e::http;
use millrace_e2e::lab::{DEAD_LETTERS, DRAIN_LIMIT, Lab, TOPIC};
use millrace_e2e::loadgen::Load;
use millrace_e2e::{segment, topics};
use millrace_wire::decompress::{ContentEncoding, Decompressor};

/// For a load of some hundred thousand spans on a busy machine.
const LIMIT: Duration = Duration::from_secs(180);

/// Scenario: a quiet run over gRPC with gzip and over HTTP with zstd. Guarantee: every
/// acknowledged span is stored once and unaltered, every offset is committed, the collectors'
/// own counts agree, and both end in good order when asked. Slow: a broker and an engine start, and
/// 300,000 spans pass and are compared.
#[test]
fn every_acknowledged_span_is_stored_once_and_unaltered() {
    let lab = Lab::start().unwrap();
    let mut edge = lab.edge().unwrap();
    let mut gateway = lab.gateway("gateway", "").unwrap();
    let grpc = lab.load(&edge, 1, 200_000);
    let http = Load {
        protocol: "http",
        compression: "zstd",
        endpoint: format!("http://{}", edge.ports.http),
        ..lab.load(&edge, 2, 100_000)
    };
    for (load, count) in [(grpc, 200_000), (http, 100_000)] {
        let verdict = load.run(lab.folder(), LIMIT).unwrap();
        assert_eq!((verdict.sent, verdict.stored), (count, count), "{}", verdict.line);
        let bad = (verdict.missing, verdict.duplicated, verdict.altered);
        assert_eq!(bad, (0, 0, 0), "{}", verdict.line);
    }
    lab.committed(Duration::from_secs(30)).unwrap();
    let traces = "signal=\"traces\"";
    for collector in [&edge, &gateway] {
        assert_eq!(collector.metric("millrace_records_in_total", traces).unwrap(), 300_000.0);
        assert_eq!(collector.metric("millrace_records_out_total", traces).unwrap(), 300_000.0);
        assert_eq!(collector.metric("millrace_records_in_flight", traces).unwrap(), 0.0);
    }
    assert!(edge.process().terminate(DRAIN_LIMIT).unwrap().success());
    assert!(gateway.process().terminate(DRAIN_LIMIT).unwrap().success());
}

/// Scenario: an edge publishes in zstd, as it does unless told otherwise. Guarantee: each frame that
/// the broker keeps says how long it is once decompressed, so that readers needn't guess: the
/// client library writes that only if it is built as `.cargo/config.toml` says. Slow: a broker and
/// an engine start.
#[test]
fn compressed_messages_say_how_long_they_are() {
    const ZSTD: u8 = 4;
    /// Far over a message.
    const CAP: usize = 64 << 20;
    let lab = Lab::start().unwrap();
    let edge = lab.edge().unwrap();
    lab.load(&edge, 21, 20_000).send(lab.folder(), LIMIT).unwrap();
    let batches = segment::batches(&lab.broker_data(), TOPIC).unwrap();
    assert!(!batches.is_empty());
    for batch in batches {
        assert_eq!(batch.codec, ZSTD);
        let said = zstd::zstd_safe::get_frame_content_size(&batch.records).unwrap();
        let mut plain = Vec::new();
        let mut decompressor = Decompressor::default();
        decompressor.decompress(ContentEncoding::Zstd, &batch.records, CAP, &mut plain).unwrap();
        assert_eq!(said, Some(plain.len() as u64));
    }
}

/// Scenario: malformed OTLP, a wrong content type, an unknown path. Guarantee: each is answered
/// with a code that tells the client not to send it again, is counted, and nothing of it reaches
/// Kafka. Slow: a broker and an engine start.
#[test]
fn malformed_requests_are_refused_and_counted() {
    let lab = Lab::start().unwrap();
    let edge = lab.edge().unwrap();
    let address = edge.ports.http;
    let protobuf = ("content-type", "application/x-protobuf");
    let broken = http::send(address, "POST", "/v1/traces", &[protobuf], b"\x0a\xff\xff").unwrap();
    assert_eq!(broken.status, 400, "{broken:?}");
    let gzip = ("content-encoding", "gzip");
    let no_gzip = http::send(address, "POST", "/v1/traces", &[protobuf, gzip], b"no gzip").unwrap();
    assert_eq!(no_gzip.status, 400, "{no_gzip:?}");
    let text = [("content-type", "text/plain")];
    let plain = http::send(address, "POST", "/v1/traces", &text, b"hello").unwrap();
    assert_eq!(plain.status, 415, "{plain:?}");
    assert_eq!(http::send(address, "POST", "/v1/nothing", &[protobuf], b"").unwrap().status, 404);
    let refused = edge.metric("millrace_records_refused_total", "malformed").unwrap();
    assert!(refused >= 2.0, "{refused}");
    assert_eq!(topics::count(&lab.broker.bootstrap(), TOPIC).unwrap(), 0);
}

/// Scenario: broken protobuf lies in the topic between good messages. Guarantee: the partition goes
/// on, neighbours are stored, and the broken bytes are in the dead-letter topic with the reason and
/// their source. Slow: a broker and an engine start, and 40,000 spans pass.
#[test]
fn broken_messages_in_kafka_go_to_the_dead_letters_and_block_nobody() {
    let lab = Lab::start().unwrap();
    let bootstrap = lab.broker.bootstrap();
    let edge = lab.edge().unwrap();
    let before = lab.load(&edge, 11, 20_000);
    let gateway = lab.gateway("gateway", "").unwrap();
    before.run(lab.folder(), LIMIT).unwrap();
    let broken: Vec<Vec<u8>> = (0..4).map(|n| vec![0x0a, 0xff, 0xff, n]).collect();
    for (partition, payload) in (0..).zip(&broken) {
        topics::produce(&bootstrap, TOPIC, partition, payload).unwrap();
    }
    let verdict = lab.load(&edge, 12, 20_000).run(lab.folder(), LIMIT).unwrap();
    assert_eq!((verdict.stored, verdict.missing), (20_000, 0), "{}", verdict.line);
    lab.committed(Duration::from_secs(30)).unwrap();
    let mut letters = topics::read_all(&bootstrap, DEAD_LETTERS).unwrap();
    letters.sort_by(|a, b| a.payload.cmp(&b.payload));
    let payloads: Vec<Vec<u8>> = letters.iter().map(|letter| letter.payload.clone()).collect();
    assert_eq!(payloads, broken);
    for letter in letters {
        let names: Vec<&str> = letter.headers.iter().map(|(name, _)| name.as_str()).collect();
        for wanted in [
            "millrace-reason",
            "millrace-source-topic",
            "millrace-source-partition",
            "millrace-version",
        ] {
            assert!(names.contains(&wanted), "no {wanted} in {names:?}");
        }
    }
    let counted =
        gateway.metric("millrace_records_dead_lettered_total", "signal=\"traces\"").unwrap();
    assert!(counted >= 4.0, "{counted}");
}
