//! What the reconciler tests share: an API server in memory, a clock that stands still, a lag that
//! is set by hand, and a world that runs reconcilers against them.

// What only the simulation uses is dead here.
#[allow(dead_code)]
pub(crate) mod apiserver;
pub(crate) mod world;

use serde_json::{Value, json};

/// The gateway pool of the tests.
pub(crate) const GATEWAY_POOL: &str =
    "/apis/millrace.dev/v1alpha1/namespaces/telemetry/gatewaypools/prod";
/// Its StatefulSet.
pub(crate) const GATEWAY_SET: &str = "/apis/apps/v1/namespaces/telemetry/statefulsets/prod-gateway";

/// A gateway pool of traces; `more` goes into its spec.
pub(crate) fn gateway_pool(more: Value) -> Value {
    let mut pool = json!({
        "apiVersion": "millrace.dev/v1alpha1", "kind": "GatewayPool", "metadata": {},
        "spec": {
            "kafka": {"bootstrapServers": ["kafka:9092"]},
            "clickhouse": {"endpoints": ["http://clickhouse:8123"]},
            "signals": {"traces": {}},
        }
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        pool["spec"][field] = value.clone();
    }
    pool
}
