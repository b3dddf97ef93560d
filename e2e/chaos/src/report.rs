//! What a fault came to, as a line of JSON, and the sums of all.

use serde_json::{Value, json};

/// A fault's outcome, over all its rounds.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// The fault.
    pub fault: String,
    /// How often it was done.
    pub runs: u32,
    /// Records acknowledged meanwhile.
    pub records: u64,
    /// Of these, not found.
    pub missing: u64,
    /// Found more often than sent.
    pub duplicated: u64,
    /// Found with other content.
    pub altered: u64,
    /// Found and never sent.
    pub invented: u64,
    /// Copies that clients made by sending again after a lost answer; OTLP allows them.
    pub resent: u64,
    /// How many may be duplicated; 0 where delivery is effectively once.
    pub bound: u64,
    /// From the end of a fault until everything was ready and caught up, in seconds; the longest.
    pub recovered_s_max: f64,
    /// The most resident memory of a collector, in MiB.
    pub rss_mib_max: u64,
    /// How long all of it took, in seconds.
    pub seconds: f64,
    /// Promises that didn't hold.
    pub broken: Vec<String>,
}

impl Outcome {
    /// Adds another round, or another fault.
    pub fn add(&mut self, other: &Self) {
        self.runs += other.runs;
        self.records += other.records;
        self.missing += other.missing;
        self.duplicated += other.duplicated;
        self.altered += other.altered;
        self.invented += other.invented;
        self.resent += other.resent;
        self.bound += other.bound;
        self.recovered_s_max = self.recovered_s_max.max(other.recovered_s_max);
        self.rss_mib_max = self.rss_mib_max.max(other.rss_mib_max);
        self.seconds += other.seconds;
        self.broken.extend(other.broken.iter().cloned());
    }

    /// Whether every promise held.
    pub fn is_kept(&self) -> bool {
        self.broken.is_empty()
    }

    /// One line.
    pub fn line(&self, seed: u64) -> String {
        let tenth = |seconds: f64| (seconds * 10.0).round() / 10.0;
        let value: Value = json!({
            "fault": self.fault,
            "runs": self.runs,
            "records": self.records,
            "missing": self.missing,
            "duplicated": self.duplicated,
            "altered": self.altered,
            "invented": self.invented,
            "resent": self.resent,
            "bound": self.bound,
            "recovered_s_max": tenth(self.recovered_s_max),
            "rss_mib_max": self.rss_mib_max,
            "seconds": tenth(self.seconds),
            "seed": seed,
            "broken": self.broken,
        });
        value.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: two rounds, one with a broken promise. Guarantee: figures add up, times and memory
    /// are the highest, and the sum isn't kept.
    #[test]
    fn rounds_add_up_and_a_broken_promise_stays() {
        let mut sum = Outcome { runs: 2, recovered_s_max: 3.0, ..Outcome::default() };
        let other = Outcome {
            runs: 1,
            missing: 4,
            recovered_s_max: 1.0,
            broken: vec!["missing".to_owned()],
            ..Outcome::default()
        };
        assert!(sum.is_kept());
        sum.add(&other);
        assert_eq!((sum.runs, sum.missing, sum.recovered_s_max), (3, 4, 3.0));
        assert!(!sum.is_kept() && sum.line(5).contains("\"seed\":5"));
    }
}
