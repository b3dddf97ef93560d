//! The formats of bodies: lines of text, and the messages of protobuf.

mod label_pair;
pub(crate) mod line;
pub(crate) mod native;
pub(crate) mod number;
pub(crate) mod plain_series;
pub(crate) mod protobuf;
