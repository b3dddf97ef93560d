//! What rules did, by rule.

use crate::enrich::UnlabeledReason;
use crate::error::RuleFailure;

/// The counters of a rule set, by the position in [`crate::RuleSet::rules`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// One entry per rule.
    pub rules: Vec<RuleCounts>,
    /// Records that were left as they were, because they or their request would have become too
    /// long or too deep.
    pub over_limit: u64,
    /// Records that got no metadata of a pod, by [`UnlabeledReason::index`].
    pub unlabeled: [u64; UnlabeledReason::ALL.len()],
}

/// The counters of one rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleCounts {
    /// Objects on which the rule's condition was true, or that has none. For redaction, the
    /// matches that were replaced; for sampling, the records to which the ratio applied; for
    /// enrichment, the resources whose pod is known.
    pub matched: u64,
    /// Objects that the rule changed.
    pub changed: u64,
    /// Objects that the rule dropped.
    pub dropped: u64,
    /// Records (spans, log records, data points) that went with them.
    pub dropped_records: u64,
    /// Records that the rule sent to another topic.
    pub routed_records: u64,
    /// Objects on which the rule failed.
    pub failed: u64,
    /// The estimated time of the rule, in nanoseconds, without reading and writing the request; 0
    /// without a clock ([`crate::Scratch::with_clock`]). Sampling, redaction and enrichment count
    /// it at their first rule.
    pub nanos: u64,
    /// The last failure.
    pub last_error: Option<RuleFailure>,
}

impl Counts {
    /// Returns counters of zero for `rules` rules.
    #[must_use]
    pub fn new(rules: usize) -> Self {
        Self { rules: vec![RuleCounts::default(); rules], ..Self::default() }
    }

    /// Adds the counters of another run of the same rule set.
    pub fn add(&mut self, other: &Self) {
        if self.rules.len() < other.rules.len() {
            self.rules.resize(other.rules.len(), RuleCounts::default());
        }
        for (sum, rule) in self.rules.iter_mut().zip(&other.rules) {
            sum.matched += rule.matched;
            sum.changed += rule.changed;
            sum.dropped += rule.dropped;
            sum.dropped_records += rule.dropped_records;
            sum.routed_records += rule.routed_records;
            sum.failed += rule.failed;
            sum.nanos = sum.nanos.saturating_add(rule.nanos);
            sum.last_error = rule.last_error.or(sum.last_error);
        }
        self.over_limit += other.over_limit;
        for (sum, more) in self.unlabeled.iter_mut().zip(other.unlabeled) {
            *sum += more;
        }
    }

    /// Sets all counters to zero.
    pub fn clear(&mut self) {
        self.rules.fill(RuleCounts::default());
        self.over_limit = 0;
        self.unlabeled = Default::default();
    }
}
