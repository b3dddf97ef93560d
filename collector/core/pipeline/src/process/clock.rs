//! The machine's time. It gives lines their observed time and scraped points their time, schedules
//! the next scrape, determines the accepted times of a request's records, and dates dead letters.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the nanoseconds since 1970.
pub fn now_unix_nanos() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
