//! Pages that are generated from sources.

pub(crate) mod metrics_page;
pub(crate) mod values_page;
