//! Tests of `page`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use millrace_pipeline::figures::Figure;

use super::*;

fn figure(name: &str, labels: &[(&str, &str)], value: f64) -> Figure {
    let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Figure { name: name.to_owned(), labels: labels.collect(), value }
}

fn taken(records: f64) -> MetricsSnapshot {
    let signal = [("signal", "traces")];
    MetricsSnapshot::from_iter([
        figure("millrace_records_in_total", &signal, records),
        figure("millrace_records_out_total", &signal, records / 2.0),
        figure("millrace_produce_duration_seconds_sum", &[], records / 1_000.0),
        figure("millrace_produce_duration_seconds_count", &[], records / 100.0),
    ])
}

fn shown(now: &MetricsSnapshot, earlier: Option<Earlier>, state: ProcessState) -> String {
    let path = RecordPath { kind: "edge", from: "otlp".to_owned(), to: "Kafka" };
    let uptime = Duration::from_secs(3_700);
    html::render_page(&View { version: "1.2.3", path: &path, state, now, earlier, uptime })
}

/// Scenario: two thousand records arrived in ten seconds, of ten thousand in all. Guarantee: rates,
/// totals and the mean answer time are of those ten seconds; a healthy process is shown as such.
#[test]
fn rates_are_of_the_time_between_two_samples() {
    let earlier = Earlier { figures: taken(8_000.0), age: Duration::from_secs(10) };
    let page = shown(&taken(10_000.0), Some(earlier), ProcessState::Ready(Vec::new()));
    for part in [
        "200 records/s",
        "100 records/s",
        "10,000",
        "answers in 100 ms",
        "means of the last 10 s",
        "None since the start.",
        "running for 1 h 1 min",
        "<strong>Ready</strong>",
        "1.2.3",
    ] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    let first = shown(&taken(10_000.0), None, ProcessState::Ready(Vec::new()));
    assert!(!first.contains("records/s"), "{first}");
}

/// Scenario: a reason is a server's answer with markup; a label has some too. Guarantee: the page
/// escapes both.
#[test]
fn what_others_say_is_no_markup() {
    let lag = [("partition", "0"), ("topic", "<b>&\"'")];
    let now = MetricsSnapshot::from_iter([figure("millrace_consumer_lag_messages", &lag, 7.0)]);
    let page =
        shown(&now, None, ProcessState::NotReady(vec!["sink: <script>alert(1)</script>".into()]));
    assert!(page.contains("sink: &lt;script&gt;alert(1)&lt;/script&gt;"), "{page}");
    assert!(page.contains("&lt;b&gt;&amp;&quot;&#39;"), "{page}");
    assert!(!page.contains("<script") && !page.contains("<b>"), "{page}");
}

/// Scenario: refusals for two reasons, and a counter at zero. Guarantee: what happened is listed by
/// reason, and nothing else.
#[test]
fn only_troubles_that_happened_are_listed() {
    let of = |reason| [("reason", reason), ("signal", "logs")];
    let name = "millrace_records_refused_total";
    let now = MetricsSnapshot::from_iter([
        figure(name, &of("full"), 1_234_567.0),
        figure(name, &of("malformed"), 0.0),
        figure("millrace_files_lost_bytes_total", &[], 0.0),
    ]);
    let page = shown(&now, None, ProcessState::Draining);
    assert!(page.contains("1,234,567") && page.contains("full, logs"), "{page}");
    assert!(!page.contains("malformed") && !page.contains("deleted unread"), "{page}");
    assert!(page.contains("Draining"), "{page}");
}

/// Scenario: 30 partitions. Guarantee: the 20 whose records have waited longest are shown, longest
/// first.
#[test]
fn the_oldest_partitions_are_shown() {
    let of = |partition: usize, name, value| {
        let partition = partition.to_string();
        figure(name, &[("partition", partition.as_str()), ("topic", "t")], value)
    };
    let both = |at: usize| {
        [
            of(at, "millrace_consumer_lag_messages", 1.0),
            of(at, "millrace_consumer_lag_seconds", at as f64),
        ]
    };
    let page = shown(&(0..30).flat_map(both).collect(), None, ProcessState::Ready(Vec::new()));
    assert!(page.contains("Lag: 20 of 30 partitions"), "{page}");
    assert!(page.contains(">29.0<") && page.contains(">10.0<") && !page.contains(">9.0<"));
    assert!(page.find(">29.0<").unwrap() < page.find(">10.0<").unwrap());
}

/// Scenario: pages at once, after a second, and after an hour. Guarantee: a rate's base is between
/// a second and a minute old.
#[test]
fn rates_are_counted_from_neither_young_nor_old_samples() {
    let begin = Instant::now();
    let mut samples = Samples::default();
    let mut at = |millis: u64| {
        let figures = taken(millis as f64);
        samples
            .add_sample(begin + Duration::from_millis(millis), figures)
            .map(|it| it.age.as_millis())
    };
    assert_eq!(at(0), None);
    assert_eq!(at(500), None);
    assert_eq!(at(1_500), Some(1_500));
    assert_eq!(at(2_000), Some(2_000));
    assert_eq!(at(2_600), Some(1_100));
    assert_eq!(at(3_600_000), None);
    assert_eq!(at(3_601_500), Some(1_500));
}
