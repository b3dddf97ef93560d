//! Parts of the process that every source and sink uses: its drain, readiness, listeners and clock.

pub mod clock;
pub mod drain;
pub mod failpoint;
pub mod mutex;
pub mod random_seed;
pub mod readiness;
