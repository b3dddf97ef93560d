//! The values that rules compute with.

use crate::edit::memory::Ref;

/// A value during a rule.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value {
    Nil,
    Bool(bool),
    Int(i64),
    Double(f64),
    /// Text: UTF-8, as the request was checked before.
    Str(Ref),
    Bytes(Ref),
    /// The content of an `ArrayValue` message.
    List(Ref),
    /// The content of a `KeyValueList` message.
    Map(Ref),
    TraceId([u8; 16]),
    SpanId([u8; 8]),
    Time(Instant),
    /// Nanoseconds.
    Duration(i64),
    /// The number of repeated messages, such as a span's events.
    Messages(usize),
}

impl Value {
    /// Returns the type's name for messages.
    pub(crate) const fn type_name(self) -> &'static str {
        match self {
            Self::Nil => "nil",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Double(_) => "double",
            Self::Str(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::TraceId(_) => "trace id",
            Self::SpanId(_) => "span id",
            Self::Time(_) => "time",
            Self::Duration(_) => "duration",
            Self::Messages(_) => "list of messages",
        }
    }
}

const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// A point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Instant {
    /// Seconds since 1970.
    pub(crate) seconds: i64,
    /// Nanoseconds of the second: 0 to 999,999,999.
    pub(crate) nanos: u32,
}

impl Instant {
    /// Returns the time that is `seconds` and `nanos` after 1970.
    pub(crate) const fn new(seconds: i64, nanos: i64) -> Self {
        Self {
            seconds: seconds.wrapping_add(nanos.div_euclid(NANOS_PER_SECOND)),
            nanos: nanos.rem_euclid(NANOS_PER_SECOND) as u32,
        }
    }

    /// Returns the time that is `nanos` after 1970.
    pub(crate) const fn from_nanos(nanos: i64) -> Self {
        Self::new(0, nanos)
    }

    /// Returns nanoseconds since 1970; times before 1678 and after 2262 wrap around, as in Go.
    pub(crate) const fn unix_nanos(self) -> i64 {
        self.seconds.wrapping_mul(NANOS_PER_SECOND).wrapping_add(self.nanos as i64)
    }

    /// Returns the time `nanos` later.
    pub(crate) const fn add(self, nanos: i64) -> Self {
        let sum = Self::new(self.seconds, self.nanos as i64);
        let later = Self::new(sum.seconds, nanos);
        Self::new(later.seconds, later.nanos as i64 + self.nanos as i64)
    }

    /// Returns the nanoseconds since `earlier`, at the limits of 64 bits if they are more, as in
    /// Go.
    pub(crate) const fn since(self, earlier: Self) -> i64 {
        let seconds = self.seconds as i128 - earlier.seconds as i128;
        let nanos = seconds * NANOS_PER_SECOND as i128 + self.nanos as i128 - earlier.nanos as i128;
        if nanos > i64::MAX as i128 {
            i64::MAX
        } else if nanos < i64::MIN as i128 {
            i64::MIN
        } else {
            nanos as i64
        }
    }
}
