//! Labels and ports of a pool's pods: the operator writes them, tools find pods by them.

use serde::Serialize;

/// Value of the label `app.kubernetes.io/name` on everything of a pool.
pub const PRODUCT: &str = "millrace-collector";

/// The container with the collector.
pub const CONTAINER: &str = "collector";

/// The collector's port for probes and metrics.
pub const ADMIN_PORT: i32 = 9464;

/// The role of a pool's collectors.
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
