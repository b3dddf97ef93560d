//! Levels: the weight of unmeasured targets, the fair share of a pod, and the number of pods
//! needed.

use crate::policy::SharingPolicy;

/// Returns the median, of an even number the lower one. Changes the order.
pub(crate) fn median(weights: &mut [u64]) -> Option<u64> {
    let middle = weights.len().checked_sub(1)? / 2;
    Some(*weights.select_nth_unstable(middle).1)
}

/// Returns each pod's load if weights could be divided freely, except that a target heavier than
/// that has a pod to itself and neither counts.
pub(crate) fn fair_share(weights: &[u64], pods: usize) -> u64 {
    if pods == 0 {
        return 0;
    }
    let mut rest: u64 = weights.iter().sum();
    let mut heaviest = weights.to_vec();
    // At most one target per pod can be too heavy.
    if heaviest.len() > pods {
        heaviest.select_nth_unstable_by(pods - 1, |a, b| b.cmp(a));
        heaviest.truncate(pods);
    }
    heaviest.sort_unstable_by(|a, b| b.cmp(a));
    let mut left = pods as u64;
    for weight in heaviest {
        if left == 1 || weight <= rest / left {
            break;
        }
        rest -= weight;
        left -= 1;
    }
    rest / left
}

/// Returns the number of pods with which none has to exceed the cap or its limit of targets. `None`
/// without a cap where one pod is enough.
pub(crate) fn needed_pods(
    weights: impl ExactSizeIterator<Item = u64>,
    policy: &SharingPolicy,
) -> Option<u64> {
    let by_count = (weights.len() as u64).div_ceil(policy.targets_max.max(1));
    match policy.cap {
        Some(cap) => {
            let by_load = pods_below(weights, cap.milli(), policy.tolerance.permille());
            Some(by_load.max(by_count))
        }
        None => (by_count > 1).then_some(by_count),
    }
}

/// Returns the number of pods with which no pod has to exceed the cap while it is within the
/// tolerance. A target over the cap has a pod to itself; the others are shared out below the cap by
/// the tolerance.
fn pods_below(weights: impl Iterator<Item = u64>, cap: u64, tolerance_permille: u64) -> u64 {
    let (alone, shared) = weights.fold((0u64, 0u64), |(alone, shared), weight| {
        if weight > cap { (alone + 1, shared) } else { (alone, shared + weight) }
    });
    let usable = (u128::from(cap) * 1_000 / u128::from(1_000 + tolerance_permille)).max(1);
    let pods = u128::from(shared).div_ceil(usable);
    alone.saturating_add(u64::try_from(pods).unwrap_or(u64::MAX)).max(1)
}

/// Returns `of` plus `permille` thousandths of it.
pub(crate) fn plus_permille(of: u64, permille: u64) -> u64 {
    let sum = u128::from(of) * u128::from(1_000 + permille) / 1_000;
    u64::try_from(sum).unwrap_or(u64::MAX)
}

/// Returns `of` minus `permille` thousandths of it, 0 at least.
pub(crate) fn minus_permille(of: u64, permille: u64) -> u64 {
    let rest = u128::from(of) * u128::from(1_000 - permille.min(1_000)) / 1_000;
    u64::try_from(rest).unwrap_or(u64::MAX)
}

/// Returns how far `load` is from `fair`, in thousandths of `fair`; 0 when both are 0.
pub(crate) fn deviation_permille(load: u64, fair: u64) -> i64 {
    if fair == 0 {
        return 0;
    }
    let permille = (i128::from(load) - i128::from(fair)) * 1_000 / i128::from(fair);
    i64::try_from(permille).unwrap_or(i64::MAX)
}
