//! Writes valid inputs for every fuzz target, to begin from: requests of all kinds, compressed
//! bodies, commit metadata, settings, names. The same ones every time.
//!
//! Takes a folder, makes one folder for each target in it, and prints a line of JSON for each:
//! `{"target": ..., "max_bytes": ...}`.
#![allow(clippy::print_stdout)]

#[path = "../../../collector/core/wire/tests/requests/mod.rs"]
mod requests;

#[allow(dead_code)]
#[path = "../../../collector/sources/prometheus/scrape/tests/families/mod.rs"]
mod families;
#[path = "parts/watched.rs"]
mod watched;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};
use flate2::Compression;
use flate2::write::GzEncoder;
use millrace_fuzz::TARGETS;
use proptest::strategy::{BoxedStrategy, Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use prost::Message;

/// Requests of each signal.
const REQUESTS: usize = 150;

fn main() -> Result<()> {
    let folder = std::env::args_os().nth(1).map(PathBuf::from).context("say where to")?;
    let mut seeds = requests()?;
    seeds.extend(compressed()?);
    seeds.extend(texts());
    seeds.insert("lines", lines());
    seeds.extend(watched::seeds());
    seeds.extend(scraped());
    seeds.extend(announced(&seeds));
    seeds.extend(tables());
    for target in TARGETS {
        let own = folder.join(target.name);
        fs::create_dir_all(&own).with_context(|| format!("cannot make {}", own.display()))?;
        let inputs = seeds.remove(target.name).with_context(|| format!("none for {target:?}"))?;
        for (index, input) in inputs.iter().enumerate() {
            fs::write(own.join(format!("seed-{index:03}")), input)?;
        }
        println!("{}", serde_json::json!({"target": target.name, "max_bytes": target.max_bytes}));
    }
    Ok(())
}

type Seeds = BTreeMap<&'static str, Vec<Vec<u8>>>;

fn requests() -> Result<Seeds> {
    let mut runner = TestRunner::deterministic();
    let traces = encoded(requests::traces());
    let logs = encoded(requests::logs());
    let metrics = encoded(requests::metrics());
    let mut seeds = Seeds::new();
    for (walk, columns, rules, strategy) in [
        ("walk_traces", "columns_traces", "rules_traces", traces),
        ("walk_logs", "columns_logs", "rules_logs", logs),
        ("walk_metrics", "columns_metrics", "rules_metrics", metrics),
    ] {
        let mut found = 0;
        while found < REQUESTS {
            let tree = strategy.new_tree(&mut runner).map_err(anyhow::Error::msg)?;
            let request = tree.current();
            if request.len() > 700 {
                continue;
            }
            // The first byte chooses what is done with the rest.
            let with = |control: usize| [&[control as u8][..], &request].concat();
            seeds.entry(walk).or_default().push(with(found * 7));
            seeds.entry(columns).or_default().push(with(found * 5));
            seeds.entry(rules).or_default().push(with(found));
            found += 1;
        }
    }
    Ok(seeds)
}

fn encoded<M: Message + std::fmt::Debug + 'static>(
    strategy: BoxedStrategy<M>,
) -> BoxedStrategy<Vec<u8>> {
    strategy.prop_map(|request| request.encode_to_vec()).boxed()
}

fn compressed() -> Result<Seeds> {
    let mut seeds = Seeds::new();
    let text = "telemetry, telemetry, telemetry; over and over again ".repeat(4);
    for plain in ["", "a", &text, &"\0".repeat(3000)] {
        for (control, level) in [(3, 1), (11, 6), (2, 9), (1, 1), (0, 1)] {
            let mut gzip = GzEncoder::new(vec![control], Compression::new(level));
            gzip.write_all(plain.as_bytes())?;
            seeds.entry("gzip").or_default().push(gzip.finish()?);
            let body = zstd::bulk::compress(plain.as_bytes(), i32::try_from(level)?)?;
            let twice = [&[control][..], &body, &body].concat();
            seeds.entry("zstd").or_default().extend([[&[control][..], &body].concat(), twice]);
        }
        // To be wrapped by the target itself.
        for control in [7, 15, 4, 6] {
            let input = [&[control][..], &plain.as_bytes()[..plain.len().min(400)]].concat();
            seeds.entry("gzip").or_default().push(input.clone());
            seeds.entry("zstd").or_default().push(input);
        }
    }
    Ok(seeds)
}

fn texts() -> Seeds {
    let bytes = |list: &[&str]| list.iter().map(|text| text.as_bytes().to_vec()).collect();
    let metadata = |offset: i64, text: &str| [&offset.to_le_bytes()[..], text.as_bytes()].concat();
    let many = format!("millrace:1:{}", vec!["0+1"; 102].join(","));
    Seeds::from([
        (
            "commit_metadata",
            vec![
                metadata(0, ""),
                metadata(7, "millrace:1:0+64,0+ed8,5+1"),
                metadata(1 << 60, "millrace:1:fffffffffffffff+1"),
                metadata(0, &many),
                metadata(0, "millrace:2:0+1"),
                metadata(7, "millrace:4::0+64@0,0+ed8@1,5+1@2"),
                metadata(
                    100,
                    "millrace:4:89abcdef:4+7@67;64-6e!1.10!ffffffff.4e20~4.1;f3c-ed8!7.8",
                ),
                metadata(0, "millrace:4::;20-20!1.1!2.1+"),
                metadata(5, "somebody else's"),
            ],
        ),
        ("json", json()),
        ("config_document", bytes(DOCUMENTS)),
        ("rules_text", bytes(RULES)),
        ("config_words", bytes(&["512Mi", "4KiB", "17", "otlp_traces", "group-1", "MILLRACE_X"])),
    ])
}

/// Statements and conditions; the first byte chooses the context.
const RULES: &[&str] = &[
    "Lset(attributes[\"a\"], \"b\") where attributes[\"c\"] == nil and severity_number >= 9",
    "Rdelete_matching_keys(attributes, \"^k8s[.]\")",
    "Skeep_keys(attributes, [\"a\", \"b\"])",
    "Treplace_all_patterns(attributes, \"value\", \"(a+)b\", \"$$1\")",
    "Lmerge_maps(attributes, ParseJSON(body), \"upsert\")",
    "Mset(name, Concat([name, \"total\"], \"_\")) where IsMatch(name, \".*s$\")",
    "Dset(attributes[\"x\"][0], 1 + 2 * -3 / 4.5)",
    "Ltruncate_all(attributes, 100)",
    "Lset(time_unix_nano, UnixNano(Time(body, \"%Y-%m-%dT%H:%M:%SZ\")))",
    "Eset(name, \"e\") where not (name == \"f\" or true)",
    "l(severity_number < SEVERITY_NUMBER_WARN or body == nil) and IsString(body)",
    "tstatus.code == STATUS_CODE_ERROR and attributes[\"http.route\"] == \"/\"",
    "mtype == METRIC_DATA_TYPE_GAUGE",
];

/// Requests with their headers, and answers with theirs.
fn announced(seeds: &Seeds) -> Seeds {
    let mut requests = Vec::new();
    let bodies = |name| seeds.get(name).into_iter().flatten().filter(|body| !body.is_empty());
    for (control, content_type, encoding, from) in [
        (0, "application/x-protobuf", "identity", "walk_traces"),
        (2, "application/x-protobuf;a=b", "", "walk_logs"),
        (1, "application/grpc", "", "walk_traces"),
        (5, "application/grpc+proto", "identity", "walk_metrics"),
        (0, "application/json; charset=utf-8", "identity", "json"),
        (0, "Application/JSON", "GZIP", "gzip"),
        (2, "application/x-protobuf", "zstd", "zstd"),
        (3, "application/grpc", "x-gzip", "gzip"),
        (1, "application/grpc", "zstd", "zstd"),
    ] {
        for body in bodies(from).take(6) {
            let head = format!("{content_type}\n{encoding}\n");
            requests.push([&[control][..], head.as_bytes(), &body[1..]].concat());
        }
    }
    let framed = b"application/grpc\ngzip\n\x00\x00\x00\x00\x02\x0a\x00";
    requests.push([&[0x81][..], framed].concat());
    let answer = |head: [u8; 6], text: &str| [&head[..], text.as_bytes()].concat();
    // Statuses are counted from 100: 100 is 200, 400 is 500.
    let answers = vec![
        answer([0, 100, 7, 0, 0, 7], "\n"),
        answer([0, 100, 7, 0, 0, 255], "{\"written_rows\":\"5\"}\n"),
        answer(
            [0, 100, 7, 0, 0, 0],
            "\n\n__exception__\nCode: 252. DB::Exception: Too many parts.",
        ),
        answer([1, 144, 7, 0, 0, 7], "\nCode: 60. DB::Exception: Unknown table (UNKNOWN_TABLE)"),
        answer([1, 144, 7, 1, 133, 0], "\n"),
        answer([1, 72, 7, 0, 241, 0], "\nCode: 241. DB::Exception: Memory limit"),
        answer([1, 147, 9, 0, 0, 255], "\n<html>Bad Gateway</html>"),
    ];
    Seeds::from([("otlp_request", requests), ("clickhouse_answer", answers)])
}

/// Declarations, servers' words, and names of custom resources.
fn tables() -> Seeds {
    let names = "otel\notel\n{cluster}\nall\n/clickhouse/tables/{shard}\n{replica}\ntiered\ncold\n\
                 7d\n1d12h\nservice\nservice.name\npod\nk8s.pod.name\nhttp.method";
    let mut statements = Vec::new();
    let mut observed = Vec::new();
    for index in 0..90_u8 {
        let control = [index, index.wrapping_mul(37), index.wrapping_mul(101)];
        statements.push([&control[..], names.as_bytes()].concat());
        let live = "MergeTree PARTITION BY toDate(Timestamp) ORDER BY (ServiceName, SpanName, \
                    toDateTime(Timestamp)) TTL toDateTime(Timestamp) + toIntervalDay(99) SETTINGS \
                    index_granularity = 8192, ttl_only_drop_parts = 1\ntoDate(Timestamp)\n\
                    ServiceName, SpanName, toDateTime(Timestamp)\nCREATE TABLE x\nmine\nString\n\
                    MATERIALIZED\nother`s\nLowCardinality(String)\n\nidx_trace_id\nidx_mine";
        let what = [index.wrapping_mul(73)];
        observed.push([&control[..], &what, live.as_bytes()].concat());
    }
    let words = [
        "6h",
        "512Mi",
        "500m",
        "kafka-0.kafka:9092",
        "https://ch-0.db:8443",
        "otlp_traces",
        "millrace-prod",
        "otel",
        "otel",
        "{cluster}",
        "/clickhouse/tables/{shard}",
        "{replica}",
        "clickhouse-user",
        "tls.crt",
        "0.2.0-rc.1",
        "registry.example.com/millrace/collector",
        "system-node-critical",
        "kubernetes.io/arch",
        "1d12h",
    ];
    let word = |(control, text): (u8, &&str)| [&[control][..], text.as_bytes()].concat();
    let words = (0..).zip(&words).map(word).collect();
    Seeds::from([
        ("ddl_statements", statements),
        ("ddl_observed", observed),
        ("resource_words", words),
    ])
}

const DOCUMENTS: &[&str] = &[
    "",
    "# nothing\n",
    "receivers:\n  otlp: {}\nexporters:\n  kafka:\n    connection:\n      bootstrapServers: \
     [kafka-0.kafka:9092]\n    topics: {traces: otlp_traces, logs: otlp_logs}\n",
    "receivers:\n  kafka:\n    connection:\n      bootstrapServers: [\"[::1]:9092\"]\n      tls: {}\n\
     \x20   group: g\n    topics: {metrics: otlp_metrics}\nexporters:\n  clickhouse:\n    endpoints: \
     [http://db:8123]\n    database: otel\nmemory: {limitBytes: 512Mi, budgetPercent: 50}\n",
    "admin: {address: 127.0.0.1:9}\nshutdown: {deadlineSeconds: 30}\nunknown: 1\n",
    "a: &a [1, 2]\nb: *a\n",
    "receivers: {otlp: {grpc: {enabled: false}, limits: {grpcMessageBytes: 4Mi}}}\n",
];

/// Log files of each form: plain, with traces, of containers, with parts, bad bytes and long lines.
fn lines() -> Vec<Vec<u8>> {
    let files = [
        "one\n\ntwo\r\nE 3\n at x\n\tat y\n\n at z\nE 4\nno end",
        "2016-10-06T00:17:09.669794202Z stdout F E 1\n2016-10-06T02:17:09+02:00 stderr P a\n\
         2016-10-06T00:17:10Z stdout F  at x\n2016-10-06T00:17:09.5Z stderr F:x b\r\nno format\n",
        "{\"log\":\"E 1\\n\",\"stream\":\"stdout\",\"time\":\"2016-10-06T00:17:09Z\"}\n\
         {\"log\":\" \\ud834\\udd1e\\\"\",\"attrs\":{\"a\":[1]},\"stream\":\"stderr\",\
         \"time\":\"2016-10-06T00:17:09.1-01:30\"}\n",
    ];
    let parsed = [
        (
            1,
            "{\"t\":\"2016-10-06T00:17:09Z\",\"l\":\"warn\",\"m\":\"a\\\"\\u00e4\",\"n\":-1.5e3,\"o\":{\"p\":[1,{}]}}\n",
        ),
        (
            2,
            "{\"time\":1475713029.25,\"a\":1,\"a\":2}\n{\"log\":{\"iostream\":null}}\n{\"t\":1.5}\n",
        ),
        (
            3,
            "{\"t\":1475713029000000000,\"x\":[true,false,null,[[]]],\"y\":18446744073709551615}\n",
        ),
        (4, "t=1475713029250 l=err m=\"a \\n b\" n=-7 f=1.5 v=1.10\nplain words\na=1 a=2\n"),
        (5, "t=2016-10-06T00:17:09Z k8s.pod.name=x =\n"),
        (6, "2016-10-06T00:17:09Z [INFO] text\nother\n"),
    ];
    let mut inputs = Vec::new();
    for (parser, file) in parsed {
        for form in [0, 4] {
            inputs.push([&[parser << 4 | form, 250, 7][..], file.as_bytes()].concat());
        }
    }
    for form in 0..12 {
        for (limit, file) in (0..).zip(files) {
            let with = |limit: u8| [&[form, limit, form * 5][..], file.as_bytes()].concat();
            inputs.extend([with(limit * 9), with(250)]);
        }
    }
    inputs.push(
        [&[0, 3, 9][..], "ä€\u{1d11e}".repeat(40).as_bytes(), b"\xff\xe2\x82\n\0\0"].concat(),
    );
    inputs
}

/// Bodies of the parsers' own tests in Prometheus; families as its clients write them; names.
fn scraped() -> Seeds {
    let upstream =
        include_str!("../../../collector/sources/prometheus/scrape/tests/data/upstream.txt");
    let mut seeds = Seeds::new();
    for (control, line) in (0_u8..).zip(upstream.lines().filter(|line| !line.starts_with("# "))) {
        let mut words = line.splitn(3, ' ');
        let target = match words.next() {
            Some("open") => "scrape_openmetrics",
            _ => "scrape_text",
        };
        let body = unescaped(words.nth(1).unwrap_or_default());
        // The first two bytes choose pieces, rules and limits.
        let input = [&[control.wrapping_mul(37), 240 + control % 15][..], &body].concat();
        seeds.entry(target).or_default().extend((input.len() <= 800).then_some(input));
    }
    for (control, body) in (0_u8..).zip(family_bodies()) {
        for rules in [0, 128] {
            let input = [&[(control * 5) | rules, 240 + control % 15][..], &body].concat();
            seeds.entry("scrape_protobuf").or_default().push(input);
        }
    }
    let names = [
        "go_threads\u{1}cpu\u{1}0",
        "name.with.dots\u{1}label.name\u{1}va\\lue \"in\" quotes\n, and more",
        "Heizöl 10€\u{1}strange©\n'quoted' \"name\"\u{1}",
        "a\\n\u{1}\u{0}\u{1}\\",
    ];
    seeds.insert("scrape_escaping", names.map(|it| it.as_bytes().to_vec()).to_vec());
    seeds
}

/// A text with `\\n`, `\\\\` and `\\xHH` in it.
fn unescaped(text: &str) -> Vec<u8> {
    let (mut out, mut bytes) = (Vec::new(), text.bytes());
    while let Some(byte) = bytes.next() {
        let escaped = if byte == b'\\' { bytes.next() } else { None };
        match escaped {
            None => out.push(byte),
            Some(b'n') => out.push(b'\n'),
            Some(b'x') => {
                let digit = |it: Option<u8>| it.and_then(|it| char::from(it).to_digit(16));
                let (high, low) = (digit(bytes.next()), digit(bytes.next()));
                out.push((high.unwrap_or(0) << 4 | low.unwrap_or(0)) as u8);
            }
            Some(other) => out.push(other),
        }
    }
    out
}

fn family_bodies() -> Vec<Vec<u8>> {
    use families::{
        Bucket, Counter, Exemplar, Family, Gauge, Histogram, Metric, Quantile, Span, Summary, Time,
        body, labels,
    };
    let exemplar = || Exemplar {
        label: labels(&[("trace_id", "0123456789abcdef0123456789abcdef"), ("k", "v")]),
        value: Some(1.5),
        timestamp: Some(Time { seconds: 9, nanos: 0 }),
    };
    let native = Histogram {
        sample_count: Some(12),
        sample_sum: Some(18.4),
        schema: Some(1),
        zero_threshold: Some(1e-128),
        zero_count: Some(2),
        positive_span: vec![
            Span { offset: Some(0), length: Some(2) },
            Span { offset: Some(1), length: Some(2) },
        ],
        positive_delta: vec![1, 1, -1, 0],
        negative_span: vec![Span { offset: Some(-2), length: Some(1) }],
        negative_delta: vec![5],
        created_timestamp: Some(Time { seconds: 3, nanos: 500_000_000 }),
        exemplars: vec![exemplar()],
        ..Histogram::default()
    };
    let bucket = |bound: f64, count| Bucket {
        cumulative_count: Some(count),
        upper_bound: Some(bound),
        ..Bucket::default()
    };
    let classic = Histogram {
        sample_count: Some(7),
        sample_sum: Some(4.5),
        bucket: vec![bucket(0.5, 3), bucket(1.0, 5)],
        ..Histogram::default()
    };
    let quantile = |quantile| Quantile { quantile: Some(quantile), value: Some(1.5) };
    let summary = Summary {
        sample_count: Some(3),
        sample_sum: Some(4.5),
        quantile: vec![quantile(0.5), quantile(0.99)],
        ..Summary::default()
    };
    let label = labels(&[("path", "/a"), ("d.1", "x\n\"y\"")]);
    let counter = Counter { value: Some(7.0), exemplar: Some(exemplar()), ..Counter::default() };
    let metrics = [
        (0, Metric { label: label.clone(), counter: Some(counter), ..Metric::default() }),
        (1, Metric { gauge: Some(Gauge { value: Some(1.5) }), ..Metric::default() }),
        (2, Metric { label: label.clone(), summary: Some(summary), ..Metric::default() }),
        (3, Metric { untyped: Some(Gauge { value: Some(-1.0) }), ..Metric::default() }),
        (4, Metric { label: label.clone(), histogram: Some(classic.clone()), ..Metric::default() }),
        (4, Metric { label, histogram: Some(native), ..Metric::default() }),
        (5, Metric { histogram: Some(classic), ..Metric::default() }),
    ];
    let families = metrics.into_iter().map(|(kind, metric)| Family {
        name: Some("requests_seconds".to_owned()),
        help: Some("A \"text\".".to_owned()),
        r#type: Some(kind),
        metric: vec![metric],
        unit: Some("seconds".to_owned()),
    });
    let families = Vec::from_iter(families);
    let mut bodies =
        Vec::from_iter(families.iter().map(|family| body(std::slice::from_ref(family))));
    bodies.push(body(&families[..3]));
    bodies
}

/// OTLP in JSON: ids, enums by name and by number, numbers as strings, every kind of value, keys in
/// snake case, and a key that OTLP doesn't know. The first byte says which signal it is.
fn json() -> Vec<Vec<u8>> {
    let texts = [
        r#"{"resourceSpans":[{"resource":{"attributes":[{"key":"a","value":{"stringValue":"x\u00e4"}}]},"scopeSpans":[{"scope":{"name":"s"},"spans":[{"traceId":"5B8EFFF798038103D269B633813FC60C","spanId":"EEE19B7EC3C1B174","name":"n","kind":2,"startTimeUnixNano":"1544712660000000000","endTimeUnixNano":1544712661000000000,"events":[{"timeUnixNano":"1"}],"links":[{"traceId":""}],"status":{"code":"STATUS_CODE_OK"}}]}],"schemaUrl":"u"}]}"#,
        r#"{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"severityNumber":"SEVERITY_NUMBER_INFO2","body":{"kvlistValue":{"values":[{"key":"k","value":{"arrayValue":{"values":[{"boolValue":true},{"doubleValue":"NaN"},{"bytesValue":"AP-x"}]}}}]}}}]}]}]}"#,
        r#"{"resource_metrics":[{"scope_metrics":[{"metrics":[{"name":"m","sum":{"aggregationTemporality":2,"isMonotonic":true,"dataPoints":[{"asInt":"5","exemplars":[{"asDouble":1e3}]}]}},{"name":"h","histogram":{"dataPoints":[{"count":"3","bucketCounts":["1",2],"explicitBounds":[1]}]}},{"name":"x","exponentialHistogram":{"dataPoints":[{"scale":-1,"positive":{"offset":-3,"bucketCounts":["1"]}}]}},{"name":"q","summary":{"dataPoints":[{"quantileValues":[{"value":"Infinity"}]}]}}]}],"unknown":{"a":[1,{"b":null}]}}]}"#,
    ];
    let with = |(control, text): (u8, &&str)| [&[control][..], text.as_bytes()].concat();
    (0..).zip(&texts).map(with).collect()
}
