//! What becomes of a batch or a request: when it is cut, retried, given up, or a dead letter.

pub mod backoff;
pub mod batch;
pub mod body;
pub mod cancellation;
pub mod dead_letter;
mod dedup_token;
pub mod delivery_path;
