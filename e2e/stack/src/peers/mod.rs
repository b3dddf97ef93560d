//! Collectors of others, for comparing with.

pub mod otelcol;
pub mod rotel;
pub mod vlagent;
pub mod vmagent;
