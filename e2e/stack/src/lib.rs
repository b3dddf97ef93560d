//! The local stack: Kubernetes, Kafka and the ClickHouse engine from package registries alone.
//!
//! [`stack::Stack`] is the whole of it on this machine; [`image`] makes container images without
//! Docker; [`kafka`], [`clickhouse`] and [`zookeeper`] also give a test servers of its own, and
//! [`disk`], [`namespaces`] and [`random`] what strikes at them. Every call blocks; there is no async
//! here. It is for development and tests: nothing in it keeps data safe.

pub mod argocd;
pub mod audit;
pub mod binaries;
pub mod chromium;
pub mod clickhouse;
pub mod component;
pub mod cosign;
mod debian;
pub mod disk;
pub mod error;
pub mod flux;
pub mod foreign;
mod guest;
pub mod http;
pub mod image;
mod java;
pub mod kafka;
pub mod krew;
pub mod kstatus;
mod kubernetes;
mod module;
pub mod namespaces;
pub mod node;
pub mod numbered;
pub mod olm;
pub mod otelcol;
pub mod paths;
pub mod prerequisites;
pub mod progress;
pub mod prometheus;
pub mod random;
pub mod registry;
pub mod rotel;
pub mod service;
pub mod stack;
pub mod versions;
pub mod vlagent;
pub mod vmagent;
pub mod wheel;
pub mod zookeeper;

pub use component::Component;
pub use error::{Result, StackError};
pub use progress::Progress;
pub use stack::Stack;
