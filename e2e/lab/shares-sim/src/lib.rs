//! Plays the sharing of targets, and models of others, on pools that change.
//!
//! A [`fleet::Fleet`] is targets and pods, a [`scenario::Scenario`] changes them, a [`rules::Rule`]
//! says who scrapes what, and [`report`] makes the page of what that moved and how even it was. A
//! seed fixes everything but the times measured. It links nothing but the rule itself and touches
//! no file; the binary prints and writes.

pub mod fleet;
pub mod report;
pub mod rng;
pub mod rules;
pub mod scenario;
pub mod score;
