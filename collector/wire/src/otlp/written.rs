//! How many bytes the records of a request are written as, and on how many days they lie: known
//! from the request's bytes alone, so that the edge refuses what a gateway couldn't store.
//!
//! Tables have a row per record, and what records share (resource, scope, metric) is written with
//! each of them. The measure follows what that costs in memory, which is the compressed form: LZ4
//! looks back 64 KiB, so what repeats within that nearly vanishes, and what is longer doesn't.

/// What a record counts beside its own bytes: about what a row of empty values takes.
pub const ROW_BYTES: u64 = 32;

/// Shared bytes up to this length count a part only: half of what LZ4 looks back, so that a repeat
/// is found whatever is between.
const FOLDED_BYTES: u64 = 32 * 1024;

/// That part: an eighth. LZ4 makes less than a twentieth of such repeats; the rest stands for the
/// time that it takes here and for the memory on the server, where all of it is written out.
const FOLDED_PART: u64 = 8;

/// What `shared_bytes` count each time they are written with a record.
#[inline]
#[must_use]
pub const fn repeated_bytes(shared_bytes: u64) -> u64 {
    if shared_bytes <= FOLDED_BYTES { shared_bytes.div_ceil(FOLDED_PART) } else { shared_bytes }
}

const NANOS_PER_SECOND: u64 = 1_000_000_000;
const SECONDS_PER_DAY: u64 = 86_400;
const NANOS_PER_DAY: u64 = NANOS_PER_SECOND * SECONDS_PER_DAY;
/// Where seconds no longer fit into 32 bits, and days by seconds start again: in February 2106.
const SECONDS_END_NANOS: u64 = (1 << 32) * NANOS_PER_SECOND;

/// The days of records, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Days {
    /// Most requests have one day only: no list for it.
    first: Option<u32>,
    more: Vec<u32>,
    /// Times of the last one: from, and how long.
    last: (u64, u64),
}

impl Days {
    /// Notes the time of a record, in nanoseconds since 1970. False when that makes more than
    /// `limit` days; it isn't noted then.
    #[inline]
    pub fn note(&mut self, unix_nano: u64, limit: usize) -> bool {
        unix_nano.wrapping_sub(self.last.0) < self.last.1 || self.note_another(unix_nano, limit)
    }

    #[inline(never)]
    fn note_another(&mut self, unix_nano: u64, limit: usize) -> bool {
        let start = unix_nano / NANOS_PER_DAY * NANOS_PER_DAY;
        let same = if start <= SECONDS_END_NANOS - NANOS_PER_DAY { NANOS_PER_DAY } else { 0 };
        self.last = (start, same);
        self.add(key(unix_nano), limit)
    }

    fn add(&mut self, key: u32, limit: usize) -> bool {
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

    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.first.is_some() as usize + self.more.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    fn iter(&self) -> impl Iterator<Item = u32> {
        self.first.into_iter().chain(self.more.iter().copied())
    }

    /// Forgets all. What was allocated is kept.
    pub fn clear(&mut self) {
        self.first = None;
        self.more.clear();
        self.last = (0, 0);
    }
}

/// A day as tables may be partitioned: by date and by seconds in 32 bits. The two are the same
/// until 2106; behind it this tells apart what either does.
fn key(unix_nano: u64) -> u32 {
    // Times end where a signed number of nanoseconds does.
    let nanos = unix_nano.min(i64::MAX as u64);
    let by_date = (nanos / NANOS_PER_DAY) as u16;
    let by_seconds = (u64::from((nanos / NANOS_PER_SECOND) as u32) / SECONDS_PER_DAY) as u16;
    u32::from(by_date) << 16 | u32::from(by_seconds)
}

/// What the records of a checked request come to: found by [`super::check`], or found again by
/// [`super::outline`] of a request that was checked before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Spans, log records or metric points.
    pub records: u64,
    /// The bytes they are written as, by this module's measure.
    pub written_bytes: u64,
    /// The days they lie on.
    pub days: Days,
}

impl Checked {
    /// Of a request of which no more is known than its records: it is joined with no other.
    #[must_use]
    pub fn alone(records: u64) -> Self {
        Self { records, written_bytes: u64::MAX, days: Days::default() }
    }
}

/// What requests come to that are joined into one message.
#[derive(Clone, Debug, Default)]
pub struct Joined {
    written_bytes: u64,
    days: Days,
}

impl Joined {
    /// Adds a request, if all of them together then are within `limits` as if they were one.
    #[must_use]
    pub fn admit(&mut self, request: &Checked, limits: &crate::limits::Limits) -> bool {
        let written_bytes = self.written_bytes.saturating_add(request.written_bytes);
        let new = request.days.iter().filter(|&day| self.days.iter().all(|known| known != day));
        if written_bytes > limits.written_bytes || self.days.len() + new.count() > limits.days {
            return false;
        }
        self.written_bytes = written_bytes;
        request.days.iter().all(|day| self.days.add(day, limits.days))
    }

    /// Forgets all requests.
    pub fn clear(&mut self) {
        self.written_bytes = 0;
        self.days.clear();
    }
}

#[cfg(test)]
#[path = "../../tests/unit/otlp/written.rs"]
mod tests;
