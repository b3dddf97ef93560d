//! What schemas wait for and report.

mod coordination;
mod deduplication;
