//! The day of a row's table partition.

/// A table partition: days since 1970-01-01, as the server's `toDate` counts them (16 bits that
/// wrap around in June 2149). Rows of one day belong to one partition if the server's time zone is
/// UTC, its default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day(pub u16);

impl Day {
    /// Returns the day of an instant in nanoseconds since 1970.
    #[inline]
    pub(crate) fn from_ticks(ticks: i64) -> Self {
        Self((ticks / NANOS_PER_DAY) as u16)
    }

    /// Returns the day that `toDate(toDateTime(...))` computes, through seconds in 32 bits.
    #[inline]
    pub(crate) fn by_seconds(ticks: i64) -> Self {
        Self(((ticks / NANOS_PER_SECOND) as u32 / SECONDS_PER_DAY) as u16)
    }
}

const NANOS_PER_SECOND: i64 = 1_000_000_000;
const SECONDS_PER_DAY: u32 = 86_400;
const NANOS_PER_DAY: i64 = NANOS_PER_SECOND * SECONDS_PER_DAY as i64;
