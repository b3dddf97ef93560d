//! Receivers of an edge pool that read without clients.

mod files;
mod found;
mod kernel;
mod sharing;
pub(super) mod targets;
