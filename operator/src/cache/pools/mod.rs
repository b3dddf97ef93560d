//! Caches what is known of a pool between its reconciles.

pub mod absent;
pub mod baseline;
pub mod by_pool;
pub mod gateway;
pub mod gateway_pods;
pub mod inserts;
pub mod replays;
pub mod scraping;
pub mod sizing;
