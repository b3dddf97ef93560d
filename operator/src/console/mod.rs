//! The console: pages for people about each pipeline, read only, off unless an address is given.
//!
//! `access` says who may look, `gather` reads a pipeline's facts from this process's stores and its
//! pods' admin ports, `answers` routes and sets headers; `millrace-console` renders. It changes
//! nothing, watches nothing of its own, and nobody waits for it: without a reader it costs nothing
//! but [`crate::cache::shown`].
//!
//! Limits: those of [`crate::telemetry::listener`]; two pages are read at once.

mod access;
mod answers;
mod gather;

pub use access::{Access, AccessError, TOKEN_BYTES_MIN};
pub use answers::Console;
