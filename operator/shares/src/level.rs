//! Levels: the weight of targets that aren't measured, the fair share of a pod, pods needed.

/// The middle one; of an even number the lower. Changes the order.
pub(crate) fn median(weights: &mut [u64]) -> Option<u64> {
    let middle = weights.len().checked_sub(1)? / 2;
    Some(*weights.select_nth_unstable(middle).1)
}

/// What each pod would have if weights could be divided at will, except that a target that is
/// heavier than that has a pod to itself and counts for neither.
pub(crate) fn fair(weights: &[u64], pods: usize) -> u64 {
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

/// Pods with which no pod has to be over the cap while it is within the tolerance. A target over
/// the cap has a pod to itself; the others are shared out below the cap by the tolerance.
pub(crate) fn needed_pods(
    weights: impl Iterator<Item = u64>,
    cap: u64,
    tolerance_permille: u64,
) -> u64 {
    let (alone, shared) = weights.fold((0u64, 0u64), |(alone, shared), weight| {
        if weight > cap { (alone + 1, shared) } else { (alone, shared + weight) }
    });
    let usable = (u128::from(cap) * 1_000 / u128::from(1_000 + tolerance_permille)).max(1);
    let pods = u128::from(shared).div_ceil(usable);
    alone.saturating_add(u64::try_from(pods).unwrap_or(u64::MAX)).max(1)
}

/// `of` and so many thousandths of it.
pub(crate) fn above(of: u64, permille: u64) -> u64 {
    let sum = u128::from(of) * u128::from(1_000 + permille) / 1_000;
    u64::try_from(sum).unwrap_or(u64::MAX)
}

/// `of` less so many thousandths of it, at most all.
pub(crate) fn below(of: u64, permille: u64) -> u64 {
    let rest = u128::from(of) * u128::from(1_000 - permille.min(1_000)) / 1_000;
    u64::try_from(rest).unwrap_or(u64::MAX)
}

/// How far `load` is from `fair`, in thousandths of it; none of none is 0.
pub(crate) fn deviation_permille(load: u64, fair: u64) -> i64 {
    if fair == 0 {
        return 0;
    }
    let permille = (i128::from(load) - i128::from(fair)) * 1_000 / i128::from(fair);
    i64::try_from(permille).unwrap_or(i64::MAX)
}
