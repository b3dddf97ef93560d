//! Requests, cut into the parts that become messages.

pub(crate) mod pieces;
pub(crate) mod request_part;
