//! Rules that select a ratio.

use millrace_processing::sample::{
    MissingRandomness, Mode, RULES_MAX, RatioTable, SampleConfig, SampleProblemKind, Sampling,
};
use serde_json::json;

/// Service and namespace, what the conditions answer, the rule, and the evaluated conditions.
type Case =
    (Option<&'static str>, Option<&'static str>, [bool; 2], Option<usize>, &'static [usize]);

fn table(config: serde_json::Value) -> RatioTable {
    let config: SampleConfig = serde_json::from_value(config).expect("settings");
    RatioTable::compile(&config).expect("usable settings")
}

/// Scenario: rules by service, namespace, condition, and their combinations.
/// Guarantee: the first rule of which all parts hold applies; conditions after it aren't evaluated.
#[test]
fn the_first_rule_that_matches_applies() {
    let table = table(json!({
        "ratio": 0.5,
        "mode": "Equalizing",
        "rules": [
            {"name": "errors", "condition": "status.code == STATUS_CODE_ERROR", "ratio": 1},
            {"name": "health", "service": "probe*", "ratio": 0},
            {"name": "slow-shop", "namespace": "shop", "condition": "slow", "ratio": 0.25},
            {"name": "shop", "namespace": "shop", "ratio": 0.125},
        ],
    }));
    assert_eq!(table.rules(), 4);
    assert!(table.reads_resources() && table.needs_randomness());
    let cases: [Case; 8] = [
        (Some("cart"), Some("shop"), [true, true], Some(0), &[0]),
        (Some("probe-7"), Some("shop"), [false, true], Some(1), &[0]),
        (Some("cart"), Some("shop"), [false, true], Some(2), &[0, 2]),
        (Some("cart"), Some("shop"), [false, false], Some(3), &[0, 2]),
        (Some("cart"), Some("shop-2"), [false, true], None, &[0]),
        (None, None, [false, true], None, &[0]),
        (Some("prob"), None, [false, false], None, &[0]),
        (Some(""), Some(""), [true, false], Some(0), &[0]),
    ];
    for (service, namespace, holds, rule, evaluated) in cases {
        let resource = table.for_resource(service.map(str::as_bytes), namespace.map(str::as_bytes));
        let mut conditions = Vec::new();
        let choice = table.choose(resource, |condition| {
            conditions.push(condition);
            holds[usize::from(condition > 0)]
        });
        assert_eq!((choice.rule, &conditions[..]), (rule, evaluated), "{service:?} {namespace:?}");
        let ratio = [1.0, 0.0, 0.25, 0.125][..].get(rule.unwrap_or(9)).copied().unwrap_or(0.5);
        assert_eq!(Some(*choice.sampling), Sampling::from_ratio(ratio, Mode::Equalizing, 4));
    }
}

/// Scenario: settings with faults in all fields.
/// Guarantee: every fault is reported with its field.
#[test]
fn all_faults_of_the_settings_are_reported() {
    let config: SampleConfig = serde_json::from_value(json!({
        "ratio": 1.5,
        "precision": 15,
        "rules": [
            {"name": "a", "ratio": 0.1},
            {"name": "a", "service": "x*y", "ratio": -1},
            {"name": "", "namespace": "", "ratio": 1},
        ],
    }))
    .expect("settings");
    let problems = RatioTable::compile(&config).expect_err("faults");
    let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let paths: Vec<&str> = problems.iter().filter_map(|text| text.split(": ").next()).collect();
    assert_eq!(
        paths,
        [
            "precision",
            "ratio",
            "rules[0]",
            "rules[1].name",
            "rules[1].service",
            "rules[1].ratio",
            "rules[2].name",
            "rules[2].namespace",
        ],
        "{problems:#?}"
    );
}

/// Scenario: one rule more than permitted, and a field that doesn't exist.
/// Guarantee: both are refused; defaults are the documented ones.
#[test]
fn settings_are_bounded_and_strict() {
    let rule = |index| json!({"name": format!("r{index}"), "service": "s", "ratio": 0.5});
    let rules: Vec<_> = (0..=RULES_MAX).map(rule).collect();
    let config: SampleConfig =
        serde_json::from_value(json!({"ratio": 1, "rules": rules})).expect("settings");
    let problems = RatioTable::compile(&config).expect_err("too many");
    assert_eq!(problems[0].kind, SampleProblemKind::TooManyRules(RULES_MAX + 1));
    let config: SampleConfig = serde_json::from_value(json!({"ratio": 0.1})).expect("settings");
    assert_eq!((config.mode, config.precision), (Mode::Proportional, 4));
    assert_eq!(config.missing_randomness, MissingRandomness::Keep);
    for unknown in
        [json!({"ratio": 1, "percent": 10}), json!({"ratio": 1, "rules": [{"ratio": 1}]})]
    {
        assert!(serde_json::from_value::<SampleConfig>(unknown).is_err());
    }
}
