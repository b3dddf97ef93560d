//! Tests of the output of `status`, `why`, `lag`, `top`, `logs` for a pipeline in each state.

use serde_json::{Value, json};

use crate::plugin::support::golden;
use crate::plugin::writes::{condition, healthy, set};

/// Scenario: a healthy pipeline. Guarantee: one screen with the path of each signal and its rates
/// between two readings, no problems, and exit code 0.
#[tokio::test(start_paused = true)]
async fn a_healthy_pipeline_is_one_screen() {
    let answer = healthy().run(&["status"]).await.unwrap();
    golden("status-healthy.txt", &answer.text);
    assert!(answer.healthy);
    let path = &answer.json["pipelines"][0]["paths"][0];
    // The clock of tests moves by whole milliseconds.
    let rate = |hop: &Value, field: &str| hop[field].as_f64().unwrap().round();
    assert!((rate(&path["edges"][0], "inPerSecond") - 1_000.0).abs() < 2.0, "{path}");
    assert!((rate(&path["gateway"], "outPerSecond") - 1_000.0).abs() < 2.0, "{path}");
    assert_eq!(path["topic"]["waitingMessages"], 8);
}

/// Scenario: a pipeline with replicated tables. Guarantee: the screen has their Keeper and each
/// table's requests to it; a table without inserts has no ratio.
#[tokio::test(start_paused = true)]
async fn the_screen_has_what_tables_ask_of_keeper() {
    let server = healthy();
    server.edit("TelemetrySchema", "prod", |schema| {
        schema["status"]["coordination"] = json!({
            "servers": "3/3", "leader": "keeper-1.db:2181", "sessions": "2/2",
            "outstandingRequests": 0, "requestsPerMillionRows": 180,
            "tables": [
                {"table": "otel_logs", "requestsPerMillionRows": 30, "requestsPerPart": 3,
                 "rowsPerPart": 100_000, "requests": 120},
                {"table": "otel_traces", "requests": 12}
            ]
        });
    });
    let answer = server.run(&["status"]).await.unwrap();
    golden("status-coordination.txt", &answer.text);
    assert!(answer.healthy);
    let told = &answer.json["pipelines"][0]["coordination"];
    assert_eq!(told["tables"][0]["requestsPerMillionRows"], 30);
}

/// Scenario: a pipeline that routes records to two topics, of which nobody reads one. Guarantee:
/// the screen has the records, reader and lag of each route, and what is wrong with the other.
#[tokio::test(start_paused = true)]
async fn the_screen_has_routes_with_their_readers_and_lag() {
    let server = healthy();
    server.edit("TelemetryPipeline", "prod", |pipeline| {
        pipeline["status"]["routes"] = json!([
            {"step": "audit", "signal": "Logs", "topic": "audit-logs", "records": 12_000,
             "consumer": {"kind": "TelemetryPipeline", "namespace": "sec", "name": "audit"},
             "lag": {"messages": 9, "seconds": 65, "withinBound": false, "boundSeconds": 60,
                     "observedAt": "2026-11-26T11:59:55Z"}},
            {"step": "slow", "signal": "Traces", "topic": "slow-spans",
             "message": "no GatewayPool reads the topic"},
        ]);
    });
    let answer = server.run(&["status"]).await.unwrap();
    let lines: Vec<Vec<&str>> =
        answer.text.lines().map(|line| line.split_whitespace().collect()).collect();
    let audit = "audit logs audit-logs 12,000 TelemetryPipeline sec/audit 1 min 5 s";
    for expected in [audit, "slow traces slow-spans - - -", "slow: no GatewayPool reads the topic"]
    {
        let expected: Vec<&str> = expected.split_whitespace().collect();
        assert!(lines.contains(&expected), "{}", answer.text);
    }
    assert_eq!(answer.json["pipelines"][0]["routes"][0]["lag"]["seconds"], 65);
}

/// Scenario: the operator's chart has the address of the documentation, and a pool has a problem.
/// Guarantee: the remedy links to its section there.
#[tokio::test(start_paused = true)]
async fn a_remedy_links_to_the_documentation() {
    let server = healthy();
    server.edit("GatewayPool", "prod", |pool| {
        set(pool, condition("PodsReady", "False", "PodCrashing", "pod prod-gateway-1 crashes"));
        set(pool, condition("Ready", "False", "PodCrashing", "pod prod-gateway-1 crashes"));
    });
    server.edit("TelemetryPipeline", "prod", |pipeline| {
        pipeline["status"]["documentationUrl"] = json!("https://d.example");
    });
    let answer = server.run(&["status"]).await.unwrap();
    assert!(answer.text.contains("(https://d.example/troubleshooting.html#not-ready)"));
    assert_eq!(answer.json["pipelines"][0]["documentationUrl"], "https://d.example");
}

/// Scenario: ClickHouse refuses the user, a gateway crashes, records are lost or become dead
/// letters, a password is sent unencrypted; the pipeline repeats its children's conditions.
/// Guarantee: each cause is reported once, at its object, the worst first, with its remedy; it
/// counts as unhealthy.
#[tokio::test(start_paused = true)]
async fn trouble_is_told_once_with_its_remedy() {
    let server = healthy();
    let refused = "ClickHouse refuses user millrace: correct the Secret clickhouse-user";
    server.edit("TelemetrySchema", "prod", |schema| {
        set(schema, condition("SchemaReady", "False", "ClickHouseAuthenticationFailed", refused));
        set(schema, condition("Ready", "False", "ClickHouseAuthenticationFailed", refused));
        set(schema, condition("Stalled", "True", "ClickHouseAuthenticationFailed", refused));
    });
    let crash = "1 of 2 pods available; pod prod-gateway-1 keeps crashing: exit code 137";
    let lost = "40 messages of otlp_traces were deleted by retention before they were read";
    server.edit("GatewayPool", "prod", |pool| {
        set(pool, condition("PodsReady", "False", "PodCrashing", crash));
        set(pool, condition("Ready", "False", "PodCrashing", crash));
        set(pool, condition("DataLost", "True", "MessagesLostToRetention", lost));
        let tally = |name: &str, count: i64| {
            json!({"total": count, "lastIncreaseAt": "2026-11-26T11:30:00Z",
                   "parts": [{"name": name, "count": count}]})
        };
        pool["status"]["dataLost"] = tally("otlp_traces", 40);
        pool["status"]["deadLetters"] = tally("logs", 3);
        pool["status"]["pods"] = json!("1/2");
    });
    server.edit("TelemetryPipeline", "prod", |pipeline| {
        let schema = format!("TelemetrySchema prod: {refused}");
        set(pipeline, condition("Ready", "False", "ClickHouseAuthenticationFailed", &schema));
        set(pipeline, condition("SchemaReady", "False", "ClickHouseAuthenticationFailed", &schema));
        let pool = format!("GatewayPool prod: {crash}");
        set(pipeline, condition("GatewayReady", "False", "PodCrashing", &pool));
        set(
            pipeline,
            condition(
                "CredentialsExposed",
                "True",
                "ConnectionUnencrypted",
                "user and password go to ClickHouse over http: write https endpoints",
            ),
        );
        pipeline["status"]["pods"] = json!("3/4");
    });
    server.edit("Pod", "prod-gateway-1", |pod| {
        pod["status"]["conditions"] = json!([{"type": "Ready", "status": "False"}]);
        pod["status"]["containerStatuses"][0]["restartCount"] = json!(4);
        pod["status"]["containerStatuses"][0]["state"] =
            json!({"waiting": {"reason": "CrashLoopBackOff"}});
        pod["status"]["containerStatuses"][0]["lastState"] =
            json!({"terminated": {"reason": "OOMKilled", "exitCode": 137}});
    });
    let answer = server.run(&["status", "prod"]).await.unwrap();
    golden("status-trouble.txt", &answer.text);
    assert!(!answer.healthy);
    let findings = answer.json["pipelines"][0]["findings"].as_array().unwrap();
    let reasons: Vec<_> = findings.iter().map(|one| one["reason"].as_str().unwrap()).collect();
    assert_eq!(
        reasons,
        [
            "ClickHouseAuthenticationFailed",
            "PodCrashing",
            "MessagesLostToRetention",
            "ConnectionUnencrypted",
        ]
    );
}

/// Scenario: statements wait for consent, which three conditions of the tables report, and the
/// pipeline. Guarantee: only the condition that names the plan is reported.
#[tokio::test(start_paused = true)]
async fn a_plan_that_waits_is_told_once() {
    let server = healthy();
    let drift = "otel.otel_traces: time to live is none, declared 1d";
    let plan = "plan ac66ee4fbc36, 1 statement waits; name otel.otel_traces.ttl in spec.consent";
    server.edit("TelemetrySchema", "prod", |schema| {
        for (type_, status, message) in [
            ("SchemaReady", "False", drift),
            ("Applied", "False", plan),
            ("Drifted", "True", drift),
            ("Ready", "False", drift),
            ("Stalled", "True", drift),
        ] {
            set(schema, condition(type_, status, "ConsentRequired", message));
        }
    });
    server.edit("TelemetryPipeline", "prod", |pipeline| {
        let told = format!("TelemetrySchema prod: SchemaReady: {drift}");
        set(pipeline, condition("SchemaReady", "False", "ConsentRequired", &told));
        set(pipeline, condition("Ready", "False", "ConsentRequired", &told));
    });
    let answer = server.run(&["status"]).await.unwrap();
    let findings = answer.json["pipelines"][0]["findings"].as_array().unwrap().clone();
    assert_eq!(findings.len(), 1, "{}", answer.text);
    assert_eq!(
        (&findings[0]["condition"], &findings[0]["message"]),
        (&json!("Applied"), &json!(plan))
    );
}

/// Scenario: no operator has observed a pipeline's newest spec. Guarantee: an older condition
/// doesn't make it Ready.
#[tokio::test(start_paused = true)]
async fn an_older_status_is_not_taken_for_the_newest_specs() {
    let server = healthy();
    server.edit("TelemetryPipeline", "prod", |pipeline| {
        pipeline["metadata"]["generation"] = json!(4)
    });
    let answer = server.run(&["status", "--interval", "0"]).await.unwrap();
    assert!(!answer.healthy);
    assert!(answer.text.contains("UNKNOWN"), "{}", answer.text);
    assert!(answer.text.contains("status is of generation 3"), "{}", answer.text);
}

/// Scenario: an advice, such as a password in plaintext, on a pipeline that works. Guarantee: it is
/// reported, and the pipeline counts as healthy.
#[tokio::test(start_paused = true)]
async fn advice_alone_is_healthy() {
    let server = healthy();
    server.edit("TelemetryPipeline", "prod", |pipeline| {
        set(
            pipeline,
            condition("CredentialsExposed", "True", "ConnectionUnencrypted", "over http"),
        );
    });
    let answer = server.run(&["status"]).await.unwrap();
    assert!(answer.healthy && answer.text.contains("ConnectionUnencrypted"), "{}", answer.text);
}

/// Scenario: a status with a control sequence in a message. Guarantee: a terminal gets none.
#[tokio::test(start_paused = true)]
async fn no_control_character_of_a_status_reaches_the_terminal() {
    let server = healthy();
    server.edit("EdgePool", "prod-clients", |pool| {
        set(pool, condition("PodsReady", "False", "PodsNotReady", "bad \u{1b}[2J\u{7} text"));
    });
    let answer = server.run(&["status"]).await.unwrap();
    assert!(answer.text.contains("bad"));
    assert!(!answer.text.chars().any(|one| one.is_control() && one != '\n'), "{:?}", answer.text);
}

/// Scenario: a pool that would grow and waits for its window. Guarantee: sentences name the hold
/// and the size without it; every term of the sum is shown.
#[tokio::test(start_paused = true)]
async fn the_sizing_decision_is_told_with_its_terms() {
    let answer = healthy().run(&["why"]).await.unwrap();
    golden("why.txt", &answer.text);
    assert_eq!(answer.json["decision"]["terms"]["neededPerSecond"], 1310);
    assert_eq!(
        (&answer.json["holds"], &answer.json["fixed"]["byOperator"]),
        (&json!(true), &json!(true))
    );
}

/// Scenario: a person wrote the number of pods. Guarantee: the output names the writer, and how to
/// return to sizing.
#[tokio::test(start_paused = true)]
async fn a_written_size_names_its_writer() {
    let server = healthy();
    server.edit("GatewayPool", "prod", |pool| {
        pool["metadata"]["managedFields"][0]["manager"] = json!("kubectl-scale");
        pool["status"]["sizing"]["reason"] = json!("Fixed");
    });
    let text = server.run(&["why"]).await.unwrap().text;
    let words: Vec<_> = text.split_whitespace().collect();
    assert!(
        words.join(" ").contains("spec.replicas is 2, written by kubectl-scale: remove it"),
        "{text}"
    );
}

/// Scenario: partitions with a lag that falls. Guarantee: the pool's lag by Kafka, then partitions
/// with their pods and trends.
#[tokio::test(start_paused = true)]
async fn lag_is_told_by_partition() {
    let answer = healthy().run(&["lag"]).await.unwrap();
    golden("lag.txt", &answer.text);
    assert!(answer.healthy);
    assert_eq!(answer.json["topics"][0]["partitions"].as_array().unwrap().len(), 4);
}

/// Scenario: four pods. Guarantee: each with rates, CPU time between two readings, memory.
#[tokio::test(start_paused = true)]
async fn pods_are_told_with_what_they_use() {
    let answer = healthy().run(&["top"]).await.unwrap();
    golden("top.txt", &answer.text);
    assert_eq!(answer.json["pods"].as_array().unwrap().len(), 4);
}

/// Scenario: logs of the gateways, then of an unknown pool. Guarantee: a head for each pod; an
/// error that names where to check.
#[tokio::test(start_paused = true)]
async fn logs_are_chosen_by_role_and_pool() {
    let server = healthy();
    let answer = server.run(&["logs", "--role", "gateway"]).await.unwrap();
    golden("logs.txt", &answer.text);
    assert!(answer.healthy);
    let error = server.run(&["logs", "--pool", "none"]).await.unwrap_err().to_string();
    assert!(error.contains("kubectl millrace status"), "{error}");
}
