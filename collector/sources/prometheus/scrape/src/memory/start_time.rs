//! Decides when a series started, as far as scrapes show. Pure.

use crate::memory::series::SeriesState;

/// Returns the start of a series as far as known: its first scrape, or the first one after a reset.
#[inline]
pub(super) fn start_time(old: Option<SeriesState>, value: Option<f64>, time_unix_nano: u64) -> u64 {
    match (old, value) {
        (Some(old), Some(value)) if value >= old.value => old.start_unix_nano,
        (Some(old), None) => old.start_unix_nano,
        _ => time_unix_nano,
    }
}
