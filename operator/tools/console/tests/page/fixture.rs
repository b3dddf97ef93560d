//! A pipeline with content in each part of its page. Every text that others write passes `words`,
//! so that a test can replace it.

use millrace_console::links::Links;
use millrace_reports::day::{DaySlot, SLOT_SECONDS, SLOTS_MAX};
use millrace_reports::facts::{
    CounterSample, EventFacts, Facts, Gap, PodFacts, Role, parse_sample,
};
use millrace_reports::{
    DeadLetterEntry, DeadLetterReport, DeadLetterSample, PlannedStep, ProducedBytes,
    ProducerReport, ProducerSample, SizingDecision, merge_dead_letters, rank_producers,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The time of the page.
pub(crate) const NOW: i64 = 1_795_694_400;

/// The content of a page.
pub(crate) struct Fixture {
    pub(crate) facts: Facts,
    pub(crate) decisions: Vec<SizingDecision>,
    pub(crate) steps: Vec<PlannedStep>,
    pub(crate) day: Vec<DaySlot>,
    pub(crate) events: Vec<EventFacts>,
    pub(crate) producers: ProducerReport,
    pub(crate) dead_letters: Option<DeadLetterReport>,
    pub(crate) links: Links,
}

type Words<'a> = &'a dyn Fn(&str) -> String;

/// Returns the fixture; `words` returns the text for each that others write.
pub(crate) fn fixture(words: Words<'_>) -> Fixture {
    let facts = Facts {
        at_second: NOW,
        interval_seconds: Some(10.0),
        pipeline: read(pipeline(words)),
        topics: ["otlp_traces", "otlp_logs", "otlp_logs_dead_letter"]
            .map(|it| read(topic(it, 12)))
            .to_vec(),
        schemas: vec![read(schema(words))],
        edges: vec![read(edge("prod-clients", words)), read(edge("prod-nodes", words))],
        gateways: vec![read(gateway(words))],
        pods: pods(words),
        gaps: vec![Gap {
            what: words("metrics of pod prod-gateway-2"),
            why: words("pod prod-gateway-2 at 10.0.0.9 does not answer on its admin port: refused"),
        }],
    };
    let url = |text: &str| Some(text.parse().unwrap());
    Fixture {
        facts,
        decisions: decisions(words),
        steps: steps(words),
        day: day(),
        events: events(words),
        producers: producers(words),
        dead_letters: Some(dead_letters(words)),
        links: Links {
            grafana: url("https://grafana.example/d/millrace-pipelines?var-namespace={namespace}\
                 &var-pool={pipeline}"),
            clickhouse: url("https://ch.example/play#SELECT%20*%20FROM%20{database}.{table}"),
        },
    }
}

fn read<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn condition(type_: &str, status: &str, reason: &str, message: String) -> Value {
    json!({"type": type_, "status": status, "reason": reason, "message": message,
           "lastTransitionTime": "2026-11-26T11:12:00Z", "observedGeneration": 3})
}

fn meta(name: String) -> Value {
    json!({"name": name, "namespace": "obs", "generation": 3, "uid": "uid"})
}

const STEP: &str =
    "otel.otel_logs: drop column Flags (destructive; list otel.otel_logs.Flags in consent)";
const KAFKA: &str = "kafka.data:9092";

fn pipeline(words: Words<'_>) -> Value {
    let message = "GatewayPool prod: 2 of 3 pods available; pod prod-gateway-2 keeps crashing";
    json!({
        "apiVersion": "millrace.dev/v1alpha1", "kind": "TelemetryPipeline",
        "metadata": meta("prod".to_owned()),
        "spec": {
            "kafka": {"bootstrapServers": [KAFKA]},
            "clickhouse": {"endpoints": ["http://ch.data:8123"]},
            "signals": {"traces": {}, "logs": {}},
        },
        "status": {
            "observedGeneration": 3, "pods": "6/7", "schemaRevision": "324eddb85d3a",
            "conditions": [
                condition("Ready", "False", "PodCrashing", words(message)),
                condition("CredentialsExposed", "True", "ConnectionUnencrypted",
                          words("clickhouse.endpoints with http:// receive the password or token in plaintext: use https://")),
            ],
            "lag": {"messages": 48_210, "seconds": 74, "withinBound": false, "boundSeconds": 60,
                    "observedAt": "2026-11-26T11:59:55Z"},
            "edges": [{"name": "clients", "desired": 2, "ready": 2,
                       "endpoint": words("prod-clients-edge.obs.svc:4317")}],
            "routes": [
                {"step": words("audit"), "signal": "Logs", "topic": words("audit-logs"),
                 "records": 1_861_003,
                 "consumer": {"kind": "TelemetryPipeline", "namespace": "audit",
                            "name": words("audit")},
                 "lag": {"messages": 31, "seconds": 2, "withinBound": true, "boundSeconds": 60,
                         "observedAt": "2026-11-26T11:59:55Z"}},
                {"step": "slow", "signal": "Traces", "topic": "slow-spans",
                 "message": words("no GatewayPool reads the topic")},
            ],
        },
    })
}

fn topic(name: &str, partitions: i32) -> Value {
    json!({
        "apiVersion": "millrace.dev/v1alpha1", "kind": "TelemetryTopic",
        "metadata": meta(name.replace('_', "-")),
        "spec": {"kafka": {"bootstrapServers": [KAFKA]}, "topicName": name},
        "status": {"observedGeneration": 3, "topicName": name, "partitions": partitions,
                   "conditions": [condition("Ready", "True", "Reconciled", "all resources match the spec".to_owned())]},
    })
}

fn schema(words: Words<'_>) -> Value {
    let message = "otel.otel_logs: column Body is String in the table and has no codec";
    json!({
        "apiVersion": "millrace.dev/v1alpha1", "kind": "TelemetrySchema",
        "metadata": meta("prod".to_owned()),
        "spec": {"clickhouse": {"endpoints": ["http://ch.data:8123"]},
                 "signals": {"traces": {}, "logs": {}}},
        "status": {
            "observedGeneration": 3, "database": "otel", "revision": "324eddb85d3a",
            "planHash": "9c1f0e7a2b44",
            "planPending": [words(STEP)],
            "drift": [{"table": "otel.otel_logs", "difference": words(message)}],
            "conditions": [
                condition("SchemaReady", "False", "ConsentRequired", words(message)),
                condition("Drifted", "True", "ConsentRequired", words(message)),
                condition("Applied", "False", "ConsentRequired", words(&format!("plan 9c1f0e7a2b44, 1 statement pending; the first: {STEP}"))),
                condition("Ready", "False", "ConsentRequired", words(message)),
            ],
        },
    })
}

fn edge(name: &str, words: Words<'_>) -> Value {
    let mut status = json!({
        "observedGeneration": 3, "replicas": 2, "readyReplicas": 2, "pods": "2/2",
        "image": words("registry.example/millrace/collector:0.1.0-system"),
        "conditions": [condition("Ready", "True", "Reconciled", words("all resources match the spec"))],
    });
    if name == "prod-nodes" {
        status["nodes"] = json!({
            "reading": 2, "unreachable": 0, "behindBytes": 37_748_736,
            "furthestBehind": {"name": words("node-b"), "bytes": 33_554_432, "seconds": 41},
            "observedAt": "2026-11-26T11:59:50Z",
        });
        status["targets"] = json!({
            "total": 214, "assigned": 212, "up": 207, "down": 5, "waiting": 0, "monitors": 9,
            "invalidMonitors": 1, "rejected": 2, "unreachablePods": 0, "podsOverCapacity": 0,
            "samplesPerSecond": 18_400, "observedAt": "2026-11-26T11:59:50Z",
        });
    }
    json!({
        "apiVersion": "millrace.dev/v1alpha1", "kind": "EdgePool", "metadata": meta(name.to_owned()),
        "spec": {"kafka": {"bootstrapServers": [KAFKA]}, "signals": {"traces": {}, "logs": {}}},
        "status": status,
    })
}

fn gateway(words: Words<'_>) -> Value {
    let crash = "2 of 3 pods available; pod prod-gateway-2 keeps crashing: exit code 137";
    let unit = |tag: &str, config: &str| {
        json!({"image": format!("registry.example/millrace/collector:{tag}-system"),
               "configMap": format!("prod-gateway-{config}"), "allocator": "system"})
    };
    json!({
        "apiVersion": "millrace.dev/v1alpha1", "kind": "GatewayPool",
        "metadata": meta("prod".to_owned()),
        "spec": {
            "kafka": {"bootstrapServers": [KAFKA]},
            "clickhouse": {"endpoints": ["http://ch.data:8123"]},
            "signals": {"traces": {}, "logs": {}},
            "scaling": {"minReplicas": 1, "maxReplicas": 6},
        },
        "status": {
            "observedGeneration": 3, "replicas": 3, "readyReplicas": 2, "pods": "2/3",
            "image": words("registry.example/millrace/collector:0.1.0-system"),
            "conditions": [
                condition("PodsReady", "False", "PodCrashing", words(crash)),
                condition("Ready", "False", "PodCrashing", words(crash)),
                condition("DeadLettersPresent", "True", "RecordsDeadLettered",
                          words("312 records are dead letters: malformed, too_long")),
            ],
            "lag": {"messages": 48_210, "seconds": 74, "withinBound": false, "boundSeconds": 60,
                    "observedAt": "2026-11-26T11:59:55Z"},
            "deadLetters": {"total": 312, "lastIncreaseAt": "2026-11-26T11:30:00Z",
                            "parts": [{"name": "logs", "count": 312}]},
            "dataLost": {"total": 40, "lastIncreaseAt": "2026-11-26T11:30:00Z",
                         "parts": [{"name": "otlp_traces", "count": 40}]},
            "sizing": sizing(words),
            "rollout": {
                "stage": "Promoting", "reason": "Promoting", "digest": "77aa01", "attempts": 1, "pods": 2,
                "message": words("2 of 3 pods may have the change"),
                "since": "2026-11-26T11:58:00Z",
                "before": unit("0.1.0", "a1b2c3"), "after": unit("0.2.0", "d4e5f6"),
                "report": {
                    "verdict": words("Passed"),
                    "before": {"pods": 2, "records": 1_240_000, "recordsPerCpuSecond": 310_000,
                               "cpuMillicores": 400, "memoryBytes": 188_743_680},
                    "after": {"pods": 1, "records": 610_000, "recordsPerCpuSecond": 305_000,
                              "cpuMillicores": 410, "memoryBytes": 192_937_984},
                },
            },
        },
    })
}

fn sizing(words: Words<'_>) -> Value {
    json!({
        "replicas": 3, "desired": 4, "reason": "HoldWindow", "decidedAt": "2026-11-26T11:59:50Z",
        "message": words("a change is due once its window has passed"),
        "earliestChangeAt": "2026-11-26T12:01:20Z", "partitions": 24,
        "changedAt": "2026-11-26T10:00:00Z", "changedFrom": 2,
        "signals": {"pods": 3, "podsReporting": 2, "memoryPercent": 41, "cpuPercent": 93,
                    "insertsRejectedPercent": 0},
        "terms": {"arrivalPerSecond": 1_480, "expectedPerSecond": 1_600, "backlogMessages": 48_210,
                  "backlogPerSecond": 160, "rebalancePerSecond": 40, "neededPerSecond": 1_800,
                  "capacityPerSecond": 520, "capacityMeasured": true, "hottestPerSecond": 90,
                  "sizeNeeded": 4},
    })
}

fn pods(words: Words<'_>) -> Vec<PodFacts> {
    let mut pods = Vec::new();
    for (pool, role, count) in
        [("prod-clients", Role::Edge, 2), ("prod-nodes", Role::Edge, 2), ("prod", Role::Gateway, 3)]
    {
        for at in 0..count {
            let crashes = role == Role::Gateway && at == 2;
            let text =
                |step| if role == Role::Edge { edge_text(step) } else { gateway_text(at, step) };
            let read = |step| -> Option<CounterSample> {
                (!crashes).then(|| parse_sample(&text(step)).unwrap())
            };
            pods.push(PodFacts {
                name: words(&format!("{pool}-{at}")),
                pool: pool.to_owned(),
                role,
                node: Some(words(["node-a", "node-b", "node-c"][at])),
                ready: !crashes,
                state: if crashes { words("CrashLoopBackOff") } else { "Running".to_owned() },
                restarts: if crashes { 4 } else { 0 },
                ended: crashes.then(|| words("OOMKilled, exit code 137")),
                image: None,
                memory_limit: Some("512Mi".to_owned()),
                cpu_limit: Some("1".to_owned()),
                before: read(0),
                now: read(1),
            });
        }
    }
    pods
}

fn common(step: u64) -> String {
    format!(
        "millrace_build_info{{version=\"0.1.0\"}} 1\nmillrace_budget_bytes 268435456\nprocess_start_time_seconds 1790000000\n\
         process_cpu_seconds_total {}\nprocess_resident_memory_bytes 188743680\n",
        100 + step * 4
    )
}

fn edge_text(step: u64) -> String {
    let mut text = common(step);
    for (signal, rate) in [("traces", 4_000), ("logs", 11_000)] {
        let records = 9_000_000 + step * rate * 10;
        text.push_str(&format!(
            "millrace_records_in_total{{signal=\"{signal}\"}} {records}\n\
             millrace_records_out_total{{signal=\"{signal}\"}} {}\n\
             millrace_records_in_flight{{signal=\"{signal}\"}} 240\n",
            records - 240
        ));
    }
    text + "millrace_records_refused_total{signal=\"logs\",reason=\"malformed\"} 17\n"
}

fn gateway_text(pod: usize, step: u64) -> String {
    let mut text = common(step);
    for (signal, rate) in [("traces", 8_000), ("logs", 20_500)] {
        let records = 7_000_000 + step * rate * 10;
        text.push_str(&format!(
            "millrace_records_in_total{{signal=\"{signal}\"}} {records}\n\
             millrace_records_out_total{{signal=\"{signal}\"}} {}\n\
             millrace_records_in_flight{{signal=\"{signal}\"}} 9000\n\
             millrace_consumer_lag_messages{{topic=\"otlp_{signal}\",partition=\"{pod}\"}} {}\n\
             millrace_consumer_lag_seconds{{topic=\"otlp_{signal}\",partition=\"{pod}\"}} {}\n",
            records - 9_000,
            if signal == "logs" { 24_000 } else { 12 },
            if signal == "logs" { "74.2" } else { "0.8" },
        ));
    }
    text + "millrace_records_dead_lettered_total{signal=\"logs\",reason=\"malformed\"} 110\n\
            millrace_records_dead_lettered_total{signal=\"logs\",reason=\"too_long\"} 46\n\
            millrace_dead_letter_bytes_total{signal=\"logs\",reason=\"malformed\"} 70400\n"
}

fn day() -> Vec<DaySlot> {
    let slots = i64::try_from(SLOTS_MAX).unwrap();
    let slot = |at: i64| {
        let load = 900.0 - (at as f64 / 15.0).cos() * 500.0;
        let arrivals = load as i64 + at % 7 * 20;
        let now = NOW - (slots - 1 - at) * SLOT_SECONDS;
        DaySlot::at(now, Some((arrivals - 1_300).max(0)), Some(arrivals), 1 + (at / 40) as i32)
    };
    (0..slots).map(slot).collect()
}

fn producers(words: Words<'_>) -> ProducerReport {
    let one = |service: &str, namespace: &str, bytes| ProducedBytes {
        service: words(service),
        namespace: words(namespace),
        bytes,
    };
    let producers = vec![
        one("checkout", "shop", 2_411_724_800),
        one("search", "shop", 603_979_776),
        one("fluent", "", 90_177_536),
    ];
    let sample = ProducerSample { seconds: 480.0, producers };
    rank_producers(&[sample.clone(), sample], 3)
}

fn dead_letters(words: Words<'_>) -> DeadLetterReport {
    let one = |ago: i64, reason: &str, offset: Option<i64>| DeadLetterEntry {
        signal: words("logs"),
        topic: words("otlp_logs_dead_letter"),
        partition: 7,
        offset,
        source_topic: words("otlp_logs"),
        source_partition: 3,
        source_offset: 88_210 - ago,
        reason: words(reason),
        bytes: 640,
        stored_at_seconds: NOW - ago,
    };
    let samples = [
        vec![one(1_800, "malformed", Some(154)), one(1_860, "malformed", None)],
        vec![one(1_805, "too_long", Some(155))],
    ];
    let samples = samples.map(|dead_letters| DeadLetterSample { dead_letters });
    merge_dead_letters(samples.into(), 3)
}

fn events(words: Words<'_>) -> Vec<EventFacts> {
    let one = |ago: i64, kind: &str, name: &str, reason: &str, note: &str| EventFacts {
        at_second: NOW - ago,
        is_warning: kind == "Pod",
        kind: words(kind),
        name: words(name),
        reason: words(reason),
        note: words(note),
        count: 1 + ago as i32 / 100,
    };
    vec![
        one(40, "Pod", "prod-gateway-2", "BackOff", "back-off restarting failed container"),
        one(130, "GatewayPool", "prod", "RolloutStage", "Promoting: 2 of 3 pods may have it"),
        one(1_020, "GatewayPool", "prod", "SizedGrowForBacklog", "2 pods to 3: backlog of 48,210"),
    ]
}

fn decisions(words: Words<'_>) -> Vec<SizingDecision> {
    let one = |at: i64| {
        let wave = ((at as f64) / 7.0).sin();
        let arrival = 900 + (wave * 500.0) as i64 + at * 6;
        let replicas = if at < 14 { 2 } else { 3 };
        SizingDecision {
            at_second: NOW - (30 - at) * 60,
            replicas,
            proposed_replicas: i32::try_from(1 + arrival / 480).unwrap(),
            reason: words(if at == 14 { "GrowForBacklog" } else { "HoldWindow" }),
            arrival_per_second: Some(arrival),
            needed_per_second: Some(arrival + 200),
            capacity_per_second: Some(520),
            backlog_messages: Some((arrival - 1_000).max(0) * 40),
            lag_seconds: Some((arrival - 1_100).max(0) / 6),
            memory_percent: Some(41),
            cpu_percent: Some(i32::try_from((arrival / 16).min(97)).unwrap()),
        }
    };
    (0..30).map(one).collect()
}

fn steps(words: Words<'_>) -> Vec<PlannedStep> {
    vec![PlannedStep {
        object: words("otel.otel_logs"),
        what: words("drop column Flags"),
        class: "destructive".to_owned(),
        statement: words("ALTER TABLE `otel`.`otel_logs` DROP COLUMN IF EXISTS `Flags`"),
    }]
}
