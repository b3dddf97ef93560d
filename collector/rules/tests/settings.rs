//! Loading of rules.

use millrace_pipeline::budget::Budget;
use millrace_pipeline::telemetry::Telemetry;
use millrace_processing::Config;
use millrace_rules::{Rules, RulesError};
use serde_json::json;

use crate::rig::steps;

/// Scenario: no rules; rules that don't compile. Guarantee: without rules nothing is put in front
/// of the exporter; errors name step, list, line and column.
#[test]
fn rules_are_absent_compiled_or_refused() {
    let telemetry = Telemetry::new(Budget::new(1), "0", "system").unwrap();
    assert!(Rules::load(&Config::default(), &telemetry).unwrap().is_none());
    let bad = steps(json!([{"name": "a", "context": "log", "statements": ["sett(body, 1)"]}]));
    let Err(error) = Rules::load(&bad, &telemetry) else { panic!("compiled") };
    assert!(matches!(error, RulesError::Compile(_)));
    let expected = "processing: step \"a\", statements[0], line 1, column 1: ";
    assert!(error.to_string().starts_with(expected), "{error}");
}
