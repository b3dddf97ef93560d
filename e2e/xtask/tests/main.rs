//! All integration tests of this crate, in one program.
#![allow(clippy::panic, clippy::unwrap_used, missing_docs)]

mod alerts;
mod argocd;
mod charts;
