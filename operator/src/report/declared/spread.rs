//! Rows spread over independent servers: a shard of several servers whose tables aren't replicated.
//! Reported by a condition and an event, not refused: the endpoints may be addresses of one server,
//! or the servers may replicate by other means. Pure.

use millrace_crds::v1alpha1::{ClickHouseTarget, Engine, Signal};
use millrace_crds::{ConditionType, Reason};

use crate::report::conditions::Conditions;

/// States `TablesNotReplicated` for a spec whose inserts may go to any of several servers of a
/// shard, into tables of these engines, and removes it otherwise.
pub fn state_spread_rows(
    conditions: &mut Conditions,
    target: &ClickHouseTarget,
    engines: impl Iterator<Item = (Signal, Engine)>,
) {
    let several = target.endpoints.len() > usize::from(target.shards().max(1));
    let alone = |engine| matches!(engine, Engine::MergeTree | Engine::ReplacingMergeTree);
    let signals = engines.filter(|(_, engine)| several && alone(*engine));
    let signals: Vec<&str> = signals.map(|(signal, _)| signal.as_str()).collect();
    if signals.is_empty() {
        conditions.remove_condition(ConditionType::TablesNotReplicated);
        return;
    }
    let message = format!(
        "the tables of {} are not replicated, and a shard has several clickhouse.endpoints: when \
         an insert fails over to the next one, that server alone has its rows, and a repetition at \
         another one is stored as a duplicate. Choose a Replicated engine (in a new database or \
         tablePrefix), name one endpoint for each shard, or set clickhouse.shards to the number of \
         servers",
        signals.join(", ")
    );
    conditions.set_true(ConditionType::TablesNotReplicated, Reason::ServersNotReplicas, message);
}
