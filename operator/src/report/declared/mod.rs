//! Conditions that follow from a spec alone, of whatever kind: one call for all kinds. Pure.

pub mod plaintext;
pub mod spread;

use millrace_crds::{ConditionType, MillraceKind};

use crate::report::conditions::Conditions;

/// States the conditions that follow from the spec of `object`, and then `Ready` from `required`.
pub fn conclude_conditions<K: MillraceKind>(
    conditions: &mut Conditions,
    object: &K,
    required: &[ConditionType],
) {
    let (kafka, clickhouse) = (object.kafka(), object.clickhouse());
    plaintext::state_exposed_passwords(conditions, kafka, clickhouse, object.prometheus());
    if let Some(target) = clickhouse {
        spread::state_spread_rows(conditions, target, object.table_engines().into_iter());
    }
    conditions.set_paused(object.is_paused());
    conditions.derive_ready(required);
}
