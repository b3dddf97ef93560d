//! What is committed must be what the types say.

use std::path::Path;

use millrace_crds::{ConditionType, Kind};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// Scenario: a type changed and nobody ran the generator. Guarantee: this fails and names the
/// file; so the charts, the pages and the types can't tell different stories.
#[test]
fn committed_files_are_what_the_types_generate() {
    for (path, wanted) in millrace_crds::reference::generated_files().unwrap() {
        let found = std::fs::read_to_string(root().join(&path)).unwrap_or_default();
        assert!(
            found == wanted,
            "{path} is out of date: run `cargo run -p millrace-crds --bin crdgen -- .`"
        );
    }
}

/// Scenario: a file that was generated once and no longer is, such as the policy of a field that is
/// gone. Guarantee: this fails and names it, since the chart installs whatever is in its folder.
#[test]
fn the_chart_installs_nothing_but_what_is_generated() {
    let generated = millrace_crds::reference::generated_files().unwrap();
    let folder = millrace_crds::reference::CHART_FILES;
    for entry in root().join(folder).read_dir().unwrap() {
        let path = format!("{folder}/{}", entry.unwrap().file_name().to_string_lossy());
        assert!(generated.iter().any(|(of, _)| *of == path), "nobody generates {path}: remove it");
    }
}

/// Scenario: every definition. Guarantee: none has what the API server drops or warns about
/// (empty lists, unsigned formats), or what would change stored objects (defaults).
#[test]
fn definitions_hold_nothing_that_makes_a_lasting_difference() {
    for crd in millrace_crds::all_definitions().unwrap() {
        let text = millrace_crds::render_yaml(&crd).unwrap();
        for banned in [": []", "format: uint", "nullable:", "anyOf:", "oneOf:"] {
            assert!(!text.contains(banned), "{}: {banned}", crd.spec.names.kind);
        }
        let schema = serde_json::to_value(&crd.spec.versions[0].schema).unwrap();
        without_defaults(&schema["openAPIV3Schema"], &crd.spec.names.kind);
    }
}

/// Scenario: every kind. Guarantee: its status holds all of its conditions at once: the API server
/// refuses a status with a longer list.
#[test]
fn a_status_holds_all_conditions_of_its_kind() {
    for (kind, crd) in Kind::ALL.iter().zip(millrace_crds::all_definitions().unwrap()) {
        assert_eq!(crd.spec.names.kind, kind.as_str());
        let schema = serde_json::to_value(&crd.spec.versions[0].schema).unwrap();
        let status = &schema["openAPIV3Schema"]["properties"]["status"];
        let most = status["properties"]["conditions"]["maxItems"].as_u64().unwrap();
        let types = ConditionType::ALL.iter().filter(|type_| type_.kinds().contains(kind));
        assert!(types.count() as u64 <= most, "{kind:?}");
    }
}

fn without_defaults(schema: &serde_json::Value, path: &str) {
    assert!(schema["default"].is_null(), "{path} has a default");
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        without_defaults(inner, &format!("{path}.{name}"));
    }
    let inner = ["items", "additionalProperties"].into_iter().filter_map(|at| schema.get(at));
    inner.for_each(|inner| without_defaults(inner, path));
}

/// Scenario: every field of every kind. Guarantee: `kubectl explain` has something to say, and
/// text and lists have a limit (the CEL budget counts on it).
#[test]
fn every_field_is_described_and_limited() {
    for crd in millrace_crds::all_definitions().unwrap() {
        let schema = crd.spec.versions[0].schema.clone().unwrap().open_api_v3_schema;
        let schema = serde_json::to_value(schema).unwrap();
        walk(&schema["properties"]["spec"], &crd.spec.names.kind, true);
        walk(&schema["properties"]["status"], &crd.spec.names.kind, true);
    }
}

fn walk(schema: &serde_json::Value, path: &str, named: bool) {
    let object = schema.as_object().unwrap();
    let has = |key: &str| object.contains_key(key);
    assert!(!named || has("description"), "{path} has no description");
    if object.get("x-kubernetes-int-or-string") == Some(&true.into()) {
        return;
    }
    match object["type"].as_str().unwrap() {
        "string" => assert!(
            has("maxLength") || has("enum") || has("format"),
            "{path} has no longest length"
        ),
        "array" => assert!(has("maxItems"), "{path} has no largest number of items"),
        "object" if has("additionalProperties") => assert!(has("maxProperties"), "{path}"),
        _ => {}
    }
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        walk(inner, &format!("{path}.{name}"), true);
    }
    for key in ["items", "additionalProperties"] {
        if has(key) {
            walk(&schema[key], &format!("{path}[]"), false);
        }
    }
}
