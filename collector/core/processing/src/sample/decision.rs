//! Decides about one record.

use super::{MissingRandomness, Mode, Randomness, Threshold};

/// What a record carries about sampling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SamplingItem {
    /// Its explicit randomness, else that of its trace id, else that of a hash. Absent: it has
    /// none of them.
    pub randomness: Option<Randomness>,
    /// The threshold at which earlier samplers sampled it. Absent counts as zero.
    pub incoming: Option<Threshold>,
}

/// How a record's threshold changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outgoing {
    /// What the record carries stays, byte for byte.
    Unchanged,
    /// The record carries this threshold from now on.
    Write(Threshold),
    /// The record carries a threshold that its randomness contradicts: it is removed.
    Erase,
}

/// Why a record was sampled or dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Its randomness was compared with a threshold.
    Probability,
    /// Its rule keeps every record, or drops every record.
    Rule,
    /// It has no randomness, and [`MissingRandomness`] decided.
    MissingRandomness,
}

/// The answer for one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SamplingDecision {
    /// Whether the record is sampled.
    pub is_sampled: bool,
    /// How the record's threshold changes, if it is sampled.
    pub outgoing: Outgoing,
    /// The threshold that a sampled record carries afterwards. Absent: none, it counts once.
    pub threshold: Option<Threshold>,
    /// Why.
    pub reason: Reason,
    /// Whether the record's randomness is below the threshold that it came with, so that no
    /// consistent sampler can have sampled it. Its threshold counts as absent then.
    pub is_inconsistent: bool,
}

impl SamplingDecision {
    /// How many records a sampled one represents.
    #[must_use]
    pub fn adjusted_count(&self) -> f64 {
        self.threshold.map_or(1.0, Threshold::adjusted_count)
    }
}

/// What a rule does with its records.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sampling {
    /// Keeps every record: a ratio of 1. The threshold that a record came with stays.
    Always,
    /// Drops every record: a ratio of 0.
    Never,
    /// Raises every record's threshold to this one at least. Records that came with a higher one
    /// pass unchanged: a sampler can't undo what an earlier one dropped.
    Equalize(Threshold),
    /// Multiplies every record's probability.
    Multiply {
        /// The factor, in `[2^-56, 1)`.
        probability: f64,
        /// The significant hexadecimal digits of the product.
        precision: u8,
    },
}

impl Sampling {
    /// The sampling of a ratio in `[0, 1]`. Absent outside, for NaN, and below 2^-56.
    #[must_use]
    pub fn from_ratio(ratio: f64, mode: Mode, precision: u8) -> Option<Self> {
        if ratio == 0.0 {
            return Some(Self::Never);
        }
        let threshold = Threshold::from_probability(ratio, precision)?;
        Some(match mode {
            _ if threshold == Threshold::ZERO => Self::Always,
            Mode::Equalizing => Self::Equalize(threshold),
            Mode::Proportional => Self::Multiply { probability: ratio, precision },
        })
    }

    /// Whether the answer depends on the record's randomness. If it doesn't, the caller need not
    /// compute it.
    #[must_use]
    pub const fn needs_randomness(&self) -> bool {
        matches!(self, Self::Equalize(_) | Self::Multiply { .. })
    }

    /// Decides about one record.
    #[must_use]
    pub fn decide(&self, item: SamplingItem, missing: MissingRandomness) -> SamplingDecision {
        let is_inconsistent = match (item.randomness, item.incoming) {
            (Some(randomness), Some(incoming)) => !randomness.passes(incoming),
            _ => false,
        };
        let incoming = item.incoming.filter(|_| !is_inconsistent);
        let (is_sampled, threshold, reason) = self.judge(item.randomness, incoming, missing);
        let outgoing = match threshold {
            Some(threshold) if item.incoming != Some(threshold) => Outgoing::Write(threshold),
            None if is_inconsistent => Outgoing::Erase,
            _ => Outgoing::Unchanged,
        };
        SamplingDecision { is_sampled, outgoing, threshold, reason, is_inconsistent }
    }

    fn judge(
        &self,
        randomness: Option<Randomness>,
        incoming: Option<Threshold>,
        missing: MissingRandomness,
    ) -> (bool, Option<Threshold>, Reason) {
        let before = incoming.unwrap_or(Threshold::ZERO);
        let combined = match *self {
            Self::Always => return (true, incoming, Reason::Rule),
            Self::Never => return (false, incoming, Reason::Rule),
            Self::Equalize(threshold) => Some(threshold.max(before)),
            Self::Multiply { probability, precision } => {
                let product = probability * before.probability();
                let threshold = Threshold::from_probability(product, precision);
                // Rounding to few digits may end below what was applied already.
                threshold.map(|threshold| threshold.max(before))
            }
        };
        let Some(randomness) = randomness else {
            let is_sampled = missing == MissingRandomness::Keep;
            return (is_sampled, incoming, Reason::MissingRandomness);
        };
        match combined {
            Some(threshold) => (randomness.passes(threshold), Some(threshold), Reason::Probability),
            // The product is below the smallest probability.
            None => (false, incoming, Reason::Probability),
        }
    }
}
