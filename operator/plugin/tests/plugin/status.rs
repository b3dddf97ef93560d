//! `status`, `why`, `lag`, `top`, `logs`: what they print of a pipeline in each state.

use serde_json::{Value, json};

use crate::support::golden;
use crate::writes::{condition, healthy, set};

/// Scenario: a pipeline in good order. Guarantee: one screen with the path of each signal and its
/// rates between two readings, nothing wrong, and a script takes it for healthy.
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

/// Scenario: a pipeline with replicated tables. Guarantee: the screen has their Keeper and what
/// each table asks of it; a table without inserts has no ratio.
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

/// Scenario: ClickHouse refuses the user, a gateway crashes, records are lost and set aside, a
/// password is sent unencrypted; the pipeline repeats what its children say. Guarantee: each cause is
/// told once, at its object, the worst first, with what to do; a script takes it for unhealthy.
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
            json!({"total": count, "grewAt": "2026-11-26T11:30:00Z",
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
                "PasswordExposed",
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

/// Scenario: statements wait for consent, which three conditions of the tables say, and the pipeline.
/// Guarantee: it is told once, by the one that names the plan.
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
            set(schema, condition(type_, status, "ConsentNeeded", message));
        }
    });
    server.edit("TelemetryPipeline", "prod", |pipeline| {
        let told = format!("TelemetrySchema prod: SchemaReady: {drift}");
        set(pipeline, condition("SchemaReady", "False", "ConsentNeeded", &told));
        set(pipeline, condition("Ready", "False", "ConsentNeeded", &told));
    });
    let answer = server.run(&["status"]).await.unwrap();
    let findings = answer.json["pipelines"][0]["findings"].as_array().unwrap().clone();
    assert_eq!(findings.len(), 1, "{}", answer.text);
    assert_eq!(
        (&findings[0]["condition"], &findings[0]["message"]),
        (&json!("Applied"), &json!(plan))
    );
}

/// Scenario: a pipeline whose newest spec no operator has looked at. Guarantee: it isn't taken for
/// Ready by an older condition.
#[tokio::test(start_paused = true)]
async fn an_older_status_is_not_taken_for_the_newest_specs() {
    let server = healthy();
    server.edit("TelemetryPipeline", "prod", |pipeline| {
        pipeline["metadata"]["generation"] = json!(4)
    });
    let answer = server.run(&["status", "--interval", "0"]).await.unwrap();
    assert!(!answer.healthy);
    assert!(answer.text.contains("NOT KNOWN"), "{}", answer.text);
    assert!(answer.text.contains("status is of generation 3"), "{}", answer.text);
}

/// Scenario: an advice, such as a password in plaintext, on a pipeline that works. Guarantee: it is
/// told, and a script takes the pipeline for healthy.
#[tokio::test(start_paused = true)]
async fn advice_alone_is_healthy() {
    let server = healthy();
    server.edit("TelemetryPipeline", "prod", |pipeline| {
        set(pipeline, condition("PasswordExposed", "True", "ConnectionUnencrypted", "over http"));
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

/// Scenario: a pool that would grow and waits for its window. Guarantee: sentences say what holds it
/// back and what it would be; every term of the sum is there.
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

/// Scenario: a person wrote the number of pods. Guarantee: who did, and how to return to sizing.
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
/// with their pods and how they move.
#[tokio::test(start_paused = true)]
async fn lag_is_told_by_partition() {
    let answer = healthy().run(&["lag"]).await.unwrap();
    golden("lag.txt", &answer.text);
    assert!(answer.healthy);
    assert_eq!(answer.json["topics"][0]["partitions"].as_array().unwrap().len(), 4);
}

/// Scenario: four pods. Guarantee: each with rates, processor time between two readings, memory.
#[tokio::test(start_paused = true)]
async fn pods_are_told_with_what_they_use() {
    let answer = healthy().run(&["top"]).await.unwrap();
    golden("top.txt", &answer.text);
    assert_eq!(answer.json["pods"].as_array().unwrap().len(), 4);
}

/// Scenario: logs of the gateways, then of a pool that isn't there. Guarantee: a head for each pod;
/// an error that says where to look.
#[tokio::test(start_paused = true)]
async fn logs_are_chosen_by_role_and_pool() {
    let server = healthy();
    let answer = server.run(&["logs", "--role", "gateway"]).await.unwrap();
    golden("logs.txt", &answer.text);
    assert!(answer.healthy);
    let error = server.run(&["logs", "--pool", "none"]).await.unwrap_err().to_string();
    assert!(error.contains("kubectl millrace status"), "{error}");
}
