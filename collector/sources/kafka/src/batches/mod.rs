//! Messages to batches, batches to parts, parts to the sink, and the answers.

pub(crate) mod cut;
pub(crate) mod dead_letter;
pub(crate) mod dead_letter_queues;
pub(crate) mod divide;
pub(crate) mod flight;
pub(crate) mod headers;
pub(crate) mod intake;
pub(crate) mod memory;
pub(crate) mod outcomes;
pub(crate) mod parts;
pub(crate) mod spares;
