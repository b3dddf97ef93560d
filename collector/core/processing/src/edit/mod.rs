//! The editor of messages as bytes: positions in buffers, objects with fields and attribute slots,
//! and the list of segments that becomes the output.

pub(crate) mod encode;
pub(crate) mod memory;
pub(crate) mod object;
pub(crate) mod segments;
pub(crate) mod slot;
