//! Reads and writes JSON.

pub(in crate::eval) mod read;
pub(in crate::eval) mod write;
