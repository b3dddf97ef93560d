//! Plays the sizing rule, and models of others, on consumer groups in discrete time.
//!
//! A [`trace::Trace`] is a load with its faults, a [`world::World`] plays it second by second, a
//! [`rules::Rule`] sees [`signals::Seen`] and asks for a size, and a [`score::Score`] says what it
//! cost. A seed fixes everything: the same run gives the same score on every machine. It links
//! nothing but the rule itself and touches no file; the binary prints and writes.

pub mod group;
pub mod plot;
pub mod report;
pub mod rng;
pub mod rules;
pub mod run;
pub mod score;
pub mod signals;
pub mod trace;
pub mod world;
