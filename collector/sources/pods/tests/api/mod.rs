//! Tests of the watches with a scripted server.

mod churn;
mod identities;
mod namespaces;
mod server;
mod share;
mod watch;
