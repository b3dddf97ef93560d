//! The components of a Collector, each with what becomes of its settings.

pub(crate) mod clickhouse;
pub(crate) mod extensions;
pub(crate) mod files;
pub(crate) mod kafka;
pub(crate) mod otlp;
pub(crate) mod processors;
pub(crate) mod prometheus;
pub(crate) mod rules;
mod tls;
