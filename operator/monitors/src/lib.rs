//! Scrape targets of a Kubernetes cluster, as its monitors describe them. Pure: no clock, no I/O.
//!
//! [`Scraped`] is what comes out: jobs, their targets with final labels, and what of the monitors
//! can't be used.

mod scraped;

pub use scraped::{Effect, Fault, MonitorId, MonitorKind, Scraped, ScrapedTarget};
