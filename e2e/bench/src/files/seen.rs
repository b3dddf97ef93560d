//! Which records arrived, and when: each has a number of its own in its text.
//!
//! The same marker is looked for in whatever a collector sends, as long as that holds the text as
//! it is: OTLP in protobuf does, and so do the blocks of VictoriaLogs. So one count serves all.
//!
//! Limits: it counts numbers, it doesn't compare texts (the tests of the collector do).

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use memchr::memmem;

/// What stands before a record's number.
const MARK: &[u8] = b"seq=";
/// A number's digits: every one has so many.
const DIGITS: usize = 9;

/// A record's marker, which stands once in its text.
pub(super) fn mark(number: u64) -> String {
    format!("seq={number:0DIGITS$}")
}

/// The records that are awaited.
#[derive(Debug)]
pub(super) struct Seen {
    began: Instant,
    /// Microseconds from the beginning to the first arrival, by number; 0 for none yet.
    arrivals: Vec<AtomicU64>,
    distinct: AtomicU64,
    repeated: AtomicU64,
    unknown: AtomicU64,
}

impl Seen {
    /// Awaits the numbers below `count`.
    pub(super) fn new(count: u64) -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            began: Instant::now(),
            arrivals: (0..count).map(|_| zero()).collect(),
            distinct: zero(),
            repeated: zero(),
            unknown: zero(),
        }
    }

    /// Takes the markers out of what arrived.
    pub(super) fn take(&self, bytes: &[u8]) {
        let now = self.micros(Instant::now()).max(1);
        for at in memmem::find_iter(bytes, MARK) {
            let digits = bytes.get(at + MARK.len()..at + MARK.len() + DIGITS);
            let number = digits.and_then(|it| std::str::from_utf8(it).ok()?.parse::<usize>().ok());
            match number.and_then(|number| self.arrivals.get(number)) {
                None => &self.unknown,
                Some(arrival) if arrival.swap(now, Ordering::AcqRel) == 0 => &self.distinct,
                Some(_) => &self.repeated,
            }
            .fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Microseconds from the beginning to a moment.
    pub(super) fn micros(&self, at: Instant) -> u64 {
        u64::try_from(at.duration_since(self.began).as_micros()).unwrap_or(u64::MAX)
    }

    /// When a number came last, in microseconds from the beginning.
    pub(super) fn arrival(&self, number: u64) -> Option<u64> {
        let arrival = self.arrivals.get(usize::try_from(number).ok()?)?.load(Ordering::Acquire);
        (arrival > 0).then_some(arrival)
    }

    /// How many are awaited.
    pub(super) fn count(&self) -> u64 {
        self.arrivals.len() as u64
    }

    /// How many arrived, each counted once.
    pub(super) fn distinct(&self) -> u64 {
        self.distinct.load(Ordering::Acquire)
    }

    /// How many arrivals were of one that had arrived before.
    pub(super) fn repeated(&self) -> u64 {
        self.repeated.load(Ordering::Acquire)
    }

    /// How many markers were of no number that is awaited.
    pub(super) fn unknown(&self) -> u64 {
        self.unknown.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::{Seen, mark};

    /// Scenario: two records in one piece, one of them again, one that nobody awaits, and a marker
    /// cut off. Guarantee: each is counted as what it is.
    #[test]
    fn arrivals_are_counted_by_number() {
        let seen = Seen::new(3);
        seen.take(format!("\x0a\x12{} and {}", mark(0), mark(2)).as_bytes());
        seen.take(format!("{} {} seq=00", mark(2), mark(3)).as_bytes());
        assert_eq!((seen.distinct(), seen.repeated(), seen.unknown()), (2, 1, 2));
        assert!(seen.arrival(0).is_some() && seen.arrival(1).is_none());
    }
}
