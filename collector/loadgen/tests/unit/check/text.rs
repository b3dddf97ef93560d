//! Tests of what `check/text.rs` keeps to itself.

use super::*;

/// Scenario: values of every type. Guarantee: texts as the tables' documentation has them.
#[test]
fn values_have_their_texts() {
    let list = [Value::Int(1), Value::Text("a\"b"), Value::Bytes(&[0xFB, 0xFF])];
    let pairs = [("x", Value::List(&list)), ("y.z", Value::Double(0.5))];
    for (value, text) in [
        (Value::Text("a\"b"), "a\"b"),
        (Value::Int(-7), "-7"),
        (Value::Double(8.0), "8"),
        (Value::Bool(true), "true"),
        (Value::Bytes(b"foob"), "Zm9vYg=="),
        (Value::Pairs(&pairs), r#"{"x":[1,"a\"b","+/8="],"y.z":0.5}"#),
    ] {
        assert_eq!(plain(&value), text);
    }
}

/// Scenario: one set as each variant prints it, and wrong ones. Guarantee: only the right ones
/// pass.
#[test]
fn sets_are_compared_whole() {
    struct Two;
    impl Attributes for Two {
        fn each(&self, take: &mut dyn FnMut(&str, Value<'_>)) {
            take("a.b", Value::Int(1));
            take("c", Value::Pairs(&[("d", Value::Bool(true))]));
        }
    }
    let right =
        |text: &str, variant| leaves(text.as_bytes()).is_some_and(|l| is_set(&l, &Two, variant));
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
