//! Which fields of statuses change, and how often: whoever finds writes at rest needs the field.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// Changes of one field.
#[derive(Clone, Debug, Default)]
pub(crate) struct FieldChanges {
    pub(crate) count: u64,
    /// The newest one: the value before and after it.
    pub(crate) last: (Value, Value),
}

/// Changes by field, as the path in a status; conditions are named by their type.
pub(crate) type StatusChanges = BTreeMap<String, FieldChanges>;

/// Adds the fields in which two statuses differ.
pub(super) fn record_difference(changes: &mut StatusChanges, before: &Value, now: &Value) {
    record_at(changes, String::new(), before, now);
}

fn record_at(changes: &mut StatusChanges, path: String, before: &Value, now: &Value) {
    if before == now {
        return;
    }
    let (before_fields, now_fields) = (fields_of(before), fields_of(now));
    if before_fields.is_empty() || now_fields.is_empty() {
        let field = changes.entry(path).or_default();
        field.count += 1;
        field.last = (before.clone(), now.clone());
        return;
    }
    let names = before_fields.keys().chain(now_fields.keys());
    let names: BTreeSet<&String> = names.collect();
    for name in names {
        let value = |fields: &BTreeMap<String, &Value>| {
            fields.get(name).map_or(Value::Null, |value| (*value).clone())
        };
        record_at(changes, format!("{path}/{name}"), &value(&before_fields), &value(&now_fields));
    }
}

/// The parts of an object, or of a list whose items have types; none of any other value.
fn fields_of(value: &Value) -> BTreeMap<String, &Value> {
    match value {
        Value::Object(fields) => fields.iter().map(|(name, it)| (name.clone(), it)).collect(),
        Value::Array(items) => {
            items.iter().filter_map(|it| Some((it.get("type")?.as_str()?.to_owned(), it))).collect()
        }
        _ => BTreeMap::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Scenario: two statuses differ in a condition's reason, in a nested number, and one has a
    /// field more. Guarantee: exactly these fields are counted, by path.
    #[test]
    fn fields_that_differ_are_counted_by_path() {
        let condition = |reason: &str| json!([{"type": "Ready", "reason": reason}]);
        let before = json!({"conditions": condition("A"), "lag": {"seconds": 1}, "pods": "1/1"});
        let now = json!({"conditions": condition("B"), "lag": {"seconds": 2}, "pods": "1/1",
            "image": "c"});
        let mut changes = StatusChanges::new();
        record_difference(&mut changes, &before, &now);
        let paths: Vec<&String> = changes.keys().collect();
        assert_eq!(paths, ["/conditions/Ready/reason", "/image", "/lag/seconds"]);
        assert_eq!(changes["/lag/seconds"].last, (json!(1), json!(2)));
    }
}
