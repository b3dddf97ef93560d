//! Scraped targets: found, and shared out among pods.

mod monitors;
mod scraped;
mod sharing;
