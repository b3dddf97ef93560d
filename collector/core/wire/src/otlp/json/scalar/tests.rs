//! Tests of the private code of `otlp/json/scalar.rs`.

use super::{ScalarValue, decode_base64, decode_id};
use crate::otlp::json::reader::JsonReader;
use crate::otlp::json::shape::{Enum, Scalar};

fn read(scalar: Scalar, json: &str) -> Option<ScalarValue> {
    scalar.read(&JsonReader::new(json.as_bytes()).read_scalar().ok()?).ok()
}

/// 64-bit numbers are read from numbers, strings and integral floats, at both ends of their range.
#[test]
fn whole_numbers_are_read_in_every_form() {
    let int = |json| read(Scalar::Int64, json);
    assert_eq!(int("-9223372036854775808"), Some(ScalarValue::Varint(i64::MIN as u64)));
    assert_eq!(int("\"9223372036854775807\""), Some(ScalarValue::Varint(i64::MAX as u64)));
    assert_eq!(int("1.0e3"), Some(ScalarValue::Varint(1000)));
    assert_eq!(int("\"-2\""), Some(ScalarValue::Varint(-2_i64 as u64)));
    for bad in ["9223372036854775808", "1.5", "\"\"", "\" 1\"", "true", "\"0x1\"", "1e400"] {
        assert_eq!(int(bad), None, "{bad}");
    }
    assert_eq!(
        read(Scalar::Fixed64, "\"18446744073709551615\""),
        Some(ScalarValue::Fixed64(u64::MAX))
    );
    assert_eq!(read(Scalar::Fixed64, "-1"), None);
    assert_eq!(read(Scalar::Uint32, "4294967295"), Some(ScalarValue::Varint(0xffff_ffff)));
    assert_eq!(read(Scalar::Uint32, "4294967296"), None);
    assert_eq!(read(Scalar::Sint32, "-1"), Some(ScalarValue::Varint(1)));
    assert_eq!(read(Scalar::Sint32, "-2147483648"), Some(ScalarValue::Varint(0xffff_ffff)));
}

/// Doubles have three names, and a number past the largest double is refused.
#[test]
fn doubles_are_numbers_or_one_of_three_names() {
    let double = |json| read(Scalar::Double, json);
    let value = |value: f64| Some(ScalarValue::Fixed64(value.to_bits()));
    assert_eq!(double("637.704"), value(637.704));
    assert_eq!(double("5"), value(5.0));
    assert_eq!(double("\"-0.5e1\""), value(-5.0));
    assert_eq!(double("\"-Infinity\""), value(f64::NEG_INFINITY));
    assert_eq!(double("\"NaN\""), value(f64::NAN));
    for bad in ["\"inf\"", "\"nan\"", "1e999", "\"one\"", "false"] {
        assert_eq!(double(bad), None, "{bad}");
    }
}

/// Enums are numbers by OTLP's rule; their names are read too.
#[test]
fn enums_are_numbers_or_names() {
    let of = |kind, json| read(Scalar::Enum(kind), json);
    assert_eq!(of(Enum::SpanKind, "2"), Some(ScalarValue::Varint(2)));
    assert_eq!(of(Enum::SpanKind, "\"SPAN_KIND_SERVER\""), Some(ScalarValue::Varint(2)));
    assert_eq!(of(Enum::SpanKind, "-1"), Some(ScalarValue::Varint(u64::MAX)));
    assert_eq!(of(Enum::StatusCode, "\"STATUS_CODE_ERROR\""), Some(ScalarValue::Varint(2)));
    assert_eq!(of(Enum::Severity, "\"SEVERITY_NUMBER_WARN3\""), Some(ScalarValue::Varint(15)));
    let cumulative = "\"AGGREGATION_TEMPORALITY_CUMULATIVE\"";
    assert_eq!(of(Enum::Temporality, cumulative), Some(ScalarValue::Varint(2)));
    assert_eq!(of(Enum::SpanKind, "\"SERVER\""), None);
}

/// Ids are hex of either case and their own length, or empty.
#[test]
fn ids_are_hex() {
    let mut buffer = [0; 16];
    assert_eq!(
        decode_id(b"EEE19b7ec3c1b174", 8, &mut buffer).unwrap(),
        [0xee, 0xe1, 0x9b, 0x7e, 0xc3, 0xc1, 0xb1, 0x74]
    );
    assert_eq!(decode_id(b"", 16, &mut buffer).unwrap(), [0_u8; 0]);
    for bad in [&b"EEE19b7ec3c1b17"[..], b"EEE19b7ec3c1b17g", b"00"] {
        assert!(decode_id(bad, 8, &mut buffer).is_err());
    }
}

/// Bytes are base64 in both alphabets, padded or not.
#[test]
fn bytes_are_base64() {
    for text in ["+/8=", "+/8", "-_8=", "-_8"] {
        assert_eq!(decode_base64(text.as_bytes()).unwrap(), [0xfb, 0xff], "{text}");
    }
    assert!(decode_base64(b"+/8!").is_err());
}
