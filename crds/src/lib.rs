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
mod kinds;
mod names;
pub mod pods;
pub mod reference;
pub mod v1alpha1;
mod word_list;

pub use amounts::{CpuQuantity, MemoryQuantity, Period};
pub use conditions::{
    Condition, ConditionClass, ConditionStatus, ConditionType, Reason, Remedy, find_condition,
    is_true, set_condition, truncate_text,
};
pub use crd::{all_definitions, render_yaml};
pub use deprecated::deprecation_policy;
pub use event_reasons::EventReason;
pub use kinds::{Kind, MillraceKind};
pub use names::{
    AttributePath, BootstrapServer, ClickHouseEndpoint, ClusterName, ColumnName, ConsumerGroup,
    CoordinationServer, DatabaseName, EdgeName, ImageRepository, InvalidText, KeeperPath,
    ReplicaName, SecretKey, SecretName, StorageClassName, StorageName, TablePrefix, TopicName,
    Version,
};

/// The API group of every kind.
pub const GROUP: &str = "millrace.dev";

/// The only version served so far.
pub const VERSION: &str = "v1alpha1";

/// Value of the label `app.kubernetes.io/managed-by` on everything the operator makes.
pub const MANAGED_BY: &str = "millrace-operator";

/// Finalizer of objects whose deletion removes something outside Kubernetes (a topic, tables).
/// Set only while `deletionPolicy` is `Delete`.
pub const FINALIZER: &str = "millrace.dev/external";
