//! What is known of this node's pods: labels, annotations, owners, from a watch at the API server;
//! the namespaces that a selector chooses; and this pod's own share of scrape targets.
//!
//! One open request watches the pods of one node, metadata alone. It begins with the pods that
//! exist (`resourceVersion=0`, which the API server answers from its memory) and continues with
//! changes; the next request continues where it ended. Nobody waits for it: while the API server is
//! away, known pods stay known, and new ones are unknown.
//!
//! Pods' own annotations ([`ANNOTATION`]) say how their logs are read. One that can't be used
//! changes nothing but a counter and a line of the log.
//!
//! A share ([`start_share`]) is begun by a list of what was written last, not from memory, and goes
//! on with a watch likewise. While the API server is away, the last share stands.
//!
//! Namespaces ([`start_namespaces`]) are listed from its memory and then watched. The API server
//! selects them; what it chose last is on record for a start without it.
//!
//! This is no general client of Kubernetes. It is small because it asks three things: linking one
//! would add the types of all kinds to every collector, and answers of any length. Here an event is
//! at most [`EVENT_BYTES_MAX`] long, and [`PODS_MAX`] pods of [`POD_BYTES_MAX`] are known; of a
//! share an object has [`SHARE_OBJECT_BYTES_MAX`].

mod again;
mod api;
mod board;
mod event;
mod listed;
mod metadata;
mod namespaces;
mod owner;
mod reading;
mod share;
mod watch;

pub use api::{ApiError, EVENT_BYTES_MAX, Endpoint};
pub use board::{Board, GONE_KEPT, PODS_MAX};
pub use event::{Event, Events, Object, Refusal};
pub use metadata::{Made, Metadata, POD_BYTES_MAX, Rules};
pub use namespaces::{NAMESPACES_MAX, start_namespaces};
pub use reading::{ANNOTATION, FAULTS_MAX, Fault, READING_BYTES_MAX};
pub use share::{SHARE_LABEL, SHARE_OBJECT_BYTES_MAX, Whose, start_share};
pub use watch::start;
