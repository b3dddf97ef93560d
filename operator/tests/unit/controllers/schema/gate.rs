//! Tests of what `controllers/schema/gate.rs` keeps to itself.

use super::*;
use serde_json::{Value, json};

fn schema() -> TelemetrySchema {
    super::super::validate::test_support::schema(
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

/// A pool all of whose pods run the current release.
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
            "type": "PodsReady", "status": "True", "reason": "AsAsked", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 3,
        }]},
    });
    change(&mut pool);
    serde_json::from_value(pool).unwrap()
}

/// Scenario: a pool on the current release; one pinned to an older, one to a newer release; one
/// that still rolls, in its pods or in its controller's eyes; one of other tables. Guarantee:
/// only a pool whose every pod runs this release or a newer one lets columns go.
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
