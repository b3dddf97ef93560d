//! The receiver of scraped targets, against targets on loopback that answer well and badly.

mod chaos;
mod cost;
mod discovery;
mod killed;
mod rig;
mod share;

use std::io::Write;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use millrace_config::{Authorization, ByteSize, SecretFile};
use millrace_source_prometheus::{StartError, TargetState};
use rig::{Answer, Rig, Target, job};

const BUDGET: u64 = 8 << 20;

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

fn packed(bytes: &[u8]) -> Answer {
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-encoding: gzip\r\n\
         content-length: {}\r\n\r\n",
        bytes.len()
    );
    Answer::Bytes([head.as_bytes(), bytes].concat())
}

/// Scenario: a target that keeps connections; one that closes each at the moment of its third
/// request; one that closes it behind each answer. Guarantee: the first has one connection; no
/// scrape of any fails for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_is_kept_from_scrape_to_scrape() {
    let mut targets = Vec::new();
    for requests in [usize::MAX, 2, 0] {
        let target = Target::new(Answer::text("a 1\n")).await;
        target.keep(requests);
        targets.push(target);
    }
    let rig = Rig::start(vec![job("shop", &targets.iter().collect::<Vec<_>>())], 64 << 20);
    rig.until(|rig| targets.iter().all(|target| rig.values(target, "up").len() >= 5)).await;
    for target in &targets {
        assert!(rig.values(target, "up").iter().all(|up| *up == 1.0));
    }
    let connections = targets.iter().map(|target| target.scrapes().connections);
    let scraped: Vec<_> = targets.iter().map(|target| target.scrapes().began.len()).collect();
    let connections: Vec<_> = connections.collect();
    assert_eq!(connections[0], 1);
    // Two scrapes by each connection, the last of which may have had one.
    assert!(connections[1] >= 2 && connections[1] <= scraped[1].div_ceil(2), "{connections:?}");
    assert!(connections[2] >= scraped[2], "{connections:?}, {scraped:?}");
    assert!(rig.budget.used_bytes() >= 40 * 1024, "it is reserved");
    rig.stop().await;
}

/// Scenario: a target that changes its format, its compression and its values from scrape to scrape.
/// Guarantee: each body is read as it is, with the scrape's own series; the request says what is
/// wanted.
#[tokio::test]
async fn targets_are_scraped_in_each_format() {
    let target = Target::new(Answer::text("a 1\n")).await;
    let rig = Rig::start(vec![job("shop", &[&target])], BUDGET);
    rig.until(|rig| rig.values(&target, "a").contains(&1.0)).await;
    target.answer(Answer::ok("application/openmetrics-text; version=1.0.0", "a 2\n# EOF\n"));
    rig.until(|rig| rig.values(&target, "a").contains(&2.0)).await;
    // Longer than what is decompressed at once, and than a step.
    let lines: String =
        (0..5000_u64).map(|n| format!("m{{n=\"{:x}\"}} 1\n", n * 0x9e37_79b9)).collect();
    target.answer(packed(&gzip(&format!("{lines}a 3\n"))));
    rig.until(|rig| rig.values(&target, "a").contains(&3.0)).await;
    assert!(rig.values(&target, "m").len() >= 5000);
    let chunked =
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\na \r\n2\r\n4\n\r\n0\r\n\r\n";
    target.answer(Answer::head(chunked));
    rig.until(|rig| rig.values(&target, "a").contains(&4.0)).await;
    assert!(rig.values(&target, "up").iter().all(|up| *up == 1.0));
    assert_eq!(rig.values(&target, "scrape_series_added")[..2], [1.0, 0.0]);
    assert_eq!(rig.metric("millrace_scrape_targets_up"), 1);
    let asked = target.asked()[0].to_lowercase();
    assert!(asked.starts_with("get /metrics http/1.1\r\n"), "{asked}");
    for header in [
        "application/openmetrics-text;version=1.0.0",
        "text/plain;version=0.0.4",
        "accept-encoding: gzip",
        "x-prometheus-scrape-timeout-seconds: 1",
    ] {
        assert!(asked.contains(header), "{asked}");
    }
    assert!(!asked.contains("protobuf"), "{asked}");
    rig.stop().await;
}

/// Scenario: a job that wants native histograms, and a target that answers in protobuf. Guarantee:
/// the request asks for protobuf before all else, and the body is read.
#[tokio::test]
async fn protobuf_is_asked_for_where_native_histograms_are_wanted() {
    // A family `a`, a gauge, with one metric of 7.
    let body = b"\x12\x0a\x01a\x18\x01\x22\x0b\x12\x09\x09\x00\x00\x00\x00\x00\x00\x1c\x40";
    let kind = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; \
                encoding=delimited";
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let target = Target::new(Answer::Bytes([head.as_bytes(), &body[..]].concat())).await;
    let mut scraped = job("shop", &[&target]);
    scraped.native_histograms = true;
    let rig = Rig::start(vec![scraped], BUDGET);
    rig.until(|rig| rig.values(&target, "a").contains(&7.0)).await;
    let asked = target.asked()[0].to_lowercase();
    let first = "accept: application/vnd.google.protobuf;proto=io.prometheus.client.metricfamily;\
                 encoding=delimited;escaping=allow-utf-8;q=0.7,application/openmetrics-text;";
    assert!(asked.contains(first), "{asked}");
    rig.stop().await;
}

/// Scenario: a target answers well, then in each bad way in turn, beside one that answers well.
/// Guarantee: it is down each time and its series gone once; the other one is scraped all the while.
/// Slow: 13 answers are scraped one after the other, one a second.
#[tokio::test]
async fn bad_answers_are_failures_of_that_target_alone() {
    let good = Target::new(Answer::text("b 1\n")).await;
    let bad = Target::new(Answer::text("a 1\n")).await;
    let mut scraped = job("shop", &[&good, &bad]);
    scraped.limits.body_bytes = ByteSize::kib(64);
    let rig = Rig::start(vec![scraped], BUDGET);
    let torn = gzip(&"a 5\n".repeat(1000));
    let answers = [
        Answer::head("HTTP/1.1 500 Internal Server Error\r\ncontent-length: 4\r\n\r\na 5\n"),
        Answer::head("HTTP/1.1 302 Found\r\nlocation: /other\r\ncontent-length: 0\r\n\r\n"),
        Answer::head(
            "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 9\r\n\r\na 5\n",
        ),
        Answer::head("no HTTP at all\r\n\r\n"),
        Answer::ok("text/html", "<p>a 5</p>"),
        Answer::ok("text/plain", "a 5\na{ 1\n"),
        Answer::ok("application/openmetrics-text", "a 5\n"),
        packed(&torn[..torn.len() - 9]),
        Answer::Hang(Vec::new()),
        Answer::Hang(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\na 5\n".to_vec()),
        Answer::Endless,
    ];
    rig.until(|rig| rig.values(&bad, "up").contains(&1.0)).await;
    for (turn, answer) in answers.iter().enumerate() {
        let before = rig.values(&bad, "up").iter().filter(|up| **up == 0.0).count();
        bad.answer(answer.clone());
        rig.until(|rig| rig.values(&bad, "up").iter().filter(|up| **up == 0.0).count() > before)
            .await;
        assert!(rig.metric("millrace_scrapes_failed_total") > turn as u64);
    }
    assert!(!rig.values(&bad, "a").contains(&5.0), "nothing of a broken body is taken");
    let gone =
        |point: &rig::Came| point.instance == bad.name() && point.name == "a" && point.is_gone;
    assert_eq!(rig.came().into_iter().filter(gone).count(), 1);
    assert_eq!(rig.metric("millrace_scrape_targets_up"), 1);
    let (ups, scrapes) = (rig.values(&good, "up"), rig.values(&bad, "up").len());
    assert!(ups.iter().all(|up| *up == 1.0) && ups.len() + 2 >= scrapes, "{} {scrapes}", ups.len());
    bad.answer(Answer::text("a 6\n"));
    rig.until(|rig| rig.values(&bad, "a").contains(&6.0)).await;
    rig.stop().await;
}

/// Scenario: a job with parameters, a token and redirects that it follows. Guarantee: the target is
/// asked with them, and scraped where it points to.
#[tokio::test]
async fn a_job_says_how_its_targets_are_asked() {
    let place = Target::new(Answer::text("a 1\n")).await;
    let location = format!("HTTP/1.1 307 T\r\nlocation: http://{}/x\r\n\r\n", place.name());
    let target = Target::new(Answer::head(&location)).await;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("token"), "t\n").unwrap();
    let mut scraped = job("shop", &[&target]);
    scraped.params = [("b c".to_owned(), vec!["d".to_owned()])].into();
    scraped.follow_redirects = true;
    scraped.authorization = Some(Authorization {
        r#type: "Token".into(),
        credentials_file: SecretFile::new(folder.path().join("token")).unwrap(),
    });
    let rig = Rig::start(vec![scraped], BUDGET);
    rig.until(|rig| rig.values(&target, "a").contains(&1.0)).await;
    let asked = target.asked()[0].clone();
    assert!(asked.starts_with("GET /metrics?b+c=d HTTP/1.1\r\n"), "{asked}");
    assert!(asked.contains("authorization: Token t\r\n"), "{asked}");
    assert!(!place.asked()[0].contains("authorization"), "{:?}", place.asked());
    rig.stop().await;
}

/// Scenario: nothing takes points for a while. Guarantee: scrapes are given up and counted, nothing
/// is queued; what went meanwhile is said to be gone afterwards.
#[tokio::test]
async fn scrapes_are_given_up_while_nothing_takes_them() {
    let target = Target::new(Answer::text("a 1\nb 1\n")).await;
    let rig = Rig::start(vec![job("shop", &[&target])], BUDGET);
    rig.until(|rig| rig.values(&target, "b").contains(&1.0)).await;
    rig.refuse(true);
    target.answer(Answer::text("a 2\n"));
    rig.until(|rig| rig.metric("millrace_scrapes_skipped_total") >= 2).await;
    assert_eq!(rig.board.targets_view(0, 1).targets[0].last.state, TargetState::NotAccepted);
    target.answer(Answer::text("a 3\n"));
    let asked = target.asked().len();
    rig.until(|_| target.asked().len() > asked + 1).await;
    rig.refuse(false);
    rig.until(|rig| rig.values(&target, "a").contains(&3.0)).await;
    assert!(!rig.values(&target, "a").contains(&2.0));
    assert_eq!(rig.came().iter().filter(|point| point.name == "b" && point.is_gone).count(), 1);
    rig.stop().await;
}

/// Scenario: a target whose body comes at once and takes several requests, each of which Kafka
/// takes most of the target's time-out to acknowledge. Guarantee: the target is up and its series
/// stay; the duration of its scrapes is its own, within its time-out. Slow: two scrapes, 6 s from
/// each other, take several requests of 0.8 s.
#[tokio::test]
async fn a_slow_exporter_is_no_fault_of_the_target() {
    let lines: String = (0..20_000)
        .map(|n| format!("m{{number=\"{n}\",x=\"{}\"}} {n}\n", "x".repeat(60)))
        .collect();
    let target = Target::new(Answer::text(&lines)).await;
    let mut scraped = job("shop", &[&target]);
    (scraped.interval_seconds, scraped.timeout_seconds) = (6, 2);
    let rig = Rig::start(vec![scraped], 64 << 20);
    rig.delay(Duration::from_millis(800));
    rig.until(|rig| rig.values(&target, "up").len() >= 2).await;
    assert!(rig.tries() >= 8, "{} requests", rig.tries());
    assert!(rig.values(&target, "up").iter().all(|up| *up == 1.0));
    assert!(!rig.came().iter().any(|point| point.is_gone));
    let durations = rig.values(&target, "scrape_duration_seconds");
    assert!(durations.iter().all(|seconds| *seconds < 2.0), "{durations:?}");
    rig.stop().await;
}

/// Scenario: a body of 8 MB with 100,000 series under a budget of 64 MiB; the same under one of 2
/// MiB. Guarantee: the first is scraped whole; of the second no more is held than the budget has, it
/// is given up and counted. Slow: 100,000 series are read, and the first scrape may come ten
/// seconds after the start.
#[tokio::test]
async fn a_large_body_stays_inside_the_budget() {
    let lines: String = (0..100_000)
        .map(|n| {
            format!("metric_with_a_long_name{{number=\"{n}\",label=\"{}\"}} {n}\n", "x".repeat(24))
        })
        .collect();
    let target = Target::new(Answer::text(&lines)).await;
    let mut scraped = job("shop", &[&target]);
    (scraped.interval_seconds, scraped.timeout_seconds) = (10, 10);
    let small_bytes = 2 << 20;
    let small = Rig::start(vec![scraped.clone()], small_bytes);
    let large = Rig::start(vec![scraped], 64 << 20);
    small
        .until(|rig| {
            assert!(rig.budget.used_bytes() <= small_bytes);
            rig.metric("millrace_scrapes_skipped_total") > 0
        })
        .await;
    large.until(|rig| rig.metric("millrace_scrapes_total") > 0).await;
    assert_eq!(large.values(&target, "up"), [1.0]);
    assert_eq!(large.values(&target, "metric_with_a_long_name").len(), 100_000);
    assert_eq!(large.metric("millrace_scrape_series"), 100_000);
    assert!(small.values(&target, "up").is_empty());
    small.stop().await;
    large.stop().await;
}

/// Scenario: a target on loopback that isn't allowed; a budget too small. Guarantee: it is down and
/// never connected to; the start fails with what to do.
#[tokio::test]
async fn what_is_not_allowed_is_refused() {
    let target = Target::new(Answer::text("a 1\n")).await;
    let jobs = vec![job("shop", &[&target])];
    let rig = Rig::start_with(jobs.clone(), BUDGET, false).unwrap();
    rig.until(|rig| rig.values(&target, "up").contains(&0.0)).await;
    assert!(target.asked().is_empty());
    rig.stop().await;
    let small = Rig::start_with(jobs, 1024, true);
    assert!(matches!(small.err(), Some(StartError::SmallBudget { budget_bytes: 1024, .. })));
}
