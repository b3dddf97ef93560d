//! The local stack: Kubernetes, Kafka and the ClickHouse engine from package registries alone.
//!
//! [`stack::Stack`] is the whole of it on this machine; [`image`] makes container images without
//! Docker; [`kafka`], [`clickhouse`] and [`zookeeper`] also give a test servers of its own, and
//! [`disk`], [`namespaces`] and [`random`] what strikes at them. Every call blocks; there is no async
//! here. It is for development and tests: nothing in it keeps data safe.

mod cluster;
pub mod error;
mod fetch;
pub mod paths;
mod peers;
pub mod prerequisites;
pub mod progress;
pub mod random;
mod servers;
pub mod stack;
mod tools;
pub mod versions;

pub use cluster::{argocd, audit, component, flux, namespaces, node, numbered};
pub use fetch::{binaries, foreign, image, wheel};
pub use peers::{otelcol, rotel, vlagent, vmagent};
pub use servers::{clickhouse, disk, http, kafka, registry, service, zookeeper};
pub use tools::{chromium, cosign, krew, kstatus, olm, prometheus};

pub use component::Component;
pub use error::{Result, StackError};
pub use progress::Progress;
pub use stack::Stack;
