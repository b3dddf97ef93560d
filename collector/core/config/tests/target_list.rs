//! Lists of targets: what is taken, and which line is named otherwise.

use millrace_config::TargetGroup;
use proptest::prelude::{any, prop_assert, proptest};

/// Groups as `address,address {name=value}`.
fn said(groups: &[TargetGroup]) -> Vec<String> {
    let each = groups.iter().map(|group| {
        let targets: Vec<_> = group.targets.iter().map(|it| it.as_str()).collect();
        let labels: Vec<_> = group.labels.iter().map(|(n, v)| format!("{n}={v}")).collect();
        format!("{} {{{}}}", targets.join(","), labels.join(","))
    });
    each.collect()
}

/// Scenario: the same list as JSON and as YAML, with labels for relabeling and an address that only
/// relabeling makes a target of. Guarantee: the same groups.
#[test]
fn json_and_yaml_say_the_same() {
    let json = br#"[
        {"targets": ["a:1", "[::1]:2"], "labels": {"env": "\u00e9 \"x\"", "__meta_x": ""}},
        {"targets": ["https://example.com/x"]},
        {"labels": {"a": "b"}}
    ]"#;
    let yaml = b"- targets: ['a:1', '[::1]:2']\n  labels: {env: \"\xc3\xa9 \\\"x\\\"\", \
        __meta_x: ''}\n- targets: ['https://example.com/x']\n- labels: {a: b}\n";
    let expected =
        ["a:1,[::1]:2 {__meta_x=,env=\u{e9} \"x\"}", "https://example.com/x {}", " {a=b}"];
    assert_eq!(said(&TargetGroup::of_json(json).unwrap()), expected);
    assert_eq!(said(&TargetGroup::of_yaml(yaml).unwrap()), expected);
    assert!(TargetGroup::of_json(b"[]").unwrap().is_empty());
    assert!(TargetGroup::of_yaml(b"[]\n").unwrap().is_empty());
}

/// Scenario: YAML lists that are broken in one place each. Guarantee: none is taken in part; the
/// line is named, and what is wrong with it.
#[test]
fn a_broken_yaml_list_names_its_line() {
    for (list, line, part) in [
        ("- targets: [a:1]\n- targets: [b:1]\n  label: {}\n", Some(3), "unknown field `label`"),
        // The bracket is missed where the file ends.
        ("- targets: [a:1]\n- targets: [b:1\n- c\n", Some(4), "expected"),
        ("- targets: [a:1]\n  labels:\n    x-y: z\n", Some(3), "`x-y` is not a label's name"),
        ("- targets:\n  - a:1\n  - ''\n", Some(3), "`` is not an address"),
        ("- targets: [a:1]\n  labels: {n: [x]}\n", Some(2), "a label's value in quotes"),
        ("targets: [a:1]\n", Some(1), "invalid type: map"),
        ("", None, "the list is empty: write [] if there are no targets"),
        ("# soon\n", None, "the list is empty"),
    ] {
        let error = TargetGroup::of_yaml(list.as_bytes()).unwrap_err();
        assert_eq!(error.line, line, "{list}: {error}");
        assert!(error.to_string().contains(part), "{list}: {error}");
    }
}

/// Scenario: JSON lists that are broken in one place each. Guarantee: likewise.
#[test]
fn a_broken_json_list_names_its_line() {
    let many: Vec<_> = (0..65).map(|number| format!("\"l{number}\": \"\"")).collect();
    let many = format!("[{{\"labels\": {{{}}}}}]", many.join(","));
    let long = format!("[\n{{\"targets\": [\"{}\"]}}]", "x".repeat(2049));
    for (list, line, part) in [
        ("[{\"targets\": [\"a:1\"]},\n{\"x\": 1}]", Some(2), "unknown field `x`"),
        ("[{\"targets\": [\"a:1\"]},\n\n", Some(3), "EOF"),
        ("[{\"targets\":\n[\"a\\n\"]}]", Some(2), "is not an address"),
        ("[{\"targets\":\n[null]}]", Some(2), "expected an address"),
        ("{}", Some(1), "invalid type: map"),
        ("", Some(1), "EOF"),
        ("[] []", Some(1), "trailing characters"),
        (&long, Some(2), "1 to 2,048 bytes"),
        (&many, None, "group 0: 65 labels: use at most 64"),
    ] {
        let error = TargetGroup::of_json(list.as_bytes()).unwrap_err();
        assert_eq!(error.line, line, "{list}: {error}");
        assert!(error.to_string().contains(part), "{list}: {error}");
        assert!(error.to_string().len() < 500, "{error}");
    }
}

proptest! {
    /// Scenario: any bytes, and a list cut anywhere. Guarantee: an answer or an error, and never a
    /// part of a list.
    #[test]
    fn no_list_is_taken_in_part(noise in any::<Vec<u8>>(), cut in 0..90_usize) {
        let _ = TargetGroup::of_json(&noise);
        let _ = TargetGroup::of_yaml(&noise);
        let list = br#"[{"targets": ["a:1", "b:1"], "labels": {"x": "y"}}, {"targets": ["c:1"]}]"#;
        let cut = cut.min(list.len());
        let read = TargetGroup::of_json(&list[..cut]);
        prop_assert!(read.is_err() || cut == list.len());
    }
}
