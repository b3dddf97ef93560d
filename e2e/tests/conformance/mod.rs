//! Ours compared with other programs' behaviour: the OpenTelemetry Collector's rows, Prometheus'
//! samples, the tables of readers, Rotel's messages. `make conformance` builds those programs.

mod against_otelcol;
mod against_prometheus;
mod against_rotel;
pub(crate) mod committed;
pub(crate) mod odd;
mod otelcol;
mod prometheus;
mod readers;
pub(crate) mod rows;
