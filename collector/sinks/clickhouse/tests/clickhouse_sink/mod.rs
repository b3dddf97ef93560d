//! The ClickHouse sink against a server that answers from a script: what is sent, what is sent
//! again and where, and how each insert ends.

mod circuits;
mod fake_server;
mod live_tables;
mod one_table;
mod test_rows;
mod tls;

use std::sync::Arc;
use std::time::{Duration, Instant};

use fake_server::{FakeServer, Reply};
use millrace_config::{
    Attributes, ByteSize, ClickHouseExporter, Credentials, HttpEndpoint, SecretFile,
};
use millrace_ledger::OffsetRange;
use millrace_pipeline::budget::Budget;
use millrace_pipeline::drain::Drain;
use millrace_pipeline::readiness::Readiness;
use millrace_pipeline::sink::{
    Block, BlockOrigin, CompletionQueue, DeliveryOutcome, Insert, Sink, TableIndex,
};
use millrace_pipeline::telemetry::Telemetry;
use millrace_sink_clickhouse::{ClickHouseSink, SinkParts, SinkSettings};
use millrace_wire::Signal;
use millrace_wire::otlp::TimeRange;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message;
use tokio::runtime::Runtime;

const PATIENCE: Duration = Duration::from_secs(30);
/// The number of inserts into the traces' table that may run at once.
const ALLOWED: &str = "millrace_inserts_allowed{table=\"otel.otel_traces\"}";
/// A day in nanoseconds.
const DAY: u64 = 86_400_000_000_000;

/// Waits until a condition holds; fails the test when it doesn't in time.
fn eventually(what: &str, mut so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !so() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Returns an export request of spans that start on the given days.
fn request(days: &[u64]) -> Vec<u8> {
    let span = |(i, day): (usize, &u64)| Span {
        trace_id: vec![7; 16],
        span_id: vec![i as u8 + 1; 8],
        name: format!("span {i}"),
        start_time_unix_nano: day * DAY + 5,
        end_time_unix_nano: day * DAY + 9,
        ..Span::default()
    };
    let spans = days.iter().enumerate().map(span).collect();
    let scope_spans = vec![ScopeSpans { spans, ..ScopeSpans::default() }];
    let resource_spans = vec![ResourceSpans { scope_spans, ..ResourceSpans::default() }];
    ExportTraceServiceRequest { resource_spans }.encode_to_vec()
}

struct Fixture {
    sink: ClickHouseSink,
    readiness: Readiness,
    telemetry: Arc<Telemetry>,
    drain: Drain,
    answers: CompletionQueue,
    budget: Budget,
    _runtime: Runtime,
}

impl Fixture {
    fn new(servers: &[&FakeServer]) -> Self {
        let urls = servers.iter().map(|server| server.url()).collect();
        Self::with(urls, |_| {})
    }

    fn with(urls: Vec<String>, change: impl FnOnce(&mut ClickHouseExporter)) -> Self {
        let mut exporter = ClickHouseExporter {
            endpoints: urls.into_iter().map(|url| HttpEndpoint::new(url).unwrap()).collect(),
            insert_timeout_seconds: 1,
            max_inserts_in_flight: 2,
            attributes: Some(Attributes::Json),
            ..ClickHouseExporter::default()
        };
        change(&mut exporter);
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.unwrap();
        let budget = Budget::new(ByteSize::mib(1).get());
        let telemetry = Arc::new(Telemetry::new(budget.clone(), "test", "system").unwrap());
        let readiness = Readiness::default();
        let drain = Drain::new(Duration::from_millis(200));
        let parts = SinkParts {
            runtime: runtime.handle().clone(),
            telemetry: Arc::clone(&telemetry),
            readiness: readiness.clone(),
            drain: drain.clone(),
        };
        let sink = ClickHouseSink::new(SinkSettings::new(&exporter).unwrap(), parts).unwrap();
        Self {
            sink,
            readiness,
            telemetry,
            drain,
            answers: CompletionQueue::new(16),
            budget,
            _runtime: runtime,
        }
    }

    /// Returns the blocks of one request.
    fn blocks(&self, days: &[u64]) -> Vec<Block> {
        let mut encoder = self.sink.new_encoder(Signal::Traces);
        encoder.append(&request(days)).unwrap();
        encoder.take_blocks()
    }

    fn insert(&self, partition: i32) -> Insert {
        let block = self.blocks(&[20_000, 20_000, 20_000]).remove(0);
        let origin = BlockOrigin {
            signal: Signal::Traces,
            group: "gateway".into(),
            topic: "otlp_traces".into(),
            topic_number: Some(0x1f),
            partition,
            range: OffsetRange::new(100, 200).unwrap(),
            first_timestamp_millis: 1_700_000_000_000,
            is_read_again: true,
            may_be_stored: false,
        };
        Insert { block, origin, reservation: self.budget.try_reserve(10).unwrap() }
    }

    /// Submits an insert and waits for its end.
    fn store(&mut self, partition: i32) -> DeliveryOutcome {
        let completion = self.answers.open_part().unwrap();
        self.sink.submit(self.insert(partition), completion).unwrap();
        self.answers.next_within(PATIENCE).expect("an answer").outcome
    }

    fn is_blocked(&self, table: TableIndex) -> bool {
        self.sink.is_blocked("otlp_traces", 0, table)
    }

    fn retries(&self, class: &str) -> u64 {
        let line = format!("millrace_insert_retries_total{{class=\"{class}\"}}");
        self.metric(&line).unwrap_or(0)
    }

    /// Returns the value of one series.
    fn metric(&self, series: &str) -> Option<u64> {
        let text = self.telemetry.render().unwrap();
        text.lines().find_map(|line| line.strip_prefix(series)?.trim().parse().ok())
    }
}

/// Scenario: one request as protobuf, in JSON, and as the list of its groups in JSON, as topics of
/// other writers may hold it; then truncated JSON. Guarantee: the same rows, byte for byte; the
/// truncated one is refused as JSON and leaves nothing behind.
#[test]
fn a_message_in_json_becomes_the_rows_of_its_protobuf() {
    let server = FakeServer::start([]);
    let fixture = Fixture::new(&[&server]);
    let span = |n: u8| {
        format!(
            r#"{{"traceId":"{}","spanId":"{}","name":"span {}","startTimeUnixNano":"{}",
            "endTimeUnixNano":"{}"}}"#,
            "07".repeat(16),
            format!("{n:02x}").repeat(8),
            n - 1,
            20_000 * DAY + 5,
            20_000 * DAY + 9,
        )
    };
    let spans = [span(1), span(2), span(3)].join(",");
    let groups = format!(r#"[{{"scopeSpans":[{{"spans":[{spans}]}}]}}]"#);
    let wanted = fixture.blocks(&[20_000, 20_000, 20_000]);
    let mut encoder = fixture.sink.new_encoder(Signal::Traces);
    for json in [format!(r#"{{"resourceSpans":{groups}}}"#), groups] {
        assert_eq!(encoder.append(json.as_bytes()).unwrap().records, 3);
        let refused = encoder.append(&json.as_bytes()[..json.len() - 1]).unwrap_err();
        assert_eq!(refused.reason, "json", "{}", refused.detail);
        assert_eq!(encoder.row_count(), 3);
        let found = encoder.take_blocks();
        let bodies = [&found, &wanted].map(|blocks| blocks[0].body.to_vec());
        assert_eq!((found.len(), found[0].rows), (1, 3));
        assert_eq!(bodies[0], bodies[1]);
    }
}

/// Scenario: a message of three groups, the middle one truncated, as protobuf and in JSON (there
/// with records on too many days). Guarantee: the others are accepted; the excluded one is returned
/// as a separate message, which is refused again; a message of bad groups only is refused as it is.
#[test]
fn bad_groups_of_a_message_are_given_back_as_one_message() {
    let server = FakeServer::start([]);
    let fixture = Fixture::new(&[&server]);
    let mut encoder = fixture.sink.new_encoder(Signal::Traces);
    let good = request(&[20_000, 20_000, 20_000]);
    let bad = [0x0a, 4, 0x12, 9, 0x12, 7];
    let taken = encoder.append_groups(&[&good, &bad[..], &good].concat(), &TimeRange::ALL);
    let refused = taken.refused.unwrap();
    assert_eq!((taken.records, refused.rejection.reason), (6, "truncated"));
    assert_eq!(refused.payload.as_deref(), Some(&bad[..]));
    let again = encoder.append_groups(&bad, &TimeRange::ALL);
    assert_eq!((again.records, again.refused.unwrap().payload), (0, None));
    let spans = |days: std::ops::Range<u64>| {
        let times = days.map(|day| format!(r#"{{"startTimeUnixNano":"{}"}}"#, day * DAY));
        let spans = times.collect::<Vec<_>>().join(",");
        format!(r#"{{"scopeSpans":[{{"spans":[{spans}]}}]}}"#)
    };
    let json = format!(r#"{{"resourceSpans":[{},{}]}}"#, spans(0..101), spans(0..1));
    let taken = encoder.append_groups(json.as_bytes(), &TimeRange::ALL);
    let refused = taken.refused.unwrap();
    assert_eq!((taken.records, refused.rejection.reason), (1, "too_many_days"));
    assert_eq!(encoder.row_count(), 7);
    let again = encoder.append_groups(&refused.payload.unwrap(), &TimeRange::ALL);
    assert_eq!((again.records, again.refused.unwrap().rejection.reason), (0, "too_many_days"));
}

/// Scenario: one insert. Guarantee: settings are explicit, the token names its origin, the body is
/// the block, and credentials are in headers, not in the URL.
#[test]
fn an_insert_says_everything_it_relies_on() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        SecretFile::new(path).unwrap()
    };
    let server = FakeServer::start([Reply::Wrote(3)]);
    let mut fixture = Fixture::with(vec![server.url()], |exporter| {
        let (username_file, password_file) = (file("user", "writer\n"), file("key", "hunter2\n"));
        exporter.credentials = Some(Credentials {
            username_file: Some(username_file),
            password_file: Some(password_file),
            ..Credentials::default()
        });
    });
    let body = fixture.insert(3).block.body.to_vec();
    assert_eq!(fixture.store(3), DeliveryOutcome::Stored);
    let insert = &server.inserts()[0];
    for (name, value) in [
        ("async_insert", "0"),
        ("wait_end_of_query", "1"),
        ("decompress", "1"),
        ("insert_deduplicate", "1"),
        ("deduplicate_blocks_in_dependent_materialized_views", "1"),
        ("min_insert_block_size_rows", "1048449"),
        ("min_insert_block_size_bytes", "0"),
        ("timeout_overflow_mode", "throw"),
    ] {
        assert_eq!(insert.parameter(name), Some(value), "{name}");
    }
    let token = insert.parameter("insert_deduplication_token").unwrap();
    let expected =
        "millrace:2:gateway:otlp_traces:3:100-199:0000001f:1700000000000:otel.otel_traces:20000.0";
    assert_eq!(token, expected.replace(':', "%3A"));
    let query = insert.parameter("query").unwrap();
    assert!(query.starts_with("INSERT%20INTO%20%60otel%60.%60otel_traces%60"), "{query}");
    assert!(query.ends_with("FORMAT%20Native"));
    assert_eq!(insert.body, body);
    assert_eq!(insert.header("x-clickhouse-user"), Some("writer"));
    assert_eq!(insert.header("x-clickhouse-key"), Some("hunter2"));
    assert!(!insert.target.contains("hunter2"));
    assert_eq!(fixture.budget.used_bytes(), 0);
}

/// Scenario: every case in which it is unknown whether the rows are stored. Guarantee: the same
/// bytes with the same token again, until it is known.
#[test]
fn unknown_outcomes_are_repeated_with_the_same_bytes_and_token() {
    let script = [
        Reply::Cut,
        Reply::CutMidway,
        Reply::Hang,
        Reply::Late(319),
        Reply::Wrote(2),
        Reply::Proxy(502),
        Reply::Exception(500, 242),
    ];
    let server = FakeServer::start(script.clone());
    let mut fixture = Fixture::new(&[&server]);
    assert_eq!(fixture.store(0), DeliveryOutcome::Stored);
    let inserts = server.inserts();
    assert_eq!(inserts.len(), script.len() + 1);
    for insert in &inserts {
        assert_eq!(insert.body, inserts[0].body);
        assert_eq!(insert.target, inserts[0].target);
    }
    // Two of them are coordination's: they count under its name, and are sent like the others.
    assert_eq!(fixture.retries("coordination"), 2);
    assert_eq!(fixture.retries("retry_same"), script.len() as u64 - 2);
}

/// Scenario: an overloaded server. Guarantee: it gets no insert for at least a second.
#[test]
fn an_overloaded_server_is_given_time() {
    let server = FakeServer::start([Reply::Exception(500, 252)]);
    let mut fixture = Fixture::new(&[&server]);
    let started = Instant::now();
    assert_eq!(fixture.store(0), DeliveryOutcome::Stored);
    assert!(started.elapsed() >= Duration::from_secs(1));
    assert_eq!(fixture.retries("slow_down"), 1);
}

/// Scenario: two shards of two servers, where the first of each is down; inserts of many
/// partitions. Guarantee: all are stored, each by the second server of its partition's shard, and a
/// partition always uses the same one.
#[test]
fn a_partition_fails_over_within_its_shard() {
    let away = |server: FakeServer| server.url();
    let [first, second] = [FakeServer::start([]), FakeServer::start([])];
    let gone = [away(FakeServer::start([])), away(FakeServer::start([]))];
    let urls = vec![gone[0].clone(), first.url(), gone[1].clone(), second.url()];
    let mut fixture = Fixture::with(urls, |exporter| exporter.shards = 2);
    let mut came = Vec::new();
    for partition in (0..12).chain(0..12) {
        let before = (first.inserts().len(), second.inserts().len());
        assert_eq!(fixture.store(partition), DeliveryOutcome::Stored);
        let after = (first.inserts().len(), second.inserts().len());
        assert_eq!(before.0 + before.1 + 1, after.0 + after.1, "stored by one server");
        came.push(after.0 > before.0);
    }
    assert_eq!(came[..12], came[12..]);
    assert!(came.contains(&true) && came.contains(&false), "both shards have partitions");
    eventually("readiness by one server of each shard", || fixture.readiness.is_ready());
}

/// Scenario: the server's disk is full, reported before and behind a success, and then has space.
/// Guarantee: it gets fewer and later inserts, with the same bytes and token, until it accepts the
/// rows; no row counts as bad, and nothing waits for a person.
#[test]
fn a_server_without_room_on_its_disk_gets_the_same_insert_later() {
    let server = FakeServer::start([Reply::Exception(500, 243), Reply::Late(243)]);
    let mut fixture = Fixture::new(&[&server]);
    let completion = fixture.answers.open_part().unwrap();
    fixture.sink.submit(fixture.insert(0), completion).unwrap();
    eventually("fewer inserts at once", || fixture.metric(ALLOWED) == Some(1));
    let table = fixture.insert(0).block.table;
    eventually("held back", || fixture.is_blocked(table));
    assert!(fixture.readiness.is_ready());
    assert_eq!(fixture.answers.next_within(PATIENCE).unwrap().outcome, DeliveryOutcome::Stored);
    assert!(!fixture.is_blocked(table));
    let inserts = server.inserts();
    assert_eq!(inserts.len(), 3);
    for insert in &inserts {
        assert_eq!((&insert.body, &insert.target), (&inserts[0].body, &inserts[0].target));
    }
    assert_eq!((fixture.retries("slow_down"), fixture.retries("bad_rows")), (2, 0));
}

/// Scenario: the rows are at fault. Guarantee: no retry, and the reason is returned.
#[test]
fn bad_rows_are_handed_back_at_once() {
    let server = FakeServer::start([Reply::Exception(400, 117)]);
    let mut fixture = Fixture::new(&[&server]);
    let DeliveryOutcome::Rejected(rejection) = fixture.store(0) else { panic!("not rejected") };
    assert_eq!(rejection.reason, "refused_by_clickhouse");
    assert!(rejection.detail.starts_with("code 117: "), "{}", rejection.detail);
    assert_eq!(server.inserts().len(), 1);
}

/// Scenario: a body that can't be read, once and permanently. Guarantee: once is retried; three
/// times are bad rows.
#[test]
fn unreadable_bytes_are_tried_again_before_they_are_bad() {
    let server = FakeServer::start([Reply::Exception(400, 33)]);
    let mut fixture = Fixture::new(&[&server]);
    assert_eq!(fixture.store(0), DeliveryOutcome::Stored);
    let server = FakeServer::start(vec![Reply::Exception(400, 33); 3]);
    let mut fixture = Fixture::new(&[&server]);
    let DeliveryOutcome::Rejected(rejection) = fixture.store(0) else { panic!("not rejected") };
    assert_eq!(rejection.reason, "schema_mismatch");
}

/// Scenario: the table is missing, then created. Guarantee: the sink is not ready, with the reason,
/// until then; the insert is stored in the end, and the sink is ready again.
#[test]
fn a_missing_table_stops_the_insert_and_not_the_process() {
    let server = FakeServer::start([Reply::Exception(404, 60), Reply::Exception(404, 60)]);
    let mut fixture = Fixture::new(&[&server]);
    eventually("ready", || fixture.readiness.is_ready());
    let completion = fixture.answers.open_part().unwrap();
    fixture.sink.submit(fixture.insert(0), completion).unwrap();
    eventually("not ready", || !fixture.readiness.is_ready());
    let reasons = fixture.readiness.reasons();
    assert_eq!(reasons, ["clickhouse: otel.otel_traces: unknown table (code 60)"]);
    let answer = fixture.answers.next_within(PATIENCE).unwrap();
    assert_eq!(answer.outcome, DeliveryOutcome::Stored);
    eventually("ready again", || fixture.readiness.is_ready());
}

/// Scenario: one insert at a time; one table is missing permanently, another exists. Guarantee: the
/// first waits without blocking the other, and the sink names the blocked table.
#[test]
fn a_missing_table_is_in_nobody_elses_way() {
    let server = FakeServer::start([Reply::Exception(404, 60)]);
    let mut fixture = Fixture::with(vec![server.url()], |exporter| {
        exporter.max_inserts_in_flight = 1;
    });
    let waiting = fixture.answers.open_part().unwrap();
    let waiting_part = waiting.part();
    let insert = fixture.insert(0);
    let table = insert.block.table;
    fixture.sink.submit(insert, waiting).unwrap();
    eventually("blocked", || fixture.is_blocked(table));
    let mut other = fixture.insert(1);
    other.block.table = TableIndex(2);
    assert!(!fixture.is_blocked(other.block.table));
    let mut completion = fixture.answers.open_part().unwrap();
    let part = completion.part();
    let deadline = Instant::now() + PATIENCE;
    // The slot is freed a moment after the table is known to be blocked.
    while let Err(back) = fixture.sink.submit(other, completion) {
        assert!(Instant::now() < deadline);
        (other, completion) = (back.work, back.completion);
    }
    let first = fixture.answers.next_within(PATIENCE).unwrap();
    assert_eq!((first.part, first.outcome), (part, DeliveryOutcome::Stored));
    let second = fixture.answers.next_within(PATIENCE).unwrap();
    assert_eq!((second.part, second.outcome), (waiting_part, DeliveryOutcome::Stored));
    assert!(!fixture.is_blocked(table));
}

/// Scenario: the password changes under a running process. Guarantee: it is read again.
#[test]
fn a_rotated_password_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let (user, key) = (folder.path().join("user"), folder.path().join("key"));
    std::fs::write(&user, "writer").unwrap();
    std::fs::write(&key, "old").unwrap();
    let server = FakeServer::start([Reply::Exception(403, 516)]);
    let mut fixture = Fixture::with(vec![server.url()], |exporter| {
        exporter.credentials = Some(Credentials {
            username_file: Some(SecretFile::new(&user).unwrap()),
            password_file: Some(SecretFile::new(&key).unwrap()),
            ..Credentials::default()
        });
    });
    std::fs::write(&key, "new").unwrap();
    assert_eq!(fixture.store(0), DeliveryOutcome::Stored);
    let keys: Vec<_> =
        server.inserts().iter().map(|i| i.header("x-clickhouse-key").unwrap().to_owned()).collect();
    assert_eq!(keys, ["old", "new"]);
}

/// Scenario: one of two servers is down. Guarantee: the other stores every partition's insert; with
/// both up, a partition always uses the same one.
#[test]
fn an_insert_moves_to_a_server_that_answers_and_else_stays() {
    let (one, two) = (FakeServer::start([]), FakeServer::start([]));
    let mut fixture = Fixture::new(&[&one, &two]);
    for _ in 0..2 {
        for partition in 0..8 {
            assert_eq!(fixture.store(partition), DeliveryOutcome::Stored);
        }
    }
    let tokens = |server: &FakeServer| {
        let inserts = server.inserts();
        let token = |i: &fake_server::Request| {
            i.parameter("insert_deduplication_token").unwrap().to_owned()
        };
        inserts.iter().map(token).collect::<Vec<_>>()
    };
    let (first, second) = (tokens(&one), tokens(&two));
    assert_eq!(first.len() + second.len(), 16);
    assert!(!first.is_empty() && !second.is_empty(), "both have work");
    assert!(first.iter().all(|token| !second.contains(token)), "a partition stays");

    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let here = FakeServer::start([]);
    let mut fixture = Fixture::with(vec![format!("http://{gone}"), here.url()], |_| {});
    for partition in 0..4 {
        assert_eq!(fixture.store(partition), DeliveryOutcome::Stored);
    }
    assert_eq!(here.inserts().len(), 4);
}

/// Scenario: more inserts than may be in flight, then the end of the process. Guarantee: the
/// surplus is returned complete; inserts in flight are abandoned at the deadline, not before.
#[test]
fn a_full_sink_hands_back_and_a_deadline_gives_up() {
    let server = FakeServer::start(vec![Reply::Hang; 100]);
    let mut fixture = Fixture::with(vec![server.url()], |exporter| {
        exporter.insert_timeout_seconds = 60;
    });
    for partition in 0..2 {
        let completion = fixture.answers.open_part().unwrap();
        fixture.sink.submit(fixture.insert(partition), completion).unwrap();
    }
    let completion = fixture.answers.open_part().unwrap();
    let part = completion.part();
    let back = fixture.sink.submit(fixture.insert(2), completion).unwrap_err();
    assert_eq!((back.work.origin.partition, back.completion.part()), (2, part));
    back.completion.finish_with(DeliveryOutcome::Stored);
    assert_eq!(fixture.answers.next_within(PATIENCE).unwrap().part, part);
    eventually("both are sent", || server.inserts().len() == 2);
    fixture.drain.begin();
    for _ in 0..2 {
        let answer = fixture.answers.next_within(PATIENCE).unwrap();
        assert_eq!(answer.outcome, DeliveryOutcome::Abandoned);
    }
}

/// Scenario: the server has too little memory for an insert of many messages, three times.
/// Guarantee: always the same bytes under the same token, with waits in between and fewer inserts
/// at once; then the insert is returned with its own reason, so that its messages are stored in
/// smaller ones.
#[test]
fn an_insert_that_is_too_large_for_the_servers_memory_is_given_back() {
    let server = FakeServer::start(std::iter::repeat_n(Reply::Exception(500, 241), 3));
    let mut fixture = Fixture::new(&[&server]);
    let DeliveryOutcome::Rejected(rejection) = fixture.store(1) else { panic!("not given back") };
    assert_eq!(rejection.reason, "too_much_for_clickhouse");
    let inserts = server.inserts();
    assert_eq!((inserts.len(), fixture.retries("slow_down")), (3, 2));
    let token = |at: usize| inserts[at].parameter("insert_deduplication_token").unwrap();
    assert!((1..3).all(|at| token(at) == token(0) && inserts[at].body == inserts[0].body));
    assert_eq!(fixture.metric(ALLOWED), Some(1));
}

/// Scenario: spans of two days, then bytes that aren't OTLP. Guarantee: one block per day, in
/// order; the bytes are refused with a reason and leave the encoder unchanged.
#[test]
fn blocks_hold_one_day_each_and_broken_messages_leave_no_trace() {
    let server = FakeServer::start([]);
    let fixture = Fixture::new(&[&server]);
    let mut encoder = fixture.sink.new_encoder(Signal::Traces);
    assert_eq!(encoder.append(&request(&[20_001, 20_000, 20_001])).unwrap().records, 3);
    let rejection = encoder.append(&[0x0a, 0xff]).unwrap_err();
    assert_eq!(rejection.reason, "truncated");
    assert_eq!(encoder.row_count(), 3);
    let blocks = encoder.take_blocks();
    let days: Vec<_> = blocks.iter().map(|block| (block.slice.day, block.rows)).collect();
    assert_eq!(days, [(20_000, 1), (20_001, 2)]);
    assert_eq!(blocks[0].table_name.as_ref(), "otel.otel_traces");
    assert_eq!(encoder.row_count(), 0);
    assert!(encoder.take_blocks().is_empty());
}

/// Scenario: a user of a client certificate, and a token. Guarantee: an insert has ClickHouse's
/// headers for each, and no others.
#[test]
fn certificates_and_tokens_have_their_headers() {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "a.b.c\n").unwrap();
    let certified = Credentials { username: Some("writer".to_owned()), ..Credentials::default() };
    let token_file = Some(SecretFile::new(&token).unwrap());
    let by_token = Credentials { token_file, ..Credentials::default() };
    let names = [
        "x-clickhouse-user",
        "x-clickhouse-key",
        "x-clickhouse-ssl-certificate-auth",
        "authorization",
    ];
    for (credentials, expected) in [
        (certified, [Some("writer"), None, Some("on"), None]),
        (by_token, [None, None, None, Some("Bearer a.b.c")]),
    ] {
        let server = FakeServer::start([Reply::Wrote(3)]);
        let mut fixture = Fixture::with(vec![server.url()], |exporter| {
            exporter.credentials = Some(credentials);
        });
        assert_eq!(fixture.store(3), DeliveryOutcome::Stored);
        let inserts = server.inserts();
        assert_eq!(names.map(|name| inserts[0].header(name)), expected);
    }
}
