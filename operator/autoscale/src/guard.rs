//! Memory of changes that did not help: growth without gain, and shrinking that was soon undone.

use crate::policy::Policy;
use crate::state::{Change, REGRET_MAX, State, Step};

/// A growth that brought less than this share of what it was to bring did not help. Flink's own
/// check uses a tenth; a quarter is still far beyond the noise of a rate smoothed over half a
/// minute, because it is only asked while messages wait and so all pods work.
const HELPED_SHARE: f64 = 0.25;
/// Growing that did not help twice in a row stops for half an hour.
const INEFFECTIVE_MAX: u32 = 2;
const BACK_OFF_SECONDS: i64 = 1_800;

/// Once new pods work, the smoothed rate shows what they brought after this long.
pub(crate) const JUDGE_SECONDS: i64 = 45;

/// Judges the last growth once the group has settled. A pool that is back within its bound was
/// helped. `working_since` is the present less the time that new pods take. The pool is not made
/// smaller again: that would cost another rebalance, and with messages waiting fewer pods are never
/// the answer.
pub(crate) fn did_it_help(state: &mut State, working_since: i64, behind: bool) {
    let Some(Step { at, before_per_second, predicted_per_second }) = state.step else { return };
    if working_since - at < JUDGE_SECONDS {
        return;
    }
    state.step = None;
    let gained = state.arrivals.committed() - before_per_second;
    if !behind || gained >= HELPED_SHARE * predicted_per_second {
        state.memory.ineffective = 0;
        return;
    }
    state.memory.ineffective += 1;
    if state.memory.ineffective >= INEFFECTIVE_MAX {
        state.memory.ineffective = 0;
        state.memory.back_off_until = Some(working_since + BACK_OFF_SECONDS);
    }
}

/// Growing again soon after shrinking doubles the patience; a long time without takes it back.
pub(crate) fn regret(policy: &Policy, state: &mut State, change: Change) {
    let Some(last) = state.memory.last_change else { return };
    let shrank = last.to < last.from;
    let grows = change.to > change.from;
    let apart = change.at - last.at;
    if shrank && grows && apart < 2 * policy.shrink_after_seconds {
        state.memory.regrets = (state.memory.regrets + 1).min(REGRET_MAX);
    } else if apart > 8 * policy.shrink_after_seconds {
        state.memory.regrets = state.memory.regrets.saturating_sub(1);
    }
}
