//! What a changed pipeline would do: its fields before and after, as the API server would store
//! them, and what the operator does about each. Pure.
//!
//! What can't be known from here is said: the statements of a schema's plan need ClickHouse, sizes
//! need Kafka's lag. `effects` has what each field does.

use std::collections::BTreeMap;

use millrace_crds::v1alpha1::TelemetrySchema;
use serde::Serialize;
use serde_json::Value;

use super::effects::{RESOURCES, made, of};

/// One field that differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// Its path in the spec; list items with a name are named by it.
    pub path: String,
    /// What it was; none if it is new.
    pub before: Option<Value>,
    /// What it would be; none if it goes.
    pub after: Option<Value>,
}

/// What kind of thing happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EffectKind {
    /// Something is made.
    Made,
    /// Something goes.
    Removed,
    /// Pods are replaced.
    Restart,
    /// A topic changes.
    Topic,
    /// Tables change.
    Tables,
    /// Something changes without pods being replaced.
    InPlace,
}

/// What the operator does about it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Effect {
    /// What kind of thing.
    pub kind: EffectKind,
    /// On which object.
    pub on: String,
    /// What happens.
    pub text: String,
}

/// A schema plan that waits already.
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

/// What a file would do.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanReport {
    /// The pipeline's namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Whether there is no such pipeline yet.
    pub new: bool,
    /// Fields of the spec that differ.
    pub changes: Vec<Change>,
    /// What that does.
    pub effects: Vec<Effect>,
    /// Fields that another manager owns: apply needs --force-conflicts.
    pub conflicts: Option<String>,
    /// Statements that wait already.
    pub pending: Vec<Pending>,
    /// What can't be told from here.
    pub not_told: Vec<&'static str>,
}

/// What changes from one spec to another.
#[must_use]
pub fn plan(
    (namespace, name): (&str, &str),
    before: Option<&Value>,
    after: &Value,
    conflicts: Option<String>,
    schemas: &[TelemetrySchema],
) -> PlanReport {
    let nothing = Value::Null;
    let mut changes = Vec::new();
    diff("spec", before.unwrap_or(&nothing), after, &mut changes);
    let mut effects = Vec::new();
    match before {
        None => made(name, after, &mut effects),
        Some(_) => changes.iter().for_each(|change| effects.extend(of(name, change, after))),
    }
    let effects = merged(effects);
    let touches = |kind| effects.iter().any(|effect| effect.kind == kind);
    let mut not_told = Vec::new();
    if touches(EffectKind::Tables) {
        not_told.push(
            "the statements for ClickHouse: the operator plans them against the live tables; after \
             apply they are in status.planPending of the TelemetrySchema, and run by themselves \
             only if they add. clickhouse-ddl plan tells them before",
        );
    }
    if touches(EffectKind::Restart) {
        not_told.push(
            "whether new pods start and work: a trial pod checks their settings, and a change whose \
             pods fail is rolled back",
        );
    }
    PlanReport {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        new: before.is_none(),
        changes,
        effects,
        conflicts,
        pending: schemas.iter().filter_map(pending).collect(),
        not_told,
    }
}

/// Each effect once; an object's pods are replaced once, for all causes together, and not at all
/// where the object is made.
fn merged(mut effects: Vec<Effect>) -> Vec<Effect> {
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
            (true, true) => {
                "pods are resized in place where scaling and the cluster allow it, else replaced \
                 one by one, without a trial"
            }
            (false, true) => "pods are replaced as their workload does it, without a trial",
            (true, false) => "pods are replaced by a rollout, after a trial pod",
            (false, false) => "pods are replaced, after a trial pod",
        };
        let text = format!("{}: {how}", causes.join(", "));
        Effect { kind: EffectKind::Restart, on, text }
    }));
    effects.sort();
    effects
}

fn pending(schema: &TelemetrySchema) -> Option<Pending> {
    let status = schema.status.as_ref().filter(|status| !status.plan_pending.is_empty())?;
    Some(Pending {
        schema: schema.metadata.name.clone().unwrap_or_default(),
        hash: status.plan_hash.clone(),
        steps: status.plan_pending.clone(),
    })
}

/// Fields that differ, with their paths; lists of named objects are compared by name.
fn diff(path: &str, before: &Value, after: &Value, changes: &mut Vec<Change>) {
    if before == after {
        return;
    }
    if let (Some(old), Some(new)) = (fields(before), fields(after)) {
        let names: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
        for name in names {
            let below = match (before.is_array(), after.is_array()) {
                (false, false) => format!("{path}.{name}"),
                _ => format!("{path}[{name}]"),
            };
            let at = |map: &BTreeMap<String, &Value>| map.get(name).copied().cloned();
            let (old, new) = (at(&old), at(&new));
            match (&old, &new) {
                (Some(old), Some(new)) => diff(&below, old, new, changes),
                _ => changes.push(Change { path: below, before: old, after: new }),
            }
        }
        return;
    }
    let some = |value: &Value| (!value.is_null()).then(|| value.clone());
    changes.push(Change { path: path.to_owned(), before: some(before), after: some(after) });
}

/// An object's fields, or a list's items by their names.
fn fields(value: &Value) -> Option<BTreeMap<String, &Value>> {
    match value {
        Value::Object(map) => Some(map.iter().map(|(name, value)| (name.clone(), value)).collect()),
        Value::Array(items) => {
            let named = items.iter().map(|item| Some((item["name"].as_str()?.to_owned(), item)));
            named.collect()
        }
        _ => None,
    }
}
