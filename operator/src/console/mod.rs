//! The console: read-only pages for people about each pipeline, off unless an address is given.
//!
//! `access` decides who may read, `gather` reads a pipeline's facts from this process's stores and
//! its pods' admin ports, `events` lists events, `server` routes and sets headers;
//! `millrace-console` renders. The console changes nothing, has no separate watches, and blocks no
//! reconcile: without a reader it costs only [`crate::cache::shown`].
//!
//! Limits: those of [`millrace_observe::http_listener`]; two pages are read at once.

mod access;
mod events;
mod gather;
mod server;

pub use access::{Access, AccessError};
pub use server::Console;
