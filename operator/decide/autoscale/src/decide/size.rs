//! Useful sizes: bounds, and steps that change how many partitions a pod reads.

/// The minimum and maximum size allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Minimum pods.
    pub floor: u32,
    /// Maximum pods: the policy's maximum, or the number of partitions when that is less.
    pub ceiling: u32,
}

impl Bounds {
    /// Returns the bounds of a policy with so many partitions. When partitions allow fewer than the
    /// minimum, partitions win: a pod without a partition only costs.
    #[must_use]
    pub fn new(min: u32, max: u32, partitions: Option<u32>) -> Self {
        let ceiling = partitions.map_or(max, |partitions| max.min(partitions)).max(1);
        Self { floor: min.clamp(1, ceiling), ceiling }
    }

    /// Returns the nearest size inside the bounds.
    #[must_use]
    pub fn clamp(self, size: u32) -> u32 {
        size.clamp(self.floor, self.ceiling)
    }
}

/// Returns the smallest larger size at which the busiest pod reads fewer partitions, if the bounds
/// allow one.
#[must_use]
pub fn next_larger(current: u32, partitions: u32, bounds: Bounds) -> Option<u32> {
    let per_pod = partitions.div_ceil(current.max(1));
    if per_pod <= 1 {
        return None;
    }
    let larger = partitions.div_ceil(per_pod - 1);
    (larger > current && larger <= bounds.ceiling).then_some(larger)
}

/// Returns the next useful smaller size, if the bounds allow one: the smallest pool whose busiest
/// pod reads as many partitions as that of a pool with one pod less.
#[must_use]
pub fn next_smaller(current: u32, partitions: u32, bounds: Bounds) -> Option<u32> {
    let one_less = current.checked_sub(1).filter(|size| *size >= bounds.floor.max(1))?;
    let per_pod = partitions.div_ceil(one_less).max(1);
    Some(partitions.div_ceil(per_pod).clamp(bounds.floor.max(1), one_less))
}

/// Returns the useful sizes inside the bounds, from the smallest: each reads fewer partitions per
/// pod than the one before. The floor is always included.
pub(crate) fn useful_sizes(partitions: u32, bounds: Bounds) -> impl Iterator<Item = u32> {
    std::iter::successors(Some(bounds.floor), move |size| next_larger(*size, partitions, bounds))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: 12 partitions. Guarantee: sizes go 1, 2, 3, 4, 6, 12 and back, never 5.
    #[test]
    fn sizes_that_gain_nothing_are_skipped() {
        let bounds = Bounds::new(1, 100, Some(12));
        let mut size = 1;
        let mut seen = vec![size];
        while let Some(larger) = next_larger(size, 12, bounds) {
            size = larger;
            seen.push(size);
        }
        assert_eq!(seen, [1, 2, 3, 4, 6, 12]);
        let mut back = vec![size];
        while let Some(smaller) = next_smaller(size, 12, bounds) {
            size = smaller;
            back.push(size);
        }
        assert_eq!(back, [12, 6, 4, 3, 2, 1]);
    }

    /// Scenario: a person set a size between two steps. Guarantee: both directions find a step.
    #[test]
    fn a_size_between_steps_finds_its_neighbours() {
        let bounds = Bounds::new(1, 100, Some(12));
        assert_eq!(next_larger(5, 12, bounds), Some(6));
        assert_eq!(next_smaller(5, 12, bounds), Some(4));
    }

    /// Scenario: more pods requested than partitions. Guarantee: partitions are the ceiling.
    #[test]
    fn partitions_are_the_ceiling() {
        assert_eq!(Bounds::new(4, 8, Some(2)), Bounds { floor: 2, ceiling: 2 });
        assert_eq!(Bounds::new(4, 8, Some(0)), Bounds { floor: 1, ceiling: 1 });
        assert_eq!(next_larger(2, 2, Bounds::new(1, 8, Some(2))), None);
    }
}
