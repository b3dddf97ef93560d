//! Tables of conditions, calculations and literals.

mod compile_errors;
mod converters;
mod editors;
mod paths;

use crate::requests::{attribute, bytes, compute, double, int, list, map, test, text};

/// Scenario: comparisons of equal and mixed types, and with nil. Guarantee: the Collector's rules.
#[test]
fn comparisons_follow_the_collectors_rules() {
    for (condition, expected) in [
        (r#"attributes["a"] == "one""#, true),
        (r#"attributes["a"] != "one""#, false),
        (r#"attributes["a"] < "two""#, true),
        (r#"attributes["n"] == 7"#, true),
        (r#"attributes["n"] == 7.0"#, true),
        (r#"attributes["n"] >= 6.5"#, true),
        (r#"attributes["d"] > 1"#, true),
        (r#"attributes["n"] == "7""#, false),
        (r#"attributes["n"] != "7""#, true),
        (r#"attributes["n"] < "8""#, false),
        (r#"attributes["t"] == true"#, true),
        (r#"false < attributes["t"]"#, true),
        (r#"attributes["missing"] == nil"#, true),
        (r#"attributes["missing"] <= nil"#, true),
        (r#"attributes["missing"] != nil"#, false),
        (r#"attributes["a"] == nil"#, false),
        (r#"attributes["a"] != nil"#, true),
        (r#"nil < attributes["n"]"#, false),
        (r#"attributes["b"] == 0x01ab"#, true),
        (r#"attributes["b"] < 0x02"#, true),
        (r#"attributes["l"] == ["x", 2]"#, true),
        (r#"attributes["l"] == ["x", 2.0]"#, false),
        (r#"attributes["l"] != ["x"]"#, true),
        (r#"attributes["l"] < ["y"]"#, false),
        (r#"attributes["m"] == {"inner": {"z": 1}, "k": "v"}"#, true),
        (r#"attributes["m"]["inner"]["z"] == 1"#, true),
        (r#"attributes["m"]["no"]["z"] == nil"#, true),
        (r#"attributes["l"][0] == "x""#, true),
        (r#"attributes["m"][attributes["key"]] == nil"#, true),
        ("severity_number == SEVERITY_NUMBER_INFO", true),
        ("severity_number < SEVERITY_NUMBER_WARN and severity_text == \"INFO\"", true),
        ("trace_id == TraceID(0x0102030405060708090a0b0c0d0e0f10)", true),
        (r#"trace_id == TraceID("0102030405060708090a0b0c0d0e0f10")"#, true),
        ("trace_id == nil", false),
        ("trace_id != 0x0102030405060708090a0b0c0d0e0f10", true),
        ("span_id == SpanID(0x0102030405060708)", true),
        ("time < observed_time", true),
        ("true", true),
        ("not true", false),
        ("not false and false", false),
        ("true or false and false", true),
        ("(true or false) and false", false),
        ("((((true))))", true),
        ("not (true and false)", true),
        ("IsMatch(body, \"Hello\") and not IsInt(body)", true),
        ("1 + 2 * 3 == 7", true),
        ("(1 + 2) * 3 == 9", true),
        ("-attributes[\"n\"] == -7", true),
        ("observed_time - time == time - time", false),
        ("resource.attributes[\"service.name\"] == \"shop\"", true),
        ("scope.name == \"library\" and instrumentation_scope.name != nil", true),
        ("log.severity_text == \"INFO\"", true),
    ] {
        let result = test(condition);
        if condition.contains("key\"]]") {
            assert!(result.is_err(), "{condition}");
            continue;
        }
        assert_eq!(result, Ok(expected), "{condition}");
    }
}

/// Scenario: conditions that read members of values without members. Guarantee: they fail, as in
/// the Collector.
#[test]
fn conditions_on_members_of_scalars_fail() {
    for condition in [
        r#"attributes["a"]["x"] == nil"#,
        r#"attributes["l"]["x"] == nil"#,
        r#"attributes["l"][9] == nil"#,
        r#"body["x"] == nil"#,
        r#"attributes["n"] / 0 == 1"#,
        r#"attributes["a"] + 1 == 1"#,
        r#"Concat(["a"], "")"#,
    ] {
        assert!(test(condition).is_err(), "{condition}");
    }
}

/// Scenario: literals and calculations. Guarantee: Go's numbers and escapes.
#[test]
fn literals_and_calculations_have_gos_results() {
    for (value, expected) in [
        ("7 / 2", int(3)),
        ("-7 / 2", int(-3)),
        ("7 / 2.0", double(3.5)),
        ("1 - -1", int(2)),
        ("9223372036854775807 + 1", int(i64::MIN)),
        (".5 + 1.", double(1.5)),
        ("1.5e3", double(1500.0)),
        ("+3", int(3)),
        ("2 * (3 + 4) - 1", int(13)),
        (r#"attributes["n"] * 2 + attributes["d"]"#, double(15.5)),
        ("0x00ff", bytes(&[0, 255])),
        (
            "[1, \"a\", [true]]",
            list(vec![int(1), text("a"), list(vec![crate::requests::boolean(true)])]),
        ),
        (
            r#"{"a": 1, "b": {"c": attributes["a"]}}"#,
            map(vec![
                attribute("a", int(1)),
                attribute("b", map(vec![attribute("c", text("one"))])),
            ]),
        ),
        (r#""tab\tquote\"slash\\ \x41\u00e9\U0001F600\101""#, text("tab\tquote\"slash\\ Aé😀A")),
        ("SEVERITY_NUMBER_ERROR", int(17)),
    ] {
        assert_eq!(compute(value), Ok(Some(expected)), "{value}");
    }
    assert_eq!(compute("nil"), Ok(Some(Default::default())));
}

/// Scenario: the page for users. Guarantee: it lists each function with its parameters, and no
/// other.
#[test]
fn the_page_lists_every_function() {
    let page = include_str!("../../../../../docs/reference/functions.md");
    let signatures = millrace_processing::function_signatures();
    for signature in &signatures {
        assert!(page.contains(&format!("| `{signature}` |")), "{signature}");
    }
    let rows = page.lines().filter(|line| line.starts_with("| `") && line.contains(")` |"));
    let listed = rows.filter(|line| line.split('`').nth(1).is_some_and(|it| it.contains('(')));
    assert_eq!(listed.count(), signatures.len());
}
