//! The frame that every kind's reconciler runs in: the loop, watches, time limits, finalizers.
//!
//! It must not know what a kind does; a kind implements [`controller::Reconciler`].

pub mod controller;
pub mod finalizer;
pub mod watches;
