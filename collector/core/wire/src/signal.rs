//! The three kinds of telemetry.

use std::fmt;
use std::str::FromStr;

/// A kind of telemetry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Signal {
    /// Spans.
    Traces,
    /// Log records.
    Logs,
    /// Metric points.
    Metrics,
}

/// A name that is none of the three signals.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown signal {0:?}; use traces, logs or metrics")]
pub struct UnknownSignal(String);

impl Signal {
    /// All signals, in a fixed order.
    pub const ALL: [Self; 3] = [Self::Traces, Self::Logs, Self::Metrics];

    /// Returns the lower-case name, as in settings, labels and topic names.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Traces => "traces",
            Self::Logs => "logs",
            Self::Metrics => "metrics",
        }
    }

    /// Returns the position in [`Signal::ALL`], for arrays with one entry per signal.
    #[must_use]
    pub const fn index(self) -> usize {
        match self {
            Self::Traces => 0,
            Self::Logs => 1,
            Self::Metrics => 2,
        }
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl FromStr for Signal {
    type Err = UnknownSignal;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|signal| signal.as_str() == name)
            .ok_or_else(|| UnknownSignal(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names and positions round-trip.
    #[test]
    fn names_and_positions_round_trip() {
        for (position, signal) in Signal::ALL.into_iter().enumerate() {
            assert_eq!(signal.as_str().parse(), Ok(signal));
            assert_eq!(signal.index(), position);
        }
        assert!("spans".parse::<Signal>().is_err());
    }
}
