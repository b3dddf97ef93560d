//! Runs every kind's reconciler: the loop, watches, time limits, finalizers.
//!
//! It must not know what a kind does; a kind implements [`controller::Reconciler`].

pub mod controller;
pub mod finalizer;
pub mod gateway_pods;
mod metrics;
mod next;
mod watch_scope;
pub mod watches;

pub use next::Next;
pub use watch_scope::{KindController, MANAGED_BY_SELECTOR, WatchScope};
