//! The document in full: its sections, where its fields are, and what is wrong with them.

pub(crate) mod check;
pub(crate) mod lines;
pub(crate) mod problem;
#[cfg(test)]
pub(crate) mod round_trip;
pub(crate) mod section;
