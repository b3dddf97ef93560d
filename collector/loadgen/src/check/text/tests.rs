//! Tests of private items of `check/text.rs`.

use super::*;

/// Scenario: values of every type. Guarantee: the texts of the tables' documentation.
#[test]
fn values_have_their_texts() {
    let list = [SentValue::Int(1), SentValue::Text("a\"b"), SentValue::Bytes(&[0xFB, 0xFF])];
    let pairs = [("x", SentValue::List(&list)), ("y.z", SentValue::Double(0.5))];
    for (value, text) in [
        (SentValue::Text("a\"b"), "a\"b"),
        (SentValue::Int(-7), "-7"),
        (SentValue::Double(8.0), "8"),
        (SentValue::Bool(true), "true"),
        (SentValue::Bytes(b"foob"), "Zm9vYg=="),
        (SentValue::Pairs(&pairs), r#"{"x":[1,"a\"b","+/8="],"y.z":0.5}"#),
    ] {
        assert_eq!(plain_text(&value), text);
    }
}

/// Scenario: one set as each variant prints it, and changed ones. Guarantee: only the unchanged
/// ones pass.
#[test]
fn sets_are_compared_whole() {
    struct Two;
    impl AttributeList for Two {
        fn for_each(&self, take: &mut dyn FnMut(&str, SentValue<'_>)) {
            take("a.b", SentValue::Int(1));
            take("c", SentValue::Pairs(&[("d", SentValue::Bool(true))]));
        }
    }
    let right = |text: &str, variant| {
        parse_leaves(text.as_bytes()).is_some_and(|l| is_set(&l, &Two, variant))
    };
    assert!(right(r#"{"a":{"b":1},"c":{"d":true}}"#, Variant::Json));
    assert!(right(r#"{"a.b":"1","c":"{\"d\":true}"}"#, Variant::Map));
    for wrong in [
        r#"{"a":{"b":"1"},"c":{"d":true}}"#,
        r#"{"a":{"b":1},"c":{"d":true,"e":1}}"#,
        r#"{"a":{"b":1}}"#,
        "[]",
    ] {
        assert!(!right(wrong, Variant::Json), "{wrong}");
    }
}
