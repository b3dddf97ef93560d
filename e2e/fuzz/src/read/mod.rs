//! What receivers read that others wrote: log files, positions, pods, scraped bodies, commits.

pub mod intent;
pub mod lines;
pub mod pods;
pub mod positions;
pub mod scrape;
