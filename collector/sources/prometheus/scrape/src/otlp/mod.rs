//! Samples as OTLP: families become metrics, samples become points of a request.

mod complete_metrics;
pub(crate) mod convert;
pub(crate) mod encode;
pub(crate) mod expected;
pub(crate) mod family;
pub(crate) mod group;
pub(crate) mod write;
