//! Answers to clients.

pub(crate) mod denied;
pub(crate) mod out_of_range_log;
pub(crate) mod reply;
pub(crate) mod status;
