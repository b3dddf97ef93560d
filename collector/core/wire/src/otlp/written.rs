//! Measures the written size of a request's records and their days from the request's bytes alone,
//! so that the edge refuses what a gateway couldn't store.
//!
//! Tables have a row per record, and what records share (resource, scope, metric) is written with
//! each of them. The measure follows the cost in memory, which is the compressed form: LZ4 searches
//! back 64 KiB, so repeated data within that nearly vanishes, and longer data doesn't.

/// The bytes counted per record in addition to its own: about the size of a row of empty values.
pub const ROW_BYTES: u64 = 32;

/// Shared data up to this length counts only in part: half of LZ4's window, so that a repetition is
/// found whatever is between.
const FOLDED_BYTES: u64 = 32 * 1024;

/// That part: an eighth. LZ4 compresses such repetitions to less than a twentieth; the remainder
/// accounts for the time that it takes here and for the memory on the server, where all of it is
/// decompressed.
const FOLDED_PART: u64 = 8;

/// Returns the bytes counted for `shared_bytes` each time they are written with a record.
#[inline]
#[must_use]
pub const fn repeated_bytes(shared_bytes: u64) -> u64 {
    if shared_bytes <= FOLDED_BYTES { shared_bytes.div_ceil(FOLDED_PART) } else { shared_bytes }
}

const NANOS_PER_SECOND: u64 = 1_000_000_000;
const SECONDS_PER_DAY: u64 = 86_400;
const NANOS_PER_DAY: u64 = NANOS_PER_SECOND * SECONDS_PER_DAY;
/// The time at which seconds no longer fit into 32 bits, and days by seconds restart: in February
/// 2106.
const SECONDS_END_NANOS: u64 = (1 << 32) * NANOS_PER_SECOND;

/// The days of records, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Days {
    /// Most requests have only one day, which needs no list.
    first: Option<u32>,
    more: Vec<u32>,
    /// The last day's first time and its length.
    last: (u64, u64),
}

impl Days {
    /// Adds the day of a record's time, in nanoseconds since 1970. Returns false, and adds nothing,
    /// if that would exceed `limit` days.
    #[inline]
    pub fn record_time(&mut self, unix_nano: u64, limit: usize) -> bool {
        unix_nano.wrapping_sub(self.last.0) < self.last.1 || self.record_new_day(unix_nano, limit)
    }

    #[inline(never)]
    fn record_new_day(&mut self, unix_nano: u64, limit: usize) -> bool {
        let start = unix_nano / NANOS_PER_DAY * NANOS_PER_DAY;
        let same = if start <= SECONDS_END_NANOS - NANOS_PER_DAY { NANOS_PER_DAY } else { 0 };
        self.last = (start, same);
        self.insert_day(day_key(unix_nano), limit)
    }

    fn insert_day(&mut self, key: u32, limit: usize) -> bool {
        if self.first == Some(key) || self.more.contains(&key) {
            return true;
        }
        if self.len() >= limit {
            self.last = (0, 0);
            return false;
        }
        match self.first {
            None => self.first = Some(key),
            Some(_) => self.more.push(key),
        }
        true
    }

    /// Returns the number of days.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.first.is_some() as usize + self.more.len()
    }

    /// Whether there are no days.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    fn iter(&self) -> impl Iterator<Item = u32> {
        self.first.into_iter().chain(self.more.iter().copied())
    }

    /// Removes all days. Retains the allocation.
    pub fn clear(&mut self) {
        self.first = None;
        self.more.clear();
        self.last = (0, 0);
    }
}

/// Returns the key of a day for tables partitioned by date or by seconds in 32 bits. The two are
/// equal until 2106; after that the key distinguishes days that differ in either.
fn day_key(unix_nano: u64) -> u32 {
    // Times end at the largest signed number of nanoseconds.
    let nanos = unix_nano.min(i64::MAX as u64);
    let by_date = (nanos / NANOS_PER_DAY) as u16;
    let by_seconds = (u64::from((nanos / NANOS_PER_SECOND) as u32) / SECONDS_PER_DAY) as u16;
    u32::from(by_date) << 16 | u32::from(by_seconds)
}

/// The outline of a checked request: found by [`super::check`], or by [`super::outline`] for a
/// request that was checked before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestOutline {
    /// Spans, log records or metric points.
    pub records: u64,
    /// The written size, by this module's measure.
    pub written_bytes: u64,
    /// The days of the records.
    pub days: Days,
    /// Records whose times are not accepted. No other field counts them, as if
    /// [`super::retain_in_range`] had removed them.
    pub out_of_range: u64,
}

impl RequestOutline {
    /// Returns the outline of a request of which only the number of records is known: it is joined
    /// with no other.
    #[must_use]
    pub fn unjoinable(records: u64) -> Self {
        Self { records, written_bytes: u64::MAX, ..Self::default() }
    }
}

/// The outline of requests that are joined into one message.
#[derive(Clone, Debug, Default)]
pub struct CombinedOutline {
    written_bytes: u64,
    days: Days,
}

impl CombinedOutline {
    /// Adds a request if all of them together stay within `limits` for one request.
    #[must_use]
    pub fn try_add(
        &mut self,
        request: &RequestOutline,
        limits: &crate::limits::WireLimits,
    ) -> bool {
        let written_bytes = self.written_bytes.saturating_add(request.written_bytes);
        let new = request.days.iter().filter(|&day| self.days.iter().all(|known| known != day));
        if written_bytes > limits.written_bytes || self.days.len() + new.count() > limits.days {
            return false;
        }
        self.written_bytes = written_bytes;
        request.days.iter().all(|day| self.days.insert_day(day, limits.days))
    }

    /// Removes all requests.
    pub fn clear(&mut self) {
        self.written_bytes = 0;
        self.days.clear();
    }
}

#[cfg(test)]
mod tests;
