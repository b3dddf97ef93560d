//! Tables of editors.

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::logs::v1::LogRecord;

use crate::requests::{attribute, int, list, map, record, run_on, text};

/// Runs statements on a record with these attributes and compares its attributes.
fn check(attributes: Vec<KeyValue>, statements: &[&str], expected: Vec<KeyValue>) {
    let record = LogRecord { attributes, ..record() };
    let (record, error) = run_on(record, statements);
    assert_eq!(error, None, "{statements:?}");
    assert_eq!(record.attributes, expected, "{statements:?}");
}

fn fails(statement: &str, expected: &str) {
    let before = record();
    let (after, error) = run_on(before.clone(), &[statement]);
    let error = error.expect(statement);
    assert!(error.contains(expected), "{statement}: {error}");
    assert_eq!(after, before, "{statement}");
}

fn abc() -> Vec<KeyValue> {
    vec![attribute("a", text("one")), attribute("b", text("two")), attribute("c", int(3))]
}

/// Scenario: set on new, known and nested keys, and with nil. Guarantee: the Collector's results.
#[test]
fn set_writes_attributes() {
    check(abc(), &[r#"set(attributes["a"], attributes["missing"])"#], {
        let mut more = abc();
        more[0] = attribute("a", Default::default());
        more
    });
    check(abc(), &["set(attributes, nil)"], vec![]);
    check(
        abc(),
        &[r#"set(attributes["b"], 5)"#],
        vec![attribute("a", text("one")), attribute("b", int(5)), attribute("c", int(3))],
    );
    let mut more = abc();
    more.push(attribute("d", map(vec![attribute("x", list(vec![Default::default(), text("y")]))])));
    check(abc(), &[r#"set(attributes["d"]["x"][1], "y")"#], more);
    check(
        vec![attribute("m", map(vec![attribute("k", int(1)), attribute("l", list(vec![int(1)]))]))],
        &[r#"set(attributes["m"]["k"], "v")"#, r#"set(attributes["m"]["l"][0], "w")"#],
        vec![attribute(
            "m",
            map(vec![attribute("k", text("v")), attribute("l", list(vec![text("w")]))]),
        )],
    );
    check(abc(), &[r#"set(attributes, {"only": 1})"#], vec![attribute("only", int(1))]);
    check(abc(), &["set(attributes[Concat([\"k\", body], \".\")], 1) where false"], abc());
    fails(r#"set(attributes["a"]["x"], 1)"#, "can't be indexed");
    fails(r#"set(attributes["l"][5], 1)"#, "index");
    fails(r#"set(attributes["l"]["x"], 1)"#, "keys");
    fails("set(severity_number, \"x\")", "expected int but got string");
    fails("set(severity_number, nil)", "expected int but got nil");
    fails("set(attributes, attributes[\"a\"])", "expected map");
}

/// Scenario: a value that an attribute can't hold. Guarantee: the key is added without a value, as
/// in the Collector, and the rule fails.
#[test]
fn set_of_a_time_leaves_an_empty_attribute() {
    let record = LogRecord { attributes: abc(), ..record() };
    let (record, error) = run_on(record, &[r#"set(attributes["t"], time)"#]);
    assert!(error.is_some());
    assert_eq!(record.attributes.len(), 4);
}

/// Scenario: a rename. Guarantee: the new attribute takes the position of the old one.
#[test]
fn rename_replaces_in_place() {
    check(
        abc(),
        &[r#"set(attributes["z"], attributes["a"])"#, r#"delete_key(attributes, "a")"#],
        vec![attribute("z", text("one")), attribute("b", text("two")), attribute("c", int(3))],
    );
}

/// Scenario: deleting and keeping keys, also in inner maps. Guarantee: the Collector's results.
#[test]
fn keys_are_deleted_and_kept() {
    check(abc(), &[r#"delete_key(attributes, "missing")"#], abc());
    check(abc(), &[r#"delete_key(attributes, "c")"#], abc()[..2].to_vec());
    check(abc(), &[r#"delete_matching_keys(attributes, "^[ab]$")"#], abc()[2..].to_vec());
    check(abc(), &[r#"keep_matching_keys(attributes, "^[ab]$")"#], abc()[..2].to_vec());
    check(abc(), &[r#"keep_keys(attributes, ["b", "x"])"#], abc()[1..2].to_vec());
    check(abc(), &["keep_keys(attributes, [])"], vec![]);
    check(
        vec![attribute("m", map(abc()))],
        &[r#"keep_keys(attributes["m"], ["b"])"#],
        vec![attribute("m", map(abc()[1..2].to_vec()))],
    );
    fails(r#"delete_key(attributes["a"], "x")"#, "expected map but got string");
    fails(r#"delete_key(attributes["none"], "x")"#, "expected map but got nil");
    fails(r#"delete_key(attributes, attributes["n"])"#, "expected string but got int");
}

/// Scenario: replacing patterns and complete values. Guarantee: Go's templates, functions and
/// formats.
#[test]
fn matches_are_replaced() {
    for (statement, expected) in [
        (r#"replace_pattern(body, "World", "there")"#, "Hello, there 42"),
        (r#"replace_pattern(body, "(\\w+), (\\w+)", "$2-${1}x$3$$ $")"#, "World-Hellox$ $ 42"),
        (r#"replace_pattern(body, "(?P<n>\\d+)", "<$n>")"#, "Hello, World <42>"),
        (r#"replace_pattern(body, "(\\d+)", "$1x")"#, "Hello, World "),
        (
            r#"replace_pattern(body, "(\\d+)", "$1", SHA256)"#,
            "Hello, World 73475cb40a568e8da8a045ced110137e159f890ac4da883b6b17dc651b3a8049",
        ),
        (r#"replace_pattern(body, "o(,)?", "O", ToLowerCase, "<%s>")"#, "Hell<o> W<o>rld 42"),
        (r#"replace_pattern(body, "l*", "-")"#, "-H-e-o-,- -W-o-r-d- -4-2-"),
        (r#"replace_match(body, "Hello*", "gone")"#, "gone"),
        (r#"replace_match(body, "Hello", "gone")"#, "Hello, World 42"),
        (r#"replace_match(body, "{Hell,Bye}*[0-9]?", "gone")"#, "gone"),
        (r#"replace_match(body, "*[!0-9]", "gone")"#, "Hello, World 42"),
        (r#"replace_match(body, "*", "Gone", ToUpperCase, "(%s)")"#, "(GONE)"),
        (r#"replace_pattern(attributes["n"], "7", "8")"#, "Hello, World 42"),
        (r#"replace_pattern(attributes["missing"], "7", "8")"#, "Hello, World 42"),
    ] {
        let (record, error) = run_on(record(), &[statement]);
        assert_eq!(error, None, "{statement}");
        assert_eq!(record.body, Some(text(expected)), "{statement}");
    }
    check(
        abc(),
        &[r#"replace_all_patterns(attributes, "value", "o", "0")"#],
        vec![attribute("a", text("0ne")), attribute("b", text("tw0")), attribute("c", int(3))],
    );
    check(
        abc(),
        &[r#"replace_all_patterns(attributes, "key", "^[ab]", "x$0")"#],
        vec![attribute("xa", text("one")), attribute("xb", text("two")), attribute("c", int(3))],
    );
    check(
        abc(),
        &[r#"replace_all_patterns(attributes, "key", "^[ab]", "x")"#],
        vec![attribute("x", text("two")), attribute("c", int(3))],
    );
    check(
        abc(),
        &[r#"replace_all_matches(attributes, "o*", "gone")"#],
        vec![attribute("a", text("gone")), attribute("b", text("two")), attribute("c", int(3))],
    );
}

/// Scenario: shortening texts and sets. Guarantee: characters stay whole, priority keys stay.
#[test]
fn texts_and_sets_are_limited() {
    check(
        vec![attribute("a", text("héllo")), attribute("n", int(123_456))],
        &["truncate_all(attributes, 2)"],
        vec![attribute("a", text("h")), attribute("n", int(123_456))],
    );
    check(abc(), &["truncate_all(attributes, 100)"], abc());
    check(
        vec![attribute("a", text("héllo"))],
        &[r#"truncate_all(attributes, 5, true, "...")"#],
        vec![attribute("a", text("h..."))],
    );
    check(abc(), &["limit(attributes, 2, [])"], abc()[..2].to_vec());
    check(
        abc(),
        &[r#"limit(attributes, 2, ["c"])"#],
        vec![attribute("a", text("one")), attribute("c", int(3))],
    );
    check(abc(), &[r#"limit(attributes, 9, ["c"])"#], abc());
    check(abc(), &["limit(attributes, 0, [])"], vec![]);
}

/// Scenario: merging with each strategy. Guarantee: insert, update and upsert as in the Collector.
#[test]
fn maps_are_merged() {
    let source = r#"{"b": "new", "d": 4}"#;
    let merge = |strategy: &str| format!("merge_maps(attributes, {source}, \"{strategy}\")");
    let mut inserted = abc();
    inserted.push(attribute("d", int(4)));
    check(abc(), &[&merge("insert")], inserted.clone());
    let mut updated = abc();
    updated[1] = attribute("b", text("new"));
    check(abc(), &[&merge("update")], updated);
    inserted[1] = attribute("b", text("new"));
    check(abc(), &[&merge("upsert")], inserted);
    check(abc(), &["merge_maps(attributes, resource.attributes, \"insert\")"], {
        let mut more = abc();
        more.push(attribute("service.name", text("shop")));
        more
    });
    fails(r#"merge_maps(attributes, attributes["a"], "insert")"#, "expected map");
}

/// Scenario: nested maps and lists. Guarantee: the Collector's keys, depth and conflicts.
#[test]
fn maps_are_flattened() {
    let nested = || {
        vec![
            attribute("a", map(vec![attribute("b", map(vec![attribute("c", int(1))]))])),
            attribute("l", list(vec![text("x"), map(vec![attribute("k", text("v"))])])),
            attribute("s", text("plain")),
        ]
    };
    check(
        nested(),
        &["flatten(attributes)"],
        vec![
            attribute("a.b.c", int(1)),
            attribute("l.0", text("x")),
            attribute("l.1.k", text("v")),
            attribute("s", text("plain")),
        ],
    );
    check(
        nested(),
        &[r#"flatten(attributes, "p", depth = 1)"#],
        vec![
            attribute("p.a.b", map(vec![attribute("c", int(1))])),
            attribute("p.l.0", text("x")),
            attribute("p.l.1", map(vec![attribute("k", text("v"))])),
            attribute("p.s", text("plain")),
        ],
    );
    check(
        vec![attribute("a.b", int(1)), attribute("a", map(vec![attribute("b", int(2))]))],
        &["flatten(attributes, resolve_conflicts = true)"],
        vec![attribute("a.b", int(1)), attribute("a.b.0", int(2))],
    );
    check(abc(), &["flatten(attributes)"], abc());
}

/// Scenario: appending to a list, a scalar and nothing. Guarantee: the result is a list.
#[test]
fn values_are_appended() {
    fails(r#"append(attributes["m"], "x")"#, "can't hold a map");
    fails(r#"append(attributes["l"], attributes["l"])"#, "can't hold a list");
    check(abc(), &[r#"append(attributes["a"], "x")"#], {
        let mut more = abc();
        more[0] = attribute("a", list(vec![text("one"), text("x")]));
        more
    });
    check(
        vec![],
        &[r#"append(attributes["new"], values = [1, "x"])"#],
        vec![attribute("new", list(vec![int(1), text("x")]))],
    );
    check(
        vec![attribute("l", list(vec![int(1)]))],
        &[r#"append(attributes["l"], 2, [3])"#],
        vec![attribute("l", list(vec![int(1), int(2), int(3)]))],
    );
}

/// Scenario: a statement stores a value for a later one. Guarantee: the cache is empty for each
/// record, and never part of the output.
#[test]
fn cache_carries_values_between_statements() {
    check(
        abc(),
        &[
            r#"set(cache["x"], ParseJSON("{\"k\": \"v\"}"))"#,
            r#"set(attributes["a"], cache["x"]["k"])"#,
            r#"merge_maps(cache, {"y": 1}, "upsert")"#,
            r#"set(attributes["b"], Len(cache))"#,
        ],
        vec![attribute("a", text("v")), attribute("b", int(2)), attribute("c", int(3))],
    );
}
