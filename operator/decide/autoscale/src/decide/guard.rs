//! Tracks changes that did not help: growth without gain, and shrinking that was soon undone.

use crate::policy::ScalingPolicy;
use crate::state::{GrowthStep, REGRET_MAX, ScalingState, SizeChange};

/// A growth helped if it brought at least this share of its predicted gain. Flink's own check uses
/// a tenth; a quarter is still far beyond the noise of a rate smoothed over half a minute, because
/// it is only checked while messages wait and so all pods work.
const HELPED_SHARE: f64 = 0.25;
/// After this many growths in a row that did not help, the pool does not grow for half an hour.
const INEFFECTIVE_MAX: u32 = 2;
const BACK_OFF_SECONDS: i64 = 1_800;

/// Once new pods work, the smoothed rate shows their effect after this long.
pub(crate) const EVALUATION_SECONDS: i64 = 45;

/// Evaluates the last growth once the group has settled. A growth helped if the pool is back within
/// its bound. `working_since` is the present less the time that new pods take. The pool does not
/// shrink back: that would cost another rebalance, and with messages waiting fewer pods never help.
pub(crate) fn evaluate_growth(state: &mut ScalingState, working_since: i64, behind: bool) {
    let Some(GrowthStep { at, before_per_second, predicted_per_second }) = state.step else {
        return;
    };
    if working_since - at < EVALUATION_SECONDS {
        return;
    }
    state.step = None;
    let gained = state.arrivals.commit_rate() - before_per_second;
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

/// Doubles the shrink window when the pool grows again soon after shrinking; a long time without
/// that reverts it.
pub(crate) fn record_regret(policy: &ScalingPolicy, state: &mut ScalingState, change: SizeChange) {
    let Some(last) = state.memory.last_change else { return };
    let shrank = last.to < last.from;
    let grows = change.to > change.from;
    let interval = change.at - last.at;
    if shrank && grows && interval < 2 * policy.shrink_after_seconds {
        state.memory.premature_shrinks = (state.memory.premature_shrinks + 1).min(REGRET_MAX);
    } else if interval > 8 * policy.shrink_after_seconds {
        state.memory.premature_shrinks = state.memory.premature_shrinks.saturating_sub(1);
    }
}
