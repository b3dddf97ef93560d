//! What users are told about their objects: conditions, and events when these change.
//!
//! It must not observe, decide or write a status: kinds state what they found here, and
//! `cluster::status` writes it. All is pure but publishing an event.

pub mod conditions;
pub mod events;
pub mod plaintext;
pub mod spread;
pub mod unreachable;
