//! What schemas wait for and report.

mod approval;
mod coordination;
mod deduplication;
