//! Tests of the watches with a scripted server.

mod identities;
mod namespaces;
mod server;
mod share;
mod watch;
