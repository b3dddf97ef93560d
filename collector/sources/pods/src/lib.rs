//! Watches pods (labels, annotations, owners, addresses), the namespaces that a selector chooses,
//! and this pod's share of scrape targets, at the API server.
//!
//! One open request watches the pods of one node, or of the cluster. It requests metadata alone
//! where only log files are labeled; addresses are in complete pods, which are stripped as they
//! arrive. It begins with the existing pods
//! (`resourceVersion=0`, which the API server answers from its memory) and continues with changes;
//! the next request continues where it ended. No reader waits for it: while the API server is away,
//! known pods stay known, and new ones are unknown.
//!
//! Pods' annotations ([`ANNOTATION`]) state how their logs are read. An invalid one only increments
//! a counter and logs a warning.
//!
//! A share ([`start_share`]) begins with a list of the last written state, not from memory, and
//! continues with a watch. While the API server is away, the last share stays in use.
//!
//! Namespaces ([`start_namespaces`]) are listed from its memory and then watched. The API server
//! selects them; a file records the last choice for a start without the server. The labels of
//! namespaces that clients' records get ([`start_namespace_labels`]) are watched in the same way.
//!
//! This is no general Kubernetes client: linking one would add the types of all kinds to every
//! collector, and responses of any length. Here an event has at most [`EVENT_BYTES_MAX`],
//! [`PODS_MAX`] pods of [`POD_BYTES_MAX`] are known for log files and [`IDENTITIES_MAX`] in
//! [`IDENTITY_BYTES_MAX`] for clients' records, and an object of a share has
//! [`SHARE_OBJECT_BYTES_MAX`].

mod api;
mod identity;
mod identity_table;
mod metadata;
mod namespace_labels;
mod namespaces;
mod pod;
mod pod_events;
mod pod_table;
mod share;
mod watch;

pub use api::event::{Events, Object, WatchEvent, WatchRefusal};
pub use api::{ApiEndpoint, ApiError, EVENT_BYTES_MAX};
pub use identity_table::{ENDED_RETENTION, IDENTITIES_MAX, IDENTITY_BYTES_MAX, IdentityTable};
pub use metadata::reading::{ANNOTATION, AnnotationFault, FAULTS_MAX, READING_BYTES_MAX};
pub use metadata::{Metadata, MetadataRules, POD_BYTES_MAX, PodDescription};
pub use namespace_labels::start_namespace_labels;
pub use namespaces::{NAMESPACES_MAX, NamespaceWatchMetrics, start_namespaces};
pub use pod_table::{DELETED_RETENTION, PODS_MAX, PodTable};
pub use share::{SHARE_LABEL, SHARE_OBJECT_BYTES_MAX, ShareOwner, start_share};
pub use watch::{PodReaders, WatchedPods, start_pods};
