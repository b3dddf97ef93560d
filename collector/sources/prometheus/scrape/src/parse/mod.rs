//! The formats of bodies: lines of text, and the messages of protobuf.

pub(crate) mod line;
pub(crate) mod native;
pub(crate) mod number;
pub(crate) mod protobuf;
