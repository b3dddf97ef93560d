//! Faults against the shipped binaries, with a real broker and a real engine, under a load whose
//! every record is judged. Links nothing of the product.
//!
//! `world` is what faults happen to, `proxy` the network in between, `faults` what happens, `run`
//! the rounds and the judgement, `report` the figures, `commits` and `watch` what the group does,
//! `logs` log files that are written, rotated, read and judged line by line.

pub mod clock;
pub mod commits;
pub mod disk;
pub mod faults;
pub mod lanes;
pub mod logs;
pub mod proxy;
pub mod report;
pub mod run;
pub mod say;
pub mod watch;
pub mod world;
