//! By what a pool's pods are found: the operator writes it, and whoever looks for them reads it.

use serde::Serialize;

/// Value of the label `app.kubernetes.io/name` on everything of a pool.
pub const PRODUCT: &str = "millrace-collector";

/// The container with the collector.
pub const CONTAINER: &str = "collector";

/// The collector's port for probes and metrics.
pub const ADMIN_PORT: i32 = 9464;

/// What a pool's collectors do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// To Kafka.
    Edge,
    /// From Kafka to ClickHouse.
    Gateway,
}

impl Role {
    /// The word in names and in the label `app.kubernetes.io/component`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Edge => "edge",
            Self::Gateway => "gateway",
        }
    }
}
