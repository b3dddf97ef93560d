//! Which schemas are told to spread rows over servers that know nothing of each other.

use jiff::Timestamp;
use millrace_crds::ConditionType;
use millrace_crds::v1alpha1::{ClickHouseTarget, Engine, Signal};
use millrace_operator::controllers::schema::Schemas;
use millrace_operator::report::conditions::Conditions;
use millrace_operator::report::declared::spread::state_spread_rows;
use serde_json::json;

use crate::reconcilers::support::world::World;

fn told(endpoints: usize, shards: Option<u16>, engines: &[(Signal, Engine)]) -> Option<String> {
    let endpoints = (0..endpoints).map(|number| format!("http://c-{number}:8123"));
    let endpoints: Vec<String> = endpoints.collect();
    let mut target = json!({"endpoints": endpoints});
    if let Some(shards) = shards {
        target["shards"] = shards.into();
    }
    let target: ClickHouseTarget = serde_json::from_value(target).unwrap();
    let mut conditions = Conditions::new(&[], Some(1), Timestamp::UNIX_EPOCH);
    state_spread_rows(&mut conditions, &target, engines.iter().copied());
    let events = conditions.new_notices();
    let told =
        conditions.find_stated(ConditionType::TablesNotReplicated).map(|it| it.message.clone());
    assert_eq!(events.iter().filter(|it| it.warning).count(), usize::from(told.is_some()));
    told
}

/// Scenario: one server, several of one shard, one and several of each of two shards; with
/// engines of each sort. Guarantee: told, with one event, exactly where rows of a table that
/// isn't replicated may go to several servers, by the signals' names.
#[test]
fn only_servers_that_would_not_share_their_rows_are_told() {
    use Engine::{MergeTree, Null, ReplacingMergeTree, ReplicatedMergeTree};
    let plain = [(Signal::Traces, ReplacingMergeTree), (Signal::Logs, MergeTree)];
    assert_eq!(told(1, None, &plain), None);
    assert_eq!(told(2, Some(2), &plain), None);
    for (endpoints, shards) in [(2, None), (4, Some(2))] {
        let message = told(endpoints, shards, &plain).unwrap();
        assert!(message.starts_with("the tables of traces, logs are not"), "{message}");
    }
    let mixed = [(Signal::Traces, ReplicatedMergeTree), (Signal::Metrics, MergeTree)];
    assert!(told(2, None, &mixed).unwrap().starts_with("the tables of metrics are"));
    let safe = [(Signal::Traces, ReplicatedMergeTree), (Signal::Logs, Null)];
    assert_eq!(told(3, None, &safe), None);
}

/// Scenario: a schema of two servers with plain tables, which can't be reached. Guarantee: it is
/// told all the same, and no longer once one is named.
#[tokio::test]
async fn a_schema_tells_of_it() {
    const SCHEMA: &str = "/apis/millrace.dev/v1alpha1/namespaces/telemetry/telemetryschemas/prod";
    let world = World::new();
    let endpoints = ["http://127.0.0.1:1", "http://127.0.0.1:2"];
    let spec = json!({"clickhouse": {"endpoints": endpoints}, "signals": {"traces": {}}});
    world.server.put(
        SCHEMA,
        json!({"apiVersion": "millrace.dev/v1alpha1", "kind": "TelemetrySchema", "metadata": {},
            "spec": spec}),
    );
    let _ = world.reconcile::<Schemas>(SCHEMA).await;
    let (status, reason, _) = world.condition(SCHEMA, "TablesNotReplicated").unwrap();
    assert_eq!((&*status, &*reason), ("True", "ServersNotReplicas"));
    world.server.edit(SCHEMA, |it| it["spec"]["clickhouse"]["endpoints"] = json!([endpoints[0]]));
    let _ = world.reconcile::<Schemas>(SCHEMA).await;
    assert_eq!(world.condition(SCHEMA, "TablesNotReplicated"), None);
}
