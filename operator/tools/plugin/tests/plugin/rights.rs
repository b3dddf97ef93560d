//! Tests of a user with fewer rights, and of clusters without Millrace.

use http::Method;

use crate::plugin::support::{Server, golden};
use crate::plugin::writes::healthy;

/// Scenario: a user with Kubernetes' role `view`, which has no pods/proxy. Guarantee: the statuses
/// are shown, the missing part is named once with the right to request; no unknown figure is zero.
#[tokio::test(start_paused = true)]
async fn without_the_proxy_statuses_are_shown_and_the_right_is_named() {
    let server = healthy();
    server.forbid(Method::GET, "/proxy/");
    let answer = server.run(&["status"]).await.unwrap();
    golden("status-without-proxy.txt", &answer.text);
    assert!(answer.healthy);
    assert_eq!(answer.text.matches("pods/proxy").count(), 2, "{}", answer.text);
    assert!(answer.json["pipelines"][0]["paths"][0]["edges"][0]["inPerSecond"].is_null());
}

/// Scenario: the pipeline itself may not be read. Guarantee: an error with verb, resource, API
/// group and namespace.
#[tokio::test(start_paused = true)]
async fn a_missing_right_is_named_whole() {
    let server = healthy();
    server.forbid(Method::GET, "/telemetrypipelines");
    let error = server.run(&["status", "prod"]).await.unwrap_err().to_string();
    assert_eq!(
        error,
        "no right to get telemetrypipelines in namespace obs: request a Role with apiGroups: \
         [\"millrace.dev\"], resources: [telemetrypipelines], verbs: [get]"
    );
    let error = server.run(&["status", "-A"]).await.unwrap_err().to_string();
    assert!(error.starts_with("no right to list telemetrypipelines in all namespaces"), "{error}");
    assert!(error.contains("a ClusterRole with"), "{error}");
}

/// Scenario: the gateway pool may not be read. Guarantee: `why` fails with that right, `status`
/// shows everything else.
#[tokio::test(start_paused = true)]
async fn a_gap_is_an_error_only_where_nothing_is_left() {
    let server = healthy();
    server.forbid(Method::GET, "/gatewaypools");
    let error = server.run(&["why"]).await.unwrap_err().to_string();
    assert!(error.contains("no right to list gatewaypools in namespace obs"), "{error}");
    let text = server.run(&["status"]).await.unwrap().text;
    assert!(text.contains("NOT SHOWN") && text.contains("otlp_traces"), "{text}");
}

/// Scenario: a pod that doesn't answer through the proxy. Guarantee: only its figures are missing,
/// with the cause.
#[tokio::test(start_paused = true)]
async fn a_silent_pod_is_named_with_the_cause() {
    let server = healthy();
    server.metrics("prod-gateway-1", &["up 1\n".to_owned()]);
    let text = server.run(&["status", "--interval", "0"]).await.unwrap().text;
    let words: Vec<_> = text.split_whitespace().collect();
    let text = words.join(" ");
    assert!(text.contains("metrics of pod prod-gateway-1"), "{text}");
    assert!(text.contains("it has no metrics of a collector"), "{text}");
    assert!(text.contains("(1 of 2 pods reported)"), "{text}");
}

/// Scenario: a namespace without pipelines, one with two, an unknown name. Guarantee: each error
/// names an alternative.
#[tokio::test(start_paused = true)]
async fn what_is_not_there_is_said_with_a_way_on() {
    let error = Server::default().run(&["status"]).await.unwrap_err().to_string();
    assert!(error.contains("no TelemetryPipeline") && error.contains("-A"), "{error}");
    let server = healthy();
    let error = server.run(&["why", "other"]).await.unwrap_err().to_string();
    assert!(error.contains("TelemetryPipeline other does not exist in namespace obs"), "{error}");
    let mut second = server.get("TelemetryPipeline", "prod");
    second["metadata"]["name"] = "test".into();
    server.put(second);
    let error = server.run(&["why"]).await.unwrap_err().to_string();
    assert!(error.contains("prod, test") && error.contains("name one"), "{error}");
    assert_eq!(
        server.run(&["status"]).await.unwrap().json["pipelines"].as_array().unwrap().len(),
        2
    );
}
