//! Tests the private parts of `controllers/schema/gate.rs`.

use super::*;
use millrace_crds::v1alpha1::Ownership;
use serde_json::{Value, json};

fn schema() -> TelemetrySchema {
    super::super::validate::test_support::parse_schema(
        "clickhouse: {endpoints: ['http://c:8123']}, signals: {traces: {}}",
    )
}

fn images() -> Images {
    Images {
        collector_repository: "millrace/collector".into(),
        collector_digests: Default::default(),
        collector_version_default: "0.10.0".into(),
        user: Some(65_532),
    }
}

/// Returns a pool all of whose pods run the current release.
fn pool(change: impl FnOnce(&mut Value)) -> GatewayPool {
    let mut pool = json!({
        "apiVersion": "millrace.dev/v1alpha1", "kind": "GatewayPool",
        "metadata": {"name": "prod", "namespace": "telemetry", "generation": 3},
        "spec": {
            "kafka": {"bootstrapServers": ["kafka:9092"]},
            "clickhouse": {"endpoints": ["http://other-name:8123"]},
            "signals": {"traces": {}},
            "collector": {},
        },
        "status": {"image": "millrace/collector:0.10.0-system", "conditions": [{
            "type": "PodsReady", "status": "True", "reason": "Reconciled", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 3,
        }]},
    });
    change(&mut pool);
    serde_json::from_value(pool).unwrap()
}

/// Scenario: a pool runs the current release; is pinned to an older or a newer one; is still
/// rolling, according to its pods or its controller; writes other tables. Guarantee: columns are
/// dropped only if every pod of a pool runs this release or a newer one.
#[test]
fn only_pools_that_have_rolled_let_columns_go() {
    let told = |pool: GatewayPool| first_outdated(&schema(), &[pool], &images());
    assert_eq!(told(pool(|_| {})), None);
    let pinned = told(pool(|pool| pool["spec"]["collector"]["version"] = "0.9.12".into()));
    assert!(pinned.unwrap().contains("pinned to collector 0.9.12, older than 0.10.0"));
    let newer = told(pool(|pool| {
        pool["spec"]["collector"]["version"] = "0.11.0-rc.1".into();
        pool["status"]["image"] = "millrace/collector:0.11.0-rc.1-system".into();
    }));
    assert_eq!(newer, None);
    for rolling in [
        told(pool(|pool| pool["status"]["image"] = "millrace/collector:0.9.0-system".into())),
        told(pool(|pool| pool["status"]["conditions"][0]["status"] = "False".into())),
        told(pool(|pool| pool["metadata"]["generation"] = 4.into())),
        told(pool(|pool| pool["status"] = Value::Null)),
    ] {
        assert!(rolling.unwrap().contains("GatewayPool prod has not rolled out"));
    }
    let other = told(pool(|pool| {
        pool["spec"]["clickhouse"]["database"] = "elsewhere".into();
        pool["status"] = Value::Null;
    }));
    assert_eq!(other, None);
}

/// Scenario: the schema of one pipeline and a pool of another in its namespace have different
/// endpoints, one in common, and `ownership: Shared` in one and in both; the same for objects
/// without a pipeline. Guarantee: pools of pipelines that share neither endpoint nor tables don't
/// wait for each other, but columns are dropped only once all of them have rolled out: the
/// endpoints may be two names of one server.
#[test]
fn pipelines_of_one_namespace_wait_for_each_other_only_where_they_share() {
    let owned = |by: &str| {
        json!([{"apiVersion": "millrace.dev/v1alpha1", "kind": "TelemetryPipeline", "name": by,
            "uid": by, "controller": true}])
    };
    let same = "http://c:8123";
    let ownership = |is_shared| match is_shared {
        true => Ownership::Shared,
        false => Ownership::Exclusive,
    };
    for (ours, theirs, endpoint, shared, expected) in [
        (Some("a"), Some("b"), "http://d:8123", (false, false), false),
        (Some("a"), Some("b"), "http://d:8123", (true, false), false),
        (Some("a"), Some("b"), "http://d:8123", (true, true), true),
        (Some("a"), Some("b"), same, (false, false), true),
        (Some("a"), Some("a"), "http://d:8123", (false, false), true),
        (None, Some("b"), "http://d:8123", (false, false), true),
        (Some("a"), None, "http://d:8123", (false, false), true),
    ] {
        let mut schema = schema();
        let owners = ours.map(|by| serde_json::from_value(owned(by)).unwrap());
        schema.metadata.owner_references = owners;
        schema.spec.ownership = ownership(shared.0);
        let pool = pool(|pool| {
            pool["metadata"]["ownerReferences"] = theirs.map_or(json!([]), owned);
            pool["spec"]["clickhouse"]["endpoints"] = json!(["http://e:8123", endpoint]);
            pool["spec"]["ownership"] = serde_json::to_value(ownership(shared.1)).unwrap();
            pool["status"] = Value::Null;
        });
        let case = format!("{ours:?} {theirs:?} {endpoint} {shared:?}");
        assert!(may_write_same_tables(&schema, &pool), "{case}");
        assert_eq!(are_strangers(&schema, &pool), !expected, "{case}");
        assert!(first_outdated(&schema, &[pool], &images()).is_some(), "{case}");
    }
}
