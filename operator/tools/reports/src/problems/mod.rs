//! Problems with their causes and remedies, and records that were not stored.

pub(crate) mod findings;
pub(crate) mod problem_groups;
pub(crate) mod unstored;
