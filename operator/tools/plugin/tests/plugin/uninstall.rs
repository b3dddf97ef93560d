//! Tests of `uninstall --check`.

use serde_json::json;

use crate::plugin::support::golden;
use crate::plugin::writes::healthy;

/// Scenario: a pipeline whose policy is Delete, with its finalizer, and a separate topic that is
/// retained. Guarantee: data that would be deleted comes first, then what is removed, what stays,
/// what waits for the operator, and the order; nothing is deleted.
#[tokio::test(start_paused = true)]
async fn what_goes_and_what_stays_is_told() {
    let server = healthy();
    server.edit("TelemetryPipeline", "prod", |pipeline| {
        pipeline["spec"]["deletionPolicy"] = json!("Delete");
        pipeline["metadata"]["finalizers"] = json!(["millrace.dev/external"]);
    });
    let mut alone = server.get("TelemetryTopic", "prod-logs");
    alone["metadata"] = json!({"name": "audit", "namespace": "obs", "generation": 1});
    alone["spec"]["topicName"] = json!("audit");
    server.put(alone);
    let answer = server.run(&["uninstall", "--check"]).await.unwrap();
    golden("uninstall.txt", &answer.text);
    assert_eq!(answer.json["dataDeleted"].as_array().unwrap().len(), 5);
    assert!(server.asked().iter().all(|(method, _)| method == http::Method::GET));
}

/// Scenario: the default policy. Guarantee: no data is listed as deleted.
#[tokio::test(start_paused = true)]
async fn by_default_all_data_stays() {
    let answer = healthy().run(&["uninstall", "--check", "-A"]).await.unwrap();
    assert_eq!(answer.json["dataDeleted"], json!([]));
    assert_eq!(answer.json["stays"].as_array().unwrap().len(), 5);
}
