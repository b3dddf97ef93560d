//! Commits: when one is due, what it names, and what a committed offset remembers.

pub(crate) mod committed_metadata;
pub(crate) mod committer;
pub(crate) mod decide;
pub(crate) mod state;
