//! Tests that shared types are documented once, and the pages stay short.

use std::collections::BTreeMap;

use super::*;
use crate::all_definitions;

/// The most fields on a pipeline's page: more can't be read.
const PIPELINE_FIELDS_MAX: usize = 250;

/// The most fields of a type that is documented in more than one place.
const REPEATED_FIELDS_MAX: usize = 3;

fn collect() -> SharedTypes {
    SharedTypes::collect(&all_definitions().unwrap()).unwrap()
}

/// Scenario: a field that gives a shared type its name is renamed or gets another type. Guarantee:
/// this fails, instead of a page without the type.
#[test]
fn every_shared_type_exists() {
    let shared = collect();
    let names: Vec<&str> = shared.types.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, SHARED.map(|(name, _)| name));
    for name in names {
        assert!(!shared.uses_of(name).is_empty(), "{name} is not used");
    }
}

/// Scenario: a type with several fields is used in two places, and is not in the list of shared
/// types. Guarantee: this fails and names both.
#[test]
fn no_larger_type_is_documented_twice() {
    let shared = collect();
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let kinds = shared.kinds.iter().map(|(kind, schema)| (kind.as_str(), schema));
    for (owner, schema) in kinds.chain(shared.types.iter().map(|(name, schema)| (*name, schema))) {
        let mut rows = Vec::new();
        shared.push_rows(schema, owner, &mut rows);
        for row in rows.iter().filter(|row| row.shared.is_none()) {
            let inner =
                if row.schema["items"].is_object() { &row.schema["items"] } else { row.schema };
            let mut below = Vec::new();
            shared.push_rows(inner, "", &mut below);
            if below.len() > REPEATED_FIELDS_MAX {
                let mut key = inner.clone();
                key.as_object_mut().unwrap().remove("description");
                places.entry(key.to_string()).or_default().push(row.path.clone());
            }
        }
    }
    let twice: Vec<_> = places.into_values().filter(|paths| paths.len() > 1).collect();
    assert!(twice.is_empty(), "add them to SHARED: {twice:#?}");
}

/// Scenario: the spec of a pipeline grows. Guarantee: its page stays readable.
#[test]
fn the_page_of_a_pipeline_is_short() {
    let shared = collect();
    let (_, schema) = shared.kinds.iter().find(|(kind, _)| kind == "TelemetryPipeline").unwrap();
    let mut rows = Vec::new();
    shared.push_rows(&schema["properties"]["spec"], "spec", &mut rows);
    assert!(rows.len() < PIPELINE_FIELDS_MAX, "{} fields", rows.len());
}
