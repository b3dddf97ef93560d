//! Checked values: a name, address, size or secret is refused while the document is read.

pub(crate) mod names;
pub(crate) mod network;
pub(crate) mod secret;
pub(crate) mod selector;
pub(crate) mod text;
pub(crate) mod units;
pub(crate) mod url;
