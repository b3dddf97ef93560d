//! What users see of their objects: conditions, and events when these change.
//!
//! It must not observe, decide or write a status: kinds state here what they observed, and
//! `cluster::status` writes it. Pure except for publishing events.

pub mod conditions;
pub mod counts;
pub mod declared;
pub mod events;
pub mod unreachable;
