//! Rules of a spec and the collector's settings have the same fields, defaults and words.

use millrace_crds::v1alpha1::ProcessingStep;
use millrace_processing::{Config, Step};
use millrace_rule_settings::{PoolStepsError, build_settings, compile_rules, pool_steps};
use serde_json::{Value, json};

/// Every field of a step, of both kinds alike but for the key of hashes.
const EVERY_FIELD: &str = r#"
- name: edit
  signals: [Traces, Logs, Metrics]
  errorMode: Silent
  context: resource
  statements: ['set(resource.attributes["team"], "web")']
- name: drop
  errorMode: Propagate
  drop:
    resources: ['resource.attributes["test"] == true']
    scopes: ['scope.name == "debug"']
    logs: ['log.severity_number < SEVERITY_NUMBER_INFO']
    spans: ['span.name == "GET /healthz"']
    spanEvents: ['spanevent.name == "tick"']
    metrics: ['metric.name == "go_gc"']
    dataPoints: ['datapoint.attributes["le"] == "0"']
- name: mask
  redact: {}
- name: redact
  redact:
    sets: [Email, Bearer, Basic, Jwt, Card, Iban, PrivateKey, CloudKey, Ipv4, Ipv6]
    patterns:
      - {name: order, pattern: 'order-[0-9]+', action: {mask: {text: '#', keepLast: 4}}}
      - {name: user, pattern: 'user=[a-z]+'}
    action: {hash: {length: 20, encoding: Base64}}
    setActions:
      - {set: Email, action: {mask: {}}}
      - {set: Card, action: {drop: {}}}
      - {set: Ipv4, action: {hash: {}}}
    KEY
    ignoredKeys: {names: [url.path], patterns: ['^http\.']}
    allowedKeys: {names: [a], patterns: ['^b']}
    blockedKeys: {names: [password], patterns: ['(?i)secret'], action: {drop: {}}}
- name: share
  sample:
    ratio: 0.25
    keep: ['span.status.code == STATUS_CODE_ERROR']
    rules:
      - {name: shop, service: 'shop*', namespace: prod, ratio: 1}
      - {name: slow, condition: 'span.kind == SPAN_KIND_SERVER', ratio: 0.5}
    mode: Equalizing
    precision: 6
    missingRandomness: Drop
    logs: {attribute: session.id, seed: 7}
- name: audit
  route: {topic: audit-logs, logs: ['log.attributes["audit"] == true']}
- name: slow
  route: {topic: slow.traces, spans: ['span.name == "slow"']}
- name: team
  route: {topic: team, metrics: ['metric.name == "m"']}
- name: all-defaults
  sample: {ratio: 0}
- name: pods
  enrich:
    podMetadata:
      association: [PodUid, PodIp, PodName, Connection]
      labels: [app, 'team.io/*']
      annotations: [note]
      namespaceLabels: [team]
      onConflict: Keep
"#;

fn steps(text: &str) -> Vec<ProcessingStep> {
    serde_norway::from_str(text).unwrap()
}

fn settings(steps: &[ProcessingStep]) -> Config {
    build_settings(steps, |key| format!("/secrets/{}/{}", key.name.as_str(), key.key.as_str()))
}

/// Scenario: each field of each step. Guarantee: the collector reads the same text as the same
/// steps, so a field has one name, one form and one default in both.
#[test]
fn a_spec_and_the_settings_are_written_alike() {
    let spec = EVERY_FIELD.replace("KEY", "hashKeySecret: {name: hashes, key: key}");
    let file = EVERY_FIELD.replace("KEY", "hashKeyFile: /secrets/hashes/key");
    let expected: Vec<Step> = serde_norway::from_str(&file).unwrap();
    assert_eq!(settings(&steps(&spec)), Config { steps: expected });
}

/// Scenario: the same spec, read and written again as its child gets it. Guarantee: nothing is
/// lost.
#[test]
fn a_spec_reads_back_as_it_was_written() {
    let spec = steps(&EVERY_FIELD.replace("KEY", "hashKeySecret: {name: hashes, key: key}"));
    let written = serde_json::to_value(&spec).unwrap();
    assert_eq!(serde_json::from_value::<Vec<ProcessingStep>>(written.clone()).unwrap(), spec);
    // As the API server writes whole numbers.
    assert_eq!(written[8]["sample"], json!({"ratio": 0}));
    assert_eq!(written[4]["sample"]["rules"][0]["ratio"], json!(1));
    assert_eq!(written[2], json!({"name": "mask", "redact": {}}));
}

/// Scenario: rules with mistakes. Guarantee: the message has the step, the position in the text,
/// the nearest name, few enough words for a condition, and the number of further errors.
#[test]
fn mistakes_are_reported_with_their_position() {
    let error = |text: &str| compile_rules(&settings(&steps(text))).unwrap_err().to_string();
    let one = error(r#"[{name: a, statements: ['sett(log.attributes["a"], 1)']}]"#);
    assert!(one.starts_with(r#"step "a", statements[0], line 1, column 1: "#), "{one}");
    assert!(one.contains(r#"did you mean "set"?"#), "{one}");
    let many: Vec<Value> = (0..9).map(|_| json!("sett(log.attributes[\"a\"], 1)")).collect();
    let many = json!([{"name": "a", "statements": many}]).to_string();
    let many = error(&many);
    assert!(many.ends_with("; and 6 more errors") && many.len() < 1_000, "{many}");
    assert_eq!(compile_rules(&settings(&[])).unwrap().rules(), []);
}

/// Scenario: steps of a pipeline and of a pool, some with the same name, and too many. Guarantee:
/// the pipeline's come first; what can't be one list is refused with what to do.
#[test]
fn a_pool_runs_its_pipelines_steps_first() {
    let step = |name: String| ProcessingStep { name, ..ProcessingStep::default() };
    let named = |range: std::ops::Range<u32>| -> Vec<ProcessingStep> {
        range.map(|number| step(format!("s{number}"))).collect()
    };
    assert_eq!(pool_steps(&named(0..2), &named(2..3)), Ok(named(0..3)));
    let same = pool_steps(&named(0..2), &named(1..3));
    assert_eq!(same, Err(PoolStepsError::DuplicateName("s1".to_owned())));
    assert_eq!(pool_steps(&named(0..20), &named(20..32)).unwrap().len(), 32);
    assert_eq!(pool_steps(&named(0..20), &named(20..33)), Err(PoolStepsError::TooMany(33)));
}
