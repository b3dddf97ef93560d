//! The user's API: the five Millrace kinds, their schemas, and the words of their status.
//!
//! Types only: no client, no async, no clock, no I/O. The generated YAML in `crds/yaml` is
//! committed; a test fails when it differs from these types.
//!
//! Limits: every string and list has a maximum, so that CEL rules stay inside the API server's cost
//! budget (10 million units for one schema).

mod amounts;
mod conditions;
mod crd;
mod deprecated;
mod event_reasons;
mod names;
pub mod pods;
pub mod reference;
mod remedies;
pub mod v1alpha1;
mod words;

pub use amounts::{CpuQuantity, MemoryQuantity, Period};
pub use conditions::{Condition, ConditionStatus, ConditionType, Reason, cut, find, is_true, set};
pub use crd::{all, yaml};
pub use deprecated::deprecation_policy;
pub use event_reasons::EventReason;
pub use names::{
    AttributePath, BootstrapServer, ClickHouseEndpoint, ClusterName, ColumnName, ConsumerGroup,
    CoordinationServer, DatabaseName, EdgeName, ImageRepository, InvalidText, KeeperPath,
    ReplicaName, SecretKey, SecretName, StorageClassName, StorageName, TablePrefix, TopicName,
    Version,
};
pub use remedies::{Remedy, remedy};

/// The API group of every kind.
pub const GROUP: &str = "millrace.dev";

/// The only version served so far.
pub const VERSION: &str = "v1alpha1";

/// Value of the label `app.kubernetes.io/managed-by` on everything the operator makes.
pub const MANAGED_BY: &str = "millrace-operator";

/// Annotation that pauses an object: no write but to its status while it is `"true"`. It doesn't
/// hold up the object's deletion.
pub const PAUSED_ANNOTATION: &str = "millrace.dev/paused";

/// Annotation on a GatewayPool or EdgePool that holds or takes back its rollout: `pause`, `resume`
/// (the same as none) or `abort`.
pub const ROLLOUT_ANNOTATION: &str = "millrace.dev/rollout";

/// Annotation on a GatewayPool that acknowledges messages lost to retention. Its value is the
/// number in status.dataLost.total.
pub const ACKNOWLEDGE_DATA_LOST_ANNOTATION: &str = "millrace.dev/acknowledge-data-lost";

/// Annotation on a GatewayPool that acknowledges dead letters. Its value is the number in
/// status.deadLetters.total.
pub const ACKNOWLEDGE_DEAD_LETTERS_ANNOTATION: &str = "millrace.dev/acknowledge-dead-letters";

/// Annotation on a TelemetryTopic, TelemetrySchema or GatewayPool that takes over what another
/// holds on record. Its value is the holder exactly as the condition `HeldByAnother` names it.
pub const TAKES_OVER_ANNOTATION: &str = "millrace.dev/takes-over";

/// Finalizer of objects whose deletion removes something outside Kubernetes (a topic, tables).
/// Set only while `deletionPolicy` is `Delete`.
pub const FINALIZER: &str = "millrace.dev/external";
