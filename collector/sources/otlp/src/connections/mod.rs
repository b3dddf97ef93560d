//! Connections, and what they may take.

pub(crate) mod connection;
pub(crate) mod connection_budget;
pub(crate) mod frames;
pub(crate) mod guard;
pub(crate) mod tls;
