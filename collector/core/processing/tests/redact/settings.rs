//! Settings of redaction that are refused.

use millrace_processing::redact::{
    HASH_KEY_BYTES_MIN, PATTERN_BYTES_MAX, PATTERNS_MAX, RedactConfig, RedactProblemKind, Redactor,
};
use serde_json::json;

fn problems(config: serde_json::Value, key: Option<&[u8]>) -> Vec<(String, RedactProblemKind)> {
    let config: RedactConfig = serde_json::from_value(config).expect("settings");
    let problems = Redactor::compile(&config, key).expect_err("faults");
    problems.into_iter().map(|problem| (problem.path, problem.kind)).collect()
}

/// Scenario: settings with a fault in each field.
/// Guarantee: each fault is reported with its field; all of them at once.
#[test]
fn all_faults_of_the_settings_are_reported() {
    let found = problems(
        json!({
            "sets": ["Email"],
            "action": {"mask": {"text": "x".repeat(33)}},
            "setActions": [
                {"set": "Email", "action": {"mask": {"keepLast": 9}}},
                {"set": "Card", "action": {"drop": {}}},
                {"set": "Email", "action": {"drop": {}}},
            ],
            "patterns": [
                {"name": "Email", "pattern": "a"},
                {"name": "", "pattern": "("},
                {"name": "x", "pattern": "a*"},
                {
                    "name": "x",
                    "pattern": "a".repeat(PATTERN_BYTES_MAX + 1),
                    "action": {"hash": {"length": 7}},
                },
            ],
            "ignoredKeys": {"patterns": ["["]},
            "blockedKeys": {"names": vec!["k"; 257], "action": {"hash": {}}},
        }),
        None,
    );
    let paths: Vec<&str> = found.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "action",
            "setActions[1].set",
            "setActions[2].set",
            "setActions[0].action",
            "patterns[0].name",
            "patterns[1].name",
            "patterns[1].pattern",
            "patterns[2].pattern",
            "patterns[3].name",
            "patterns[3].pattern",
            "patterns[3].action",
            "ignoredKeys",
            "blockedKeys",
            "blockedKeys.action",
        ],
        "{found:#?}"
    );
    assert_eq!(found[7].1, RedactProblemKind::MatchesNothing);
    assert_eq!(found[13].1, RedactProblemKind::NoHashKey);
}

/// Scenario: a hash with a key that is too short, patterns that are too many or too large.
/// Guarantee: they are refused; the limits themselves are accepted.
#[test]
fn keys_and_patterns_are_bounded() {
    let hash = json!({"action": {"hash": {}}});
    let key = [1; HASH_KEY_BYTES_MIN];
    let short = problems(hash.clone(), Some(&key[1..]));
    assert_eq!(short, [("action".to_owned(), RedactProblemKind::HashKeyLength(15))]);
    let config = serde_json::from_value(hash).expect("settings");
    assert!(Redactor::compile(&config, Some(&key)).is_ok());

    let pattern = |index| json!({"name": format!("p{index}"), "pattern": format!("secret{index}")});
    let patterns: Vec<_> = (0..=PATTERNS_MAX).map(pattern).collect();
    let many = problems(json!({"patterns": patterns}), None);
    assert_eq!(many[0].1, RedactProblemKind::TooManyPatterns(PATTERNS_MAX + 1));
    let config = serde_json::from_value(json!({"patterns": patterns[1..]})).expect("settings");
    assert!(Redactor::compile(&config, None).is_ok());

    let large = json!({"patterns": [{"name": "large", "pattern": "[ab]*a[ab]{18}"}]});
    let large = problems(large, None);
    assert!(matches!(large[0].1, RedactProblemKind::PatternsTooLarge(_)), "{large:?}");
}

/// Scenario: fields, sets and actions that don't exist; settings as a user writes them.
/// Guarantee: unknown names are refused; settings survive being written and read.
#[test]
fn settings_are_strict_and_round_trip() {
    for unknown in [
        json!({"set": ["Email"]}),
        json!({"sets": ["phone"]}),
        json!({"sets": ["email"]}),
        json!({"action": "drop"}),
        json!({"action": {"erase": {}}}),
        json!({"action": {"mask": {"keep": 4}}}),
        json!({"patterns": [{"name": "a", "regex": "b"}]}),
        json!({"blockedKeys": {"keys": []}}),
    ] {
        assert!(serde_json::from_value::<RedactConfig>(unknown.clone()).is_err(), "{unknown}");
    }
    let config: RedactConfig = serde_json::from_value(json!({
        "sets": ["Email", "PrivateKey"],
        "action": {"hash": {"length": 20, "encoding": "Base64"}},
        "setActions": [{"set": "Email", "action": {"mask": {"text": "@", "keepLast": 2}}}],
        "hashKeyFile": "/etc/millrace/hash-key",
        "patterns": [{"name": "a", "pattern": "b", "action": {"drop": {}}}],
        "allowedKeys": {"names": ["x"]},
    }))
    .expect("settings");
    let written = serde_json::to_value(&config).expect("JSON");
    assert_eq!(serde_json::from_value::<RedactConfig>(written).expect("settings"), config);
}
