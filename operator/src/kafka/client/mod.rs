//! Clients of one cluster: their settings, their connection, and requests that the library lacks.

pub(super) mod connection;
pub(super) mod native;
pub(super) mod probe;
pub(super) mod requests;
pub(super) mod resolved;
