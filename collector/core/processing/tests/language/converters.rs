//! Tables of converters: each value on the record of [`requests::record`].

use opentelemetry_proto::tonic::common::v1::AnyValue;

use crate::requests::{attribute, boolean, compute, double, int, list, map, text};

fn check(cases: Vec<(&str, AnyValue)>) {
    for (value, expected) in cases {
        assert_eq!(compute(value), Ok(Some(expected)), "{value}");
    }
}

fn check_nil(values: &[&str]) {
    for value in values {
        assert_eq!(compute(value), Ok(Some(AnyValue::default())), "{value}");
    }
}

fn check_error(cases: &[(&str, &str)]) {
    for (value, expected) in cases {
        let error = compute(value).expect_err(value);
        assert!(error.contains(expected), "{value}: {error}");
    }
}

/// Scenario: converters of text with texts, other types and nil. Guarantee: the Collector's
/// results.
#[test]
fn text_converters_give_the_collectors_results() {
    check(vec![
        (r#"Concat(["a", attributes["a"]], "-")"#, text("a-one")),
        (r#"Concat([attributes["n"], attributes["d"], attributes["t"]], "/")"#, text("7/1.5/true")),
        (r#"Concat([attributes["missing"], "x"], " ")"#, text("<nil> x")),
        (r#"Concat([attributes["b"]], "")"#, text("01ab")),
        (
            r#"Concat([attributes["l"], attributes["m"]], " ")"#,
            text(r#"["x",2] {"inner":{"z":1},"k":"v"}"#),
        ),
        ("Concat([], \",\")", text("")),
        (r#"Concat(attributes["l"], "|")"#, text("x|2")),
        (r#"ConvertCase("Hello Wörld", "lower")"#, text("hello wörld")),
        (r#"ConvertCase("straße", "upper")"#, text("STRAßE")),
        (r#"ConvertCase("JSONData42Value", "snake")"#, text("json_data_42_value")),
        (r#"ConvertCase("http.request-method x", "snake")"#, text("http_request_method_x")),
        (r#"ConvertCase("http.request_method", "camel")"#, text("HttpRequestMethod")),
        (r#"ConvertCase("HTTPServer", "camel")"#, text("Httpserver")),
        (r#"ToUpperCase(attributes["a"])"#, text("ONE")),
        (r#"ToCamelCase("a1b")"#, text("A1B")),
        (r#"Split("a,b,,c", ",")"#, list(vec![text("a"), text("b"), text(""), text("c")])),
        (r#"Split("aé", "")"#, list(vec![text("a"), text("é")])),
        (r#"Split("a,b", ",")[1]"#, text("b")),
        (r#"Split("", ",")"#, list(vec![text("")])),
        (r#"Substring("hello", 1, 3)"#, text("ell")),
        (r#"Substring(body, 7, 5)"#, text("World")),
        (r#"Trim("  a ")"#, text("a")),
        (r#"Trim("xyaxy", "xy")"#, text("a")),
        (r#"TrimPrefix("prefix", "pre")"#, text("fix")),
        (r#"TrimSuffix("prefix", "fix")"#, text("pre")),
        (r#"HasPrefix(body, "Hello")"#, boolean(true)),
        (r#"HasSuffix(body, "Hello")"#, boolean(false)),
        (r#"Index("hello", "l")"#, int(2)),
        (r#"Index("hello", "z")"#, int(-1)),
        (r#"Index(attributes["l"], 2)"#, int(1)),
        (
            r#"SHA256("hello")"#,
            text("2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"),
        ),
        (r#"FNV("hello")"#, int(-6_615_550_055_289_275_125)),
        (r#"Hex(attributes["b"])"#, text("01ab")),
        (r#"Hex(attributes["n"])"#, text("0000000000000007")),
        (r#"Base64Encode("hi?")"#, text("aGk/")),
        (r#"Base64Encode("hi?", "base64-raw-url")"#, text("aGk_")),
        (r#"Base64Decode("aGk/")"#, text("hi?")),
    ]);
    check_error(&[
        (r#"ConvertCase(attributes["n"], "lower")"#, "expected string but got int"),
        (r#"ConvertCase(attributes["missing"], "lower")"#, "expected string but got nil"),
        (r#"Substring("abc", 2, 2)"#, "outside"),
        (r#"Substring("abc", -1, 2)"#, "outside"),
        (r#"Substring("abc", 1, 0)"#, "outside"),
        (r#"Split("a", ",")[3]"#, "index"),
        (r#"Base64Decode("?")"#, "base64"),
        (r#"Index(attributes["a"], 1)"#, "expected string"),
    ]);
}

/// Scenario: the converters of types. Guarantee: the Collector's results; nil stays nil.
#[test]
fn type_converters_give_the_collectors_results() {
    check(vec![
        (r#"Int("42")"#, int(42)),
        ("Int(1.9)", int(1)),
        ("Int(-1.9)", int(-1)),
        ("Int(true)", int(1)),
        (r#"Double("1e3")"#, double(1000.0)),
        ("Double(3)", double(3.0)),
        ("Double(false)", double(0.0)),
        ("String(42)", text("42")),
        ("String(1.0)", text("1")),
        ("String(0.0000001)", text("1e-07")),
        ("String(1000000000000000000000.0)", text("1e+21")),
        ("String(true)", text("true")),
        (r#"String("a<b")"#, text("a<b")),
        (r#"String(["a<b", 1.5, nil])"#, text("[\"a\\u003cb\",1.5,null]")),
        ("String(0x0aff)", text("0aff")),
        (r#"String(span_id)"#, text("[1,2,3,4,5,6,7,8]")),
        (r#"Bool("true")"#, boolean(true)),
        ("Bool(0)", boolean(false)),
        (r#"ParseInt("ff", 16)"#, int(255)),
        (r#"ParseInt("0x10", 0)"#, int(16)),
        (r#"IsString(attributes["a"])"#, boolean(true)),
        (r#"IsString(attributes["missing"])"#, boolean(false)),
        (r#"IsInt(attributes["n"])"#, boolean(true)),
        (r#"IsDouble(attributes["n"])"#, boolean(false)),
        (r#"IsDouble(attributes["d"])"#, boolean(true)),
        (r#"IsBool(attributes["t"])"#, boolean(true)),
        (r#"IsMap(attributes["m"])"#, boolean(true)),
        ("IsMap(attributes)", boolean(true)),
        (r#"IsMap(attributes["l"])"#, boolean(false)),
        (r#"IsList(attributes["l"])"#, boolean(true)),
        (r#"Len(body)"#, int(15)),
        (r#"Len("é")"#, int(2)),
        ("Len(attributes)", int(7)),
        (r#"Len(attributes["l"])"#, int(2)),
        (r#"Len(attributes["m"])"#, int(2)),
        (r#"Coalesce([attributes["missing"], nil, attributes["a"]])"#, text("one")),
        (r#"ContainsValue(attributes["l"], "x")"#, boolean(true)),
        (r#"ContainsValue(attributes["l"], "y")"#, boolean(false)),
        (r#"Keys(attributes["m"])"#, list(vec![text("k"), text("inner")])),
        (r#"Values({"a": 1})"#, list(vec![int(1)])),
    ]);
    check_nil(&[
        r#"Int(attributes["missing"])"#,
        r#"Double(attributes["missing"])"#,
        r#"String(attributes["missing"])"#,
        r#"Coalesce([attributes["missing"]])"#,
    ]);
    check_error(&[
        (r#"Double(attributes["a"])"#, "not a number"),
        (r#"Int(attributes["a"])"#, "not a whole number"),
        (r#"Int(attributes["m"])"#, "but got map"),
        (r#"Bool("yes")"#, "true or false"),
        (r#"Len(attributes["n"])"#, "but got int"),
        (r#"Len(attributes["missing"])"#, "but got nil"),
        (r#"ParseInt("zz", 10)"#, "whole number"),
    ]);
}

/// Scenario: JSON objects, lists, escapes, duplicate keys and what is neither. Guarantee: numbers
/// are doubles; scalars and malformed texts fail.
#[test]
fn json_is_read_as_maps_and_lists() {
    check(vec![
        (
            r#"ParseJSON("{\"a\": [1, \"x\", null, true], \"b\": {}}")"#,
            map(vec![
                attribute(
                    "a",
                    list(vec![double(1.0), text("x"), AnyValue::default(), boolean(true)]),
                ),
                attribute("b", map(vec![])),
            ]),
        ),
        (r#"ParseJSON("[]")"#, list(vec![])),
        (r#"ParseJSON("{\"a\": 1, \"a\": 2}")["a"]"#, double(2.0)),
        (r#"ParseJSON("[\"\\u00e9\\ud83d\\ude00\\n\"]")[0]"#, text("é😀\n")),
        (r#"ParseJSON("[-1.5e2]")[0]"#, double(-150.0)),
    ]);
    check_error(&[
        (r#"ParseJSON("1")"#, "json"),
        (r#"ParseJSON("{\"a\": }")"#, "json"),
        (r#"ParseJSON("[1] x")"#, "json"),
        (r#"ParseJSON("[01]")"#, "json"),
        (r#"ParseJSON("{\"a\": 1}")["b"]"#, "key"),
        (r#"ParseJSON(attributes["n"])"#, "expected string"),
    ]);
}

/// Scenario: patterns with Go's syntax. Guarantee: ASCII classes, literal braces, named groups.
#[test]
fn patterns_have_gos_syntax() {
    check(vec![
        (r#"IsMatch(body, "World \\d+$")"#, boolean(true)),
        (r#"IsMatch("٣", "\\d")"#, boolean(false)),
        (r#"IsMatch("é", "\\w")"#, boolean(false)),
        (r#"IsMatch("é", "^.$")"#, boolean(true)),
        (r#"IsMatch("a{b", "a{b")"#, boolean(true)),
        (r#"IsMatch("a[b", "a[[]b")"#, boolean(true)),
        (r#"IsMatch("a&b", "a[&&]b")"#, boolean(true)),
        (r#"IsMatch("x-y", "[x\\-z]-y")"#, boolean(true)),
        (r#"IsMatch("a.b", "\\Qa.b\\E")"#, boolean(true)),
        (r#"IsMatch("axb", "\\Qa.b\\E")"#, boolean(false)),
        (r#"IsMatch("A", "(?i)[[:lower:]]")"#, boolean(true)),
        (r#"IsMatch("foo bar", "\\bbar\\b")"#, boolean(true)),
        (r#"IsMatch("foobar", "\\Bbar")"#, boolean(true)),
        (r#"IsMatch("α", "\\p{Greek}")"#, boolean(true)),
        (r#"IsMatch("α", "\\p{^Greek}")"#, boolean(false)),
        (r#"IsMatch("S", "\\123")"#, boolean(true)),
        (r#"IsMatch(attributes["n"], "^7$")"#, boolean(true)),
        (r#"IsMatch(attributes["missing"], ".*")"#, boolean(false)),
        (
            r#"ExtractPatterns(body, "(?P<word>\\w+), (?P<other>x)?")"#,
            map(vec![attribute("word", text("Hello")), attribute("other", text(""))]),
        ),
        (r#"ExtractPatterns(body, "(?P<n>\\d+)$")["n"]"#, text("42")),
        (r#"ExtractPatterns(body, "(?P<n>zzz)")"#, map(vec![])),
    ]);
    check_error(&[(r#"ExtractPatterns(attributes["n"], "(?P<n>x)")"#, "expected string")]);
}

/// Scenario: times by format. Guarantee: the Collector's flexible numbers, fractions and offsets.
#[test]
fn times_are_read_by_format() {
    let nano = |text: &str, format: &str| format!("UnixNano(Time(\"{text}\", \"{format}\"))");
    let cases = [
        ("2023-11-14T22:13:20Z", "%Y-%m-%dT%H:%M:%SZ", 1_700_000_000_000_000_000),
        ("2023-11-14 22:13:20.5", "%Y-%m-%d %H:%M:%S", 1_700_000_000_500_000_000),
        ("2023-11-14 22:13:20,123", "%F %T,%L", 1_700_000_000_123_000_000),
        ("2023-11-14 23:13:20 +0100", "%F %T %z", 1_700_000_000_000_000_000),
        ("2023-11-14 23:13:20+01:00", "%F %T%z", 1_700_000_000_000_000_000),
        ("14/Nov/2023:10:13:20 PM", "%d/%b/%Y:%I:%M:%S %p", 1_700_000_000_000_000_000),
        ("Tuesday, November 14 2023", "%A, %B %d %Y", 1_699_920_000_000_000_000),
        ("11/14/23", "%D", 1_699_920_000_000_000_000),
        ("2024-2-29", "%Y-%m-%d", 1_709_164_800_000_000_000),
    ];
    for (time, format, expected) in cases {
        let value = nano(time, format);
        assert_eq!(compute(&value), Ok(Some(int(expected))), "{value}");
    }
    for (time, format) in [
        ("2023-02-29", "%Y-%m-%d"),
        ("2023-13-01", "%Y-%m-%d"),
        ("2023-11-14x", "%Y-%m-%d"),
        ("23-11-14", "%Y-%m-%d"),
    ] {
        assert!(compute(&nano(time, format)).is_err(), "{time}");
    }
    check(vec![
        ("UnixSeconds(time)", int(1_700_000_000)),
        ("UnixMilli(time)", int(1_700_000_000_123)),
        ("UnixMicro(time)", int(1_700_000_000_123_456)),
        ("UnixNano(time)", int(1_700_000_000_123_456_789)),
        ("UnixNano(Unix(1, 5))", int(1_000_000_005)),
        ("Year(time)", int(2023)),
        ("Month(time)", int(11)),
        ("Weekday(time)", int(2)),
        ("Hour(time)", int(22)),
        ("String(time)", text("\"2023-11-14T22:13:20.123456789Z\"")),
    ]);
    check_error(&[("time", "can't hold a time"), ("UnixNano(time_unix_nano)", "expected time")]);
}
