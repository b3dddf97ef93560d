//! When an object is reconciled again without an event. Pure.

use std::time::Duration;

use kube::runtime::controller::Action;

use crate::cache::children::fingerprint;

/// When to reconcile an object again without an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Only when it or one of its children changes.
    OnChange,
    /// After this time at the latest.
    After(Duration),
    /// After this time, or up to half of it earlier, by the object's name: objects created
    /// together, or found by one start, spread out.
    Within(Duration),
}

impl Next {
    /// What the frame does about it.
    pub(super) fn action(self, key: &str) -> Action {
        match self {
            Self::OnChange => Action::await_change(),
            Self::After(delay) => Action::requeue(delay),
            Self::Within(delay) => Action::requeue(delay - spread(key, delay / 2)),
        }
    }
}

/// A part of `most`, spread evenly over keys.
fn spread(key: &str, most: Duration) -> Duration {
    most.mul_f64((fingerprint(&key) >> 32) as f64 / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::spread;

    /// Scenario: a thousand objects made in one moment ask to be looked at again. Guarantee: no
    /// tenth of the time is given to more than a sixth of them, and each has always the same.
    #[test]
    fn objects_made_together_are_looked_at_apart() {
        let most = Duration::from_secs(100);
        let mut tenths = [0_u32; 10];
        for number in 0..1_000 {
            let key = format!("EdgePool/shop/pool-{number}");
            let part = spread(&key, most);
            assert_eq!(part, spread(&key, most));
            tenths[usize::try_from(part.as_secs() / 10).unwrap().min(9)] += 1;
        }
        assert!(tenths.iter().all(|count| (50..170).contains(count)), "{tenths:?}");
    }
}
