//! The machine's time: when a line was read, which becomes its record's observed time, and when a
//! target is scraped, which becomes its points' time and decides when the next scrape is due.

use std::time::{SystemTime, UNIX_EPOCH};

/// Nanoseconds since 1970.
pub(crate) fn now_unix_nanos() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
