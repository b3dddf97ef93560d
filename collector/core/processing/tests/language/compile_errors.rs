//! What doesn't compile, and what the error says.

use millrace_processing::{Config, ContextName, DropConditions, RuleSet, Step};

use crate::requests::step;

fn errors(step: Step) -> Vec<String> {
    match RuleSet::compile(&Config { steps: vec![step] }) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.0.iter().map(ToString::to_string).collect(),
    }
}

/// Statements, the position of their fault and a part of the message.
const STATEMENTS: &[(&str, (usize, usize), &str)] = &[
    (" ", (1, 2), "expected an editor"),
    ("Set(body, 1)", (1, 1), "begins with an editor"),
    ("sett(body, 1)", (1, 1), "did you mean \"set\"?"),
    ("set(body, 1", (1, 12), "expected \",\" or \")\""),
    ("set(body, 1) when true", (1, 14), "expected \"where\""),
    ("set(body, 1) where", (1, 19), "expected a value"),
    ("set(body, 1) where body", (1, 24), "comparison with nil"),
    ("set(body, 1) where body = 1", (1, 25), "expected a comparison"),
    ("set(body, 1) where (true", (1, 25), "expected \")\""),
    ("set(body, 'x')", (1, 11), "double quotes"),
    ("set(body, \"x)", (1, 11), "isn't closed"),
    ("set(body, \"\\d\")", (1, 12), "backslash"),
    ("set(body, 99999999999999999999)", (1, 11), "64 bits"),
    ("set(body, 0x123)", (1, 11), "two hexadecimal digits"),
    ("set(body, \"a\" + 1)", (1, 15), "calculations take numbers"),
    ("set(body, (x) => x)", (1, 11), "lambda"),
    ("set(body, set(body, 1))", (1, 11), "editor"),
    ("set(body, Lenn(body))", (1, 11), "did you mean \"Len\"?"),
    ("set(body, Now())", (1, 11), "neither the time"),
    ("set(body, ExtractGrokPatterns(body, \"x\"))", (1, 11), "ExtractPatterns"),
    ("set(body)", (1, 1), "needs the argument \"value\": set(target, value)"),
    ("set(body, 1, 2)", (1, 14), "too many arguments"),
    ("set(body, valu = 1)", (1, 11), "did you mean \"value\"?"),
    ("set(target = body, 1)", (1, 20), "without a name"),
    ("set(target = body, target = body)", (1, 20), "twice"),
    ("set(\"x\", 1)", (1, 5), "target: expected a path"),
    ("set(bodi, 1)", (1, 5), "did you mean \"body\"?"),
    ("set(attribute[\"a\"], 1)", (1, 5), "did you mean \"attributes\"?"),
    ("set(severity_text[\"a\"], 1)", (1, 5), "keys can't follow severity_text"),
    ("set(span.name, 1)", (1, 5), "can't be used on a log"),
    ("set(resource, 1)", (1, 5), "names no field of the resource"),
    ("set(body, SEVERITY_NUMBER_WARNING)", (1, 11), "did you mean \"SEVERITY_NUMBER_WARN\"?"),
    ("set(body, SPAN_KIND_SERVER)", (1, 11), "unknown enum"),
    ("set(body, IsRootSpan())", (1, 11), "spans only"),
    ("delete_key(body.string, \"x\")", (1, 12), "path to a map"),
    ("delete_key(attributes, 1)", (1, 24), "key: expected a string"),
    ("delete_matching_keys(attributes, \"(\")", (1, 34), "invalid pattern"),
    ("delete_matching_keys(attributes, body)", (1, 34), "pattern: expected a string literal"),
    ("delete_matching_keys(attributes, \"(a)\\\\1\")", (1, 34), "references to groups"),
    ("delete_matching_keys(attributes, \"a{1001}\")", (1, 34), "repetitions"),
    ("truncate_all(attributes, -1)", (1, 26), "negative"),
    ("limit(attributes, 1, [\"a\", \"b\"])", (1, 19), "lower than"),
    ("merge_maps(attributes, body, \"inert\")", (1, 30), "did you mean \"insert\"?"),
    (
        "replace_all_patterns(attributes, \"values\", \"a\", \"b\")",
        (1, 34),
        "did you mean \"value\"?",
    ),
    ("replace_pattern(body, \"a\", \"b\", Len)", (1, 33), "can't be applied"),
    ("replace_pattern(body, \"a\", \"b\", SHA256, \"%s%s\")", (1, 41), "%s once"),
    ("flatten(attributes, depth = 0)", (1, 29), "at least 1"),
    ("append(attributes[\"a\"])", (1, 1), "\"value\" or \"values\""),
    ("set(body, ConvertCase(body, \"title\"))", (1, 29), "supported: lower, upper"),
    ("set(body, Time(body, \"%Q\"))", (1, 22), "unknown directive"),
    ("set(body, Time(body, \"%H:%M\"))", (1, 22), "no year"),
    ("set(body, Time(body, \"%F %Z\"))", (1, 22), "%Z"),
    ("set(body, Time(body, \"%F\", \"Europe/Berlin\"))", (1, 28), "location"),
    ("set(body, ExtractPatterns(body, \"x\"))", (1, 33), "named group"),
    ("set(body, TraceID(0x01))", (1, 19), "16 bytes"),
    ("set(body,\n  1) where\n  bodi == 1", (3, 3), "did you mean \"body\"?"),
    ("set(attributes[\"é\"], bodi)", (1, 22), "did you mean"),
    ("set(body, Len)", (1, 11), "parentheses are missing"),
    ("set(body, Int(\"x\"))", (1, 15), "isn't a number"),
    ("set(body, IsInt(\"x\"))", (1, 17), "expected a whole number"),
    ("set(event_index, 1)", (1, 5), "no field"),
];

/// Scenario: statements with one fault each. Guarantee: the error names the line, the column and
/// what to write.
#[test]
fn statements_with_a_fault_are_refused_with_its_position() {
    let mut wrong = Vec::new();
    for (statement, position, message) in STATEMENTS {
        let found = errors(step(ContextName::Log, &[*statement]));
        let (line, column) = *position;
        let position = format!("line {line}, column {column}:");
        let is_expected = |error: &String| error.contains(&position) && error.contains(message);
        if found.len() != 1 || !found.iter().all(is_expected) {
            wrong.push(format!("{statement}: {position} {message}: {found:?}"));
        }
    }
    assert_eq!(wrong.len(), 0, "{}", wrong.join("\n"));
}

/// Scenario: several faults. Guarantee: all are reported, each with its statement.
#[test]
fn all_faults_are_reported() {
    let found = errors(step(ContextName::Log, &["set(bodi, 1)", "set(body, 1)", "sett(body, 1)"]));
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("statements[0]") && found[1].contains("statements[2]"));
}

/// Scenario: deep nesting and long statements. Guarantee: refused, without a crash.
#[test]
fn deep_and_long_statements_are_refused() {
    let deep = format!("set(body, {}1{})", "(".repeat(5_000), ")".repeat(4_000));
    assert!(errors(step(ContextName::Log, &[&deep])).concat().contains("bytes"));
    let deep = format!("set(body, {}1{})", "[".repeat(100), "]".repeat(100));
    assert!(errors(step(ContextName::Log, &[&deep])).concat().contains("levels of nesting"));
    let deep = format!("set(body, 1) where {}true{}", "(".repeat(100), ")".repeat(100));
    assert!(errors(step(ContextName::Log, &[&deep])).concat().contains("levels of nesting"));
}

/// Scenario: steps with faults of their own. Guarantee: each is refused with its name.
#[test]
fn steps_with_faults_are_refused() {
    let named = |step: Step| Step { name: "x".to_owned(), ..step };
    for (step, message) in [
        (Step::default(), "no action"),
        (Step { drop: Some(DropConditions::default()), ..Step::default() }, "no conditions"),
        (
            Step {
                statements: vec!["set(log.body, 1)".to_owned()],
                drop: Some(DropConditions::default()),
                ..Step::default()
            },
            "two actions",
        ),
        (Step { statements: vec!["set(body, 1)".to_owned()], ..Step::default() }, "no context"),
        (
            Step { statements: vec!["set(log.body, severity_text)".to_owned()], ..Step::default() },
            "needs a context",
        ),
        (
            Step {
                statements: vec!["set(log.body, 1)".to_owned()],
                signals: vec![millrace_processing::SignalName::Traces],
                ..Step::default()
            },
            "no signal of the step has a log",
        ),
    ] {
        let found = errors(named(step));
        assert!(found.concat().contains(message), "{message}: {found:?}");
    }
    let config = Config {
        steps: vec![
            step(ContextName::Log, &["set(body, 1)"]),
            step(ContextName::Log, &["set(body, 1)"]),
        ],
    };
    assert!(RuleSet::compile(&config).unwrap_err().to_string().contains("same name"));
}

/// Scenario: settings in YAML, and with an unknown field. Guarantee: read as camel case; unknown
/// fields are refused.
#[test]
fn settings_are_read_from_yaml() {
    let config: Config = serde_norway::from_str(
        r#"
- name: rename
  context: log
  errorMode: Silent
  statements:
    - set(attributes["b"], attributes["a"])
- name: health
  signals: [Traces, Logs]
  drop:
    spans: ['attributes["http.route"] == "/healthz"']
    dataPoints: []
- name: secrets
  redact:
    sets: [Email, Card]
    action: {mask: {keepLast: 4}}
    setActions: [{set: Card, action: {drop: {}}}]
    patterns: [{name: order, pattern: "order-[0-9]+"}]
    blockedKeys: {names: [password]}
- name: sample
  signals: [Traces]
  sample:
    ratio: 0.1
    keep: [status.code == STATUS_CODE_ERROR]
    rules: [{name: shop, namespace: shop, ratio: 0.5}]
"#,
    )
    .unwrap();
    let rules = RuleSet::compile(&config).unwrap();
    let lists: Vec<&str> = rules.rules().iter().map(|rule| rule.list).collect();
    assert_eq!(
        lists,
        [
            "statements",
            "drop.spans",
            "redact.sets",
            "redact.sets",
            "redact.patterns",
            "redact.blockedKeys",
            "sample.keep",
            "sample.rules",
            "sample.ratio",
        ]
    );
    let written = serde_norway::to_string(&config).unwrap();
    assert_eq!(serde_norway::from_str::<Config>(&written).unwrap(), config);
    assert!(serde_norway::from_str::<Config>("- {name: a, statement: []}").is_err());
}
