//! Decides when an object is reconciled again without an event. Pure.

use std::time::Duration;

use kube::runtime::controller::Action;

use crate::cache::children::fingerprint_of;

/// The time of an object's next reconcile without an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Only when the object or one of its children changes.
    OnChange,
    /// After this time at the latest.
    After(Duration),
    /// After this time, or up to half of it earlier, by the object's name: this spreads objects
    /// that were created together, or read at one start.
    Within(Duration),
}

impl Next {
    /// Returns the controller's action.
    pub(super) fn to_action(self, key: &str) -> Action {
        match self {
            Self::OnChange => Action::await_change(),
            Self::After(delay) => Action::requeue(delay),
            Self::Within(delay) => Action::requeue(delay - spread_delay(key, delay / 2)),
        }
    }
}

/// Returns a part of `most`, spread evenly over keys.
fn spread_delay(key: &str, most: Duration) -> Duration {
    most.mul_f64((fingerprint_of(&key) >> 32) as f64 / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::spread_delay;

    /// Scenario: a thousand objects created at once request a repeated reconcile. Guarantee: no
    /// tenth of the time gets more than a sixth of them, and each object's time is always the same.
    #[test]
    fn objects_made_together_are_looked_at_apart() {
        let most = Duration::from_secs(100);
        let mut tenths = [0_u32; 10];
        for number in 0..1_000 {
            let key = format!("EdgePool/shop/pool-{number}");
            let part = spread_delay(&key, most);
            assert_eq!(part, spread_delay(&key, most));
            tenths[usize::try_from(part.as_secs() / 10).unwrap().min(9)] += 1;
        }
        assert!(tenths.iter().all(|count| (50..170).contains(count)), "{tenths:?}");
    }
}
