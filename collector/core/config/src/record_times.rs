//! Which times records may have.

use crate::document::check::Checker;
use crate::document::section::section;

section! {
    /// Accepted record times, relative to the arrival of their request at an edge. Records without
    /// a time are accepted.
    pub struct RecordTimes {
        /// Maximum time before it, in days.
        pub past_days: u32 = 30,
        /// Maximum time after it, in hours. More than a day, so that clocks that are a day behind
        /// lose no records.
        pub future_hours: u32 = 48,
    }
}

section! {
    /// Accepted record times, relative to the time of their message in Kafka. Records without a
    /// time are accepted.
    pub struct MessageTimes {
        /// Maximum time before it, in days. More than a year, since lines of container and kernel
        /// logs are as old as the log.
        pub past_days: u32 = 400,
        /// Maximum time after it, in hours.
        pub future_hours: u32 = 48,
    }
}

impl Checker<'_> {
    pub(crate) fn check_record_times(&mut self, field: &str, past_days: u32, future_hours: u32) {
        // A hundred years either way: every time there is.
        self.check_range(&format!("{field}.pastDays"), past_days, 1..=36_500);
        self.check_range(&format!("{field}.futureHours"), future_hours, 1..=876_000);
    }
}
