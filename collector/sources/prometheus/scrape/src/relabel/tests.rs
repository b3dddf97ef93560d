//! Tests of single rules. `tests/relabel.rs` compares random ones with Prometheus.

use super::matcher::Matcher;
use super::*;

fn applied(rule: Rule, pairs: &[(&str, &str)]) -> Option<Vec<String>> {
    let rules = Rules::new([&rule]).unwrap();
    let mut labels: LabelSet = pairs.iter().copied().collect();
    let is_kept = rules.apply(&mut labels, &mut RelabelScratch::default()).unwrap();
    is_kept.then(|| labels.iter().map(|(name, value)| format!("{name}={value}")).collect())
}

fn rule(action: Action, source: &[&str], regex: &str) -> Rule {
    let source_labels = source.iter().map(|it| (*it).to_owned()).collect();
    Rule { action, source_labels, regex: regex.to_owned(), ..Rule::default() }
}

/// Guarantee: each action has the effect that Prometheus' documentation states.
#[test]
fn each_action_does_what_it_says() {
    let pairs = [("__name__", "up"), ("a", "x-1"), ("b", "X-1")];
    let to = |rule: Rule, target: &str| Rule { target_label: target.to_owned(), ..rule };
    let shown = |rule| applied(rule, &pairs).map(|labels| labels.join(" "));
    let same = "__name__=up a=x-1 b=X-1";
    let cases = [
        (
            to(rule(Action::Replace, &["a", "b"], "(.+)-1;(.*)"), "c"),
            Some("__name__=up a=x-1 b=X-1 c=x"),
        ),
        (to(rule(Action::Replace, &["a"], "nothing"), "c"), Some(same)),
        (
            Rule { replacement: String::new(), ..to(rule(Action::Replace, &["a"], ".*"), "b") },
            Some("__name__=up a=x-1"),
        ),
        (rule(Action::Keep, &["a"], "x-.*"), Some(same)),
        (rule(Action::Keep, &["a"], "-"), None),
        (rule(Action::Drop, &["__name__"], "down|up"), None),
        (to(rule(Action::KeepEqual, &["a"], DEFAULT_REGEX), "b"), None),
        (to(rule(Action::DropEqual, &["a"], DEFAULT_REGEX), "b"), Some(same)),
        (
            Rule { modulus: 1000, ..to(rule(Action::HashMod, &["a"], DEFAULT_REGEX), "c") },
            Some("__name__=up a=x-1 b=X-1 c=87"),
        ),
        (
            Rule { replacement: "x_$1".to_owned(), ..rule(Action::LabelMap, &[], "([ab])") },
            Some("__name__=up a=x-1 b=X-1 x_a=x-1 x_b=X-1"),
        ),
        (rule(Action::LabelDrop, &[], "a|c"), Some("__name__=up b=X-1")),
        (rule(Action::LabelKeep, &[], "a|c"), Some("a=x-1")),
        (to(rule(Action::Lowercase, &["b"], DEFAULT_REGEX), "b"), Some("__name__=up a=x-1 b=x-1")),
        (
            to(rule(Action::Uppercase, &["a"], DEFAULT_REGEX), "c"),
            Some("__name__=up a=x-1 b=X-1 c=X-1"),
        ),
    ];
    for (rule, expected) in cases {
        let name = rule.action.as_str();
        assert_eq!(shown(rule).as_deref(), expected, "{name}");
    }
}

/// Guarantee: a rule with invalid fields is refused with its reason.
#[test]
fn a_rule_that_prometheus_refuses_is_refused_with_its_reason() {
    let regex = |regex| rule(Action::Keep, &["a"], regex);
    let cases = [
        (
            Rule { action: Action::HashMod, target_label: "a".to_owned(), ..Rule::default() },
            "`hashmod` requires a modulus of at least 1",
        ),
        (Rule::default(), "`replace` requires a target label"),
        (rule(Action::LabelDrop, &["a"], "b"), "`labeldrop` does not use source labels: remove it"),
        (regex("(a"), "regex: its parentheses don't match"),
        (regex("a)|(b"), "regex: its parentheses don't match"),
        (regex("a**"), "regex: a *, +, ? or count follows another one: use a group, as in (?:a*)*"),
        (regex("*"), "regex: a *, +, ? or count has nothing to repeat"),
        (regex("[z-a]"), "regex: `z-a` is not a character class"),
        (regex("[a"), "regex: a [ has no ]"),
        (
            regex("a{1001}"),
            "regex: `{1001}` is not a valid count: use 0 to 1000, the lower one first",
        ),
        (regex(r"(a)\1"), r"regex: `\1` is not in Prometheus' syntax"),
        (
            regex("(?!a)"),
            "regex: `(?!a)` is not in Prometheus' syntax: it has groups (?:...), (?P<name>...) and flags imsU",
        ),
        (
            regex(r"((((\w{100}){100}){100}){100})"),
            "regex: it compiles to more than 2097152 bytes: use smaller counts, or several rules",
        ),
    ];
    for (rule, expected) in cases {
        let said = Rules::new([&rule]).unwrap_err();
        assert_eq!(said.fault.to_string(), expected);
    }
}

/// Scenario: a value refers to itself twice, so that it doubles with each rule. Guarantee: the
/// limit stops it.
#[test]
fn labels_that_double_with_each_rule_are_bounded() {
    let mut double = rule(Action::Replace, &["a"], "(.*)");
    double.target_label = "a".to_owned();
    double.replacement = "$1$1".to_owned();
    let rules = Rules::new(std::iter::repeat_n(&double, 40)).unwrap();
    let mut labels: LabelSet = [("a", "xyz")].into_iter().collect();
    assert_eq!(rules.apply(&mut labels, &mut RelabelScratch::default()), Err(TooLong));
    assert!(labels.held_bytes() < 4 * LABELS_BYTES_MAX);
}

/// Guarantee: texts and prefixes that no engine matches give the same results as the engine.
#[test]
fn patterns_without_an_engine_match_as_with_one() {
    for (pattern, values) in [
        ("a|bc|d.*", ["a", "bc", "d", "dx\ny", "ab", "", "xd"]),
        ("(go_.*|up)", ["go_", "go_x", "up", "u", "up2", "", "g"]),
        ("", ["", "a", "b", "c", "d", "e", "f"]),
        (".*", ["", "a", "\n", "ä", "b", "c", "d"]),
        ("(?:|a)", ["", "a", "b", "aa", "c", "d", "e"]),
    ] {
        let quick = Matcher::new(pattern).unwrap();
        let slow = Matcher::new(&format!("(?:{pattern})")).unwrap();
        let engine = Matcher::new(&format!("[a]{{0}}(?:{pattern})")).unwrap();
        for value in values {
            assert_eq!(quick.matches(value), engine.matches(value), "{pattern} {value:?}");
            assert_eq!(slow.matches(value), engine.matches(value), "{pattern} {value:?}");
        }
    }
}
