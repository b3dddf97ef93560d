//! What the reconciler tests share: an API server in memory, a clock that stands still, a lag that
//! is set by hand, and a world that runs reconcilers against them.

// What only the simulation uses is dead here.
#[allow(dead_code)]
pub(crate) mod apiserver;
pub(crate) mod world;

/// The gateway pool of the tests.
pub(crate) const GATEWAY_POOL: &str =
    "/apis/millrace.dev/v1alpha1/namespaces/telemetry/gatewaypools/prod";
/// Its StatefulSet.
pub(crate) const GATEWAY_SET: &str = "/apis/apps/v1/namespaces/telemetry/statefulsets/prod-gateway";
