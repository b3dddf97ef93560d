//! Whether a live object still holds what we applied: a pure comparison of two JSON values.
//!
//! The API server adds defaults and others may add fields, so the desired value must be *contained*
//! in the live one. Lists that the API merges by a key are matched by it; all other lists must have
//! the same length. It reports the differing fields without their values, which may be next to a
//! secret.

use serde_json::{Map, Value};

/// Maximum number of reported differing fields; one is enough to act.
const DIFFERENCES_MAX: usize = 5;

/// Returns the fields of `desired` that `live` lacks or has with another value, as dotted paths;
/// empty if none.
#[must_use]
pub fn find_differences(desired: &Value, live: &Value) -> Vec<String> {
    let mut found = Vec::new();
    walk_value(desired, Some(live), &mut String::new(), &mut found);
    found
}

fn walk_value(desired: &Value, live: Option<&Value>, path: &mut String, found: &mut Vec<String>) {
    if found.len() >= DIFFERENCES_MAX || is_nothing(desired) {
        return;
    }
    match (desired, live) {
        (Value::Object(desired), Some(Value::Object(live))) => {
            for (key, value) in desired {
                with_field(path, key, |path| walk_value(value, live.get(key), path, found));
            }
        }
        (Value::Array(desired), Some(Value::Array(live))) => walk_list(desired, live, path, found),
        (_, Some(live)) if same_leaf(desired, live, path) => {}
        _ => found.push(path.clone()),
    }
}

/// Returns what to remove from `live` before applying `desired`, as a JSON merge patch: the fields
/// of `ours` (in the form of `FieldsV1`) where an empty object is desired. When an apply removes an
/// object's last field, Kubernetes up to at least 1.34 makes it null and refuses that
/// (kubernetes/kubernetes#135841). `None`: nothing.
#[must_use]
pub fn emptying_patch(desired: &Value, live: &Value, ours: &Value) -> Option<Value> {
    let (desired, live) = (desired.as_object()?, live.as_object()?);
    let of = |key: &str| ours.get(format!("f:{key}"));
    let patch: Map<String, Value> = if desired.is_empty() {
        live.keys().filter(|key| of(key).is_some()).map(|key| (key.clone(), Value::Null)).collect()
    } else {
        let inner = desired.iter().filter_map(|(key, value)| {
            Some((key.clone(), emptying_patch(value, live.get(key)?, of(key)?)?))
        });
        inner.collect()
    };
    (!patch.is_empty()).then_some(Value::Object(patch))
}

fn walk_list(desired: &[Value], live: &[Value], path: &mut String, found: &mut Vec<String>) {
    match merge_keys(path) {
        Some(keys) => {
            for item in desired {
                let twin =
                    live.iter().find(|other| keys.iter().all(|key| same_key(item, other, key)));
                let label = keys.iter().find_map(|key| item.get(key)).map_or_else(
                    || "?".to_owned(),
                    |key| key.as_str().map_or_else(|| key.to_string(), ToOwned::to_owned),
                );
                with_field(path, &label, |path| walk_value(item, twin, path, found));
            }
        }
        None if desired.len() == live.len() => {
            for (index, (item, twin)) in desired.iter().zip(live).enumerate() {
                with_field(path, &index.to_string(), |path| {
                    walk_value(item, Some(twin), path, found)
                });
            }
        }
        None => found.push(path.clone()),
    }
}

/// Returns whether a desired value is empty: the API server drops empty lists and nulls.
#[must_use]
pub fn is_nothing(desired: &Value) -> bool {
    match desired {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// The path of a pool's pod template: the API server doesn't know its fields, merges objects and
/// replaces lists.
const UNTYPED: &str = "podTemplate.spec.";

/// Returns the keys by which the API merges the list at `path`, from the `listMapKey` markers of
/// the types we apply. Lists not named here are atomic or sets.
#[must_use]
pub fn merge_keys(path: &str) -> Option<&'static [&'static str]> {
    if path.contains(UNTYPED) {
        return None;
    }
    match path.rsplit('.').next().unwrap_or(path) {
        "containers" | "initContainers" | "env" | "volumes" | "imagePullSecrets"
        | "resourceClaims" | "claims" | "schedulingGates" => Some(&["name"]),
        "volumeMounts" => Some(&["mountPath"]),
        "volumeDevices" => Some(&["devicePath"]),
        "hostAliases" => Some(&["ip"]),
        // A NetworkPolicy's ports are an atomic list; a container's and a Service's are merged.
        "ports" if path.contains("ingress") || path.contains("egress") => None,
        "ports" if path.contains("ontainers.") => Some(&["containerPort", "protocol"]),
        "ports" => Some(&["port", "protocol"]),
        "topologySpreadConstraints" => Some(&["topologyKey", "whenUnsatisfiable"]),
        "ownerReferences" => Some(&["uid"]),
        _ => None,
    }
}

/// Objects that the API server assigns completely to one manager.
const ATOMIC: [&str; 10] = [
    "selector",
    "nodeSelector",
    "labelSelector",
    "podSelector",
    "fieldRef",
    "resourceFieldRef",
    "configMapKeyRef",
    "secretKeyRef",
    "requiredDuringSchedulingIgnoredDuringExecution",
    "nodePublishSecretRef",
];

/// Returns whether the API treats the object at `path` as atomic.
#[must_use]
pub fn is_atomic(path: &str) -> bool {
    ATOMIC.contains(&path.rsplit('.').next().unwrap_or(path)) && !path.contains(UNTYPED)
}

/// Returns whether two items carry the same merge key; a missing `protocol` is TCP, as the API
/// defaults it.
#[must_use]
pub fn same_key(desired: &Value, live: &Value, key: &str) -> bool {
    let default = (key == "protocol").then(|| Value::from("TCP"));
    desired.get(key).or(default.as_ref()) == live.get(key).or(default.as_ref())
}

fn same_leaf(desired: &Value, live: &Value, path: &str) -> bool {
    if desired == live {
        return true;
    }
    match (desired, live) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        // The API server normalizes quantities: 1024Mi comes back as 1Gi.
        (Value::String(a), Value::String(b)) if is_quantity_path(path) => {
            let (desired, live) = (parse_quantity_millis(a), parse_quantity_millis(b));
            desired.is_some() && desired == live
        }
        // Some fields retain an empty object and others drop it; more content is no difference.
        (Value::Object(a), _) => a == &Map::new() && live.is_object(),
        _ => false,
    }
}

fn is_quantity_path(path: &str) -> bool {
    path.contains(".resources.") || path.ends_with(".sizeLimit") || path.ends_with(".divisor")
}

/// Returns a quantity of the API server, such as bytes or cores; `None` if it isn't one.
#[must_use]
pub fn parse_quantity(text: &str) -> Option<f64> {
    const UNITS: [(&str, f64); 12] = [
        ("Ki", 1024.0),
        ("Mi", 1048576.0),
        ("Gi", 1073741824.0),
        ("Ti", 1099511627776.0),
        ("n", 1e-9),
        ("u", 1e-6),
        ("m", 1e-3),
        ("k", 1e3),
        ("M", 1e6),
        ("G", 1e9),
        ("T", 1e12),
        ("", 1.0),
    ];
    UNITS.iter().find_map(|(unit, factor)| {
        let number: f64 = text.strip_suffix(unit)?.parse().ok()?;
        (number.is_finite() && number >= 0.0).then_some(number * factor)
    })
}

/// Returns a quantity in thousandths of its unit; `None` if it isn't one.
#[must_use]
pub fn parse_quantity_millis(text: &str) -> Option<i128> {
    Some((parse_quantity(text)? * 1e3).round() as i128)
}

/// Calls `then` with `path` extended by `key`, and restores the path.
pub fn with_field<T>(path: &mut String, key: &str, then: impl FnOnce(&mut String) -> T) -> T {
    let length = path.len();
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(key);
    let done = then(path);
    path.truncate(length);
    done
}

#[cfg(test)]
mod tests;
