//! The effects of a changed pipeline: its fields before and after, as the API server would store
//! them, and what the operator does about each. Pure.
//!
//! The report states what can't be known from here: the statements of a schema's plan need
//! ClickHouse, sizes need Kafka's lag. `effects` has the effects of each field.

use std::collections::BTreeMap;

use millrace_crds::EdgeName;
use millrace_crds::v1alpha1::{PipelineSignals, TelemetrySchema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::effects::{
    ChangeEffect, EffectKind, FieldChange, RESOURCES, effects_of_change, effects_of_creation,
};

/// A schema plan that already waits.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pending {
    /// The TelemetrySchema.
    pub schema: String,
    /// The value that approves it.
    pub hash: Option<String>,
    /// Its steps.
    pub steps: Vec<String>,
}

/// The effects of a file.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanReport {
    /// The pipeline's namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Whether the pipeline does not exist yet.
    pub new: bool,
    /// Fields of the spec that differ.
    pub changes: Vec<FieldChange>,
    /// The effects.
    pub effects: Vec<ChangeEffect>,
    /// Fields that another manager owns: apply needs --force-conflicts.
    pub conflicts: Option<String>,
    /// Statements that already wait.
    pub pending: Vec<Pending>,
    /// What can't be known from here.
    pub not_covered: Vec<&'static str>,
}

/// Returns the changes from one spec to another, with their effects.
#[must_use]
pub fn plan_report(
    (namespace, name): (&str, &str),
    before: Option<&Value>,
    after: &Value,
    conflicts: Option<String>,
    schemas: &[TelemetrySchema],
) -> PlanReport {
    let nothing = Value::Null;
    let mut changes = Vec::new();
    let (old, after) = (before.map(effective_spec), &effective_spec(after));
    let old = old.as_ref().unwrap_or(&nothing);
    diff_values("spec", old, after, &mut changes);
    let mut effects = Vec::new();
    match before {
        None => effects_of_creation(name, after, &mut effects),
        Some(_) => {
            changes.iter().for_each(|change| effects.extend(effects_of_change(name, change, after)))
        }
    }
    let effects = merge_effects(effects);
    let touches = |kind| effects.iter().any(|effect| effect.kind == kind);
    let mut not_covered = Vec::new();
    if touches(EffectKind::Tables) {
        not_covered.push(
            "the statements for ClickHouse: the operator plans them against the live tables; after \
             apply they are in status.planPending of the TelemetrySchema, and only additive ones \
             run automatically. To see them before, run clickhouse-ddl plan",
        );
    }
    if touches(EffectKind::Restart) {
        not_covered.push(
            "whether new pods start and work: a trial pod checks their settings, and a failed \
             change is rolled back",
        );
    }
    PlanReport {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        new: before.is_none(),
        changes,
        effects,
        conflicts,
        pending: schemas.iter().filter_map(pending_plan).collect(),
        not_covered,
    }
}

/// Returns a pipeline's spec with the edge pool that exists if it lists none, and with the signals'
/// defaults in each signal.
pub(super) fn effective_spec(spec: &Value) -> Value {
    let mut spec = spec.clone();
    if !spec.is_object() {
        return spec;
    }
    if spec["edges"].is_null() {
        spec["edges"] = json!([{"name": EdgeName::default().as_str()}]);
    }
    let signals = PipelineSignals::deserialize(&spec["signals"]);
    if let Ok(Ok(signals)) = signals.map(|it| serde_json::to_value(it.with_defaults())) {
        spec["signals"] = signals;
    }
    spec
}

/// Removes duplicates; an object's pods are replaced once, for all causes together, and not at all
/// if the object is created.
fn merge_effects(mut effects: Vec<ChangeEffect>) -> Vec<ChangeEffect> {
    effects.sort();
    effects.dedup();
    let mut causes: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for effect in effects.iter().filter(|effect| effect.kind == EffectKind::Restart) {
        causes.entry(effect.on.clone()).or_default().push(effect.text.clone());
    }
    effects.retain(|effect| effect.kind != EffectKind::Restart);
    causes.retain(|on, _| effects.iter().all(|one| one.on != *on || one.kind != EffectKind::Made));
    effects.extend(causes.into_iter().map(|(on, causes)| {
        let gateway = on.starts_with("GatewayPool");
        let alone = matches!(&*causes, [only] if only == RESOURCES);
        let how = match (gateway, alone) {
            (_, true) => "pods are replaced by their workload's update strategy, without a trial",
            (true, false) => "pods are replaced by a rollout, after a trial pod",
            (false, false) => "pods are replaced, after a trial pod",
        };
        let text = format!("{}: {how}", causes.join(", "));
        ChangeEffect { kind: EffectKind::Restart, on, text }
    }));
    effects.sort();
    effects
}

fn pending_plan(schema: &TelemetrySchema) -> Option<Pending> {
    let status = schema.status.as_ref().filter(|status| !status.plan_pending.is_empty())?;
    Some(Pending {
        schema: schema.metadata.name.clone().unwrap_or_default(),
        hash: status.plan_hash.clone(),
        steps: status.plan_pending.clone(),
    })
}

/// Collects fields that differ, with their paths; lists of named objects are compared by name.
fn diff_values(path: &str, before: &Value, after: &Value, changes: &mut Vec<FieldChange>) {
    if before == after {
        return;
    }
    if let (Some(old), Some(new)) = (named_fields(before), named_fields(after)) {
        let names: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
        for name in names {
            let below = match (before.is_array(), after.is_array()) {
                (false, false) => format!("{path}.{name}"),
                _ => format!("{path}[{name}]"),
            };
            let at = |map: &BTreeMap<String, &Value>| map.get(name).copied().cloned();
            let (old, new) = (at(&old), at(&new));
            match (&old, &new) {
                (Some(old), Some(new)) => diff_values(&below, old, new, changes),
                _ => changes.push(FieldChange { path: below, before: old, after: new }),
            }
        }
        return;
    }
    let some = |value: &Value| (!value.is_null()).then(|| value.clone());
    changes.push(FieldChange { path: path.to_owned(), before: some(before), after: some(after) });
}

/// Returns an object's fields, or a list's items by their names.
fn named_fields(value: &Value) -> Option<BTreeMap<String, &Value>> {
    match value {
        Value::Object(map) => Some(map.iter().map(|(name, value)| (name.clone(), value)).collect()),
        Value::Array(items) => {
            let named = items.iter().map(|item| Some((item["name"].as_str()?.to_owned(), item)));
            named.collect()
        }
        _ => None,
    }
}
