//! The kind of points of a series.

/// The kind of points of a series, which its stale marker repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SeriesKind {
    Gauge,
    Counter,
    /// A sum that may decrease.
    Sum,
    Histogram,
    Summary,
    /// An exponential histogram.
    Exponential,
}

impl SeriesKind {
    pub(crate) const ALL: [Self; 6] =
        [Self::Gauge, Self::Counter, Self::Sum, Self::Histogram, Self::Summary, Self::Exponential];

    /// Returns the index of the target's encoded labels for its points.
    pub(crate) const fn attribute_set(self) -> usize {
        match self {
            Self::Histogram => 1,
            Self::Exponential => 2,
            _ => 0,
        }
    }

    /// Whether its points have a start time.
    #[inline]
    pub(crate) const fn has_beginning(self) -> bool {
        !matches!(self, Self::Gauge)
    }
}
