//! Ours compared with other programs' behaviour: the OpenTelemetry Collector's rows, Prometheus'
//! samples, the tables of readers, Rotel's messages, SDKs' copies. `make conformance` builds those
//! programs.

mod against_otelcol;
mod against_prometheus;
mod against_rotel;
mod against_sdks;
pub(crate) mod committed;
pub(crate) mod odd;
mod otelcol;
mod prometheus;
mod readers;
pub(crate) mod rows;
