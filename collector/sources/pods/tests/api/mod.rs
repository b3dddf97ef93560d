//! Tests of the watches with a scripted server.

mod churn;
mod identities;
mod namespace_labels;
mod namespaces;
mod server;
mod share;
mod watch;
