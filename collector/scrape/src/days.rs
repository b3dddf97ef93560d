//! The days that points lie on, each once: one request may have a few only.

use millrace_wire::limits::DAYS;

const NANOS_PER_DAY: u64 = 86_400 * 1_000_000_000;

/// Days at which a request is full.
const DAYS_FULL: usize = DAYS / 4;

/// Days beyond which it takes no point of another one: half of what a request may have, since
/// behind 2106 a day may count as two. Only one line's points can come between the two numbers.
const DAYS_MAX: usize = DAYS / 2;

/// The days of a request's points.
#[derive(Debug, Default)]
pub(crate) struct Days {
    last: Option<u64>,
    known: Vec<u64>,
}

impl Days {
    /// Notes a point's time. False if its day would be one too many.
    #[inline]
    pub(crate) fn note(&mut self, unix_nano: u64) -> bool {
        let day = unix_nano / NANOS_PER_DAY;
        self.last == Some(day) || self.note_another(day)
    }

    fn note_another(&mut self, day: u64) -> bool {
        if !self.known.contains(&day) {
            if self.known.len() == DAYS_MAX {
                return false;
            }
            self.known.push(day);
        }
        self.last = Some(day);
        true
    }

    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.known.len() >= DAYS_FULL
    }

    pub(crate) fn clear(&mut self) {
        self.last = None;
        self.known.clear();
    }
}
