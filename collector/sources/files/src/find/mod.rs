//! Which files exist, which of them are read, and by which form.

pub(crate) mod finder;
pub(crate) mod forms;
mod links;
mod namespace_filter;
mod parse;
pub(crate) mod source;
pub(crate) mod walk;
pub(crate) mod watch;
