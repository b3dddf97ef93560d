//! Queries: they read what exists, and change nothing.

pub mod check;
pub(super) mod coordination;
pub(super) mod system;
pub(super) mod test_run;
