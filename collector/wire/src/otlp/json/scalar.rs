//! Numbers, bools, enums, ids and bytes of OTLP's JSON.

use base64::Engine;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::error::JsonErrorKind;
use super::reader::{Token, number_len};
use super::shape::{Enum, Scalar};

/// A scalar as protobuf holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
}

type Read<T> = Result<T, JsonErrorKind>;

impl Scalar {
    /// What a token stands for in a field of this type.
    pub(super) fn read(self, token: &Token<'_>) -> Read<Value> {
        const U32: &str = "a whole number of 32 bits";
        const U64: &str = "a whole number of 64 bits without a sign";
        const I64: &str = "a whole number of 64 bits";
        let in_u32 = |what| -> Read<u32> {
            whole(token, what)?.try_into().map_err(|_| JsonErrorKind::Number(what))
        };
        Ok(match self {
            Self::Bool => match token {
                Token::Bool(value) => Value::Varint(u64::from(*value)),
                _ => return Err(JsonErrorKind::Expected("true or false")),
            },
            Self::Int64 => Value::Varint(signed(token, I64)? as u64),
            Self::Sfixed64 => Value::Fixed64(signed(token, I64)? as u64),
            Self::Uint64 => Value::Varint(unsigned(token, U64)?),
            Self::Fixed64 => Value::Fixed64(unsigned(token, U64)?),
            Self::Uint32 => Value::Varint(u64::from(in_u32(U32)?)),
            Self::Fixed32 => Value::Fixed32(in_u32(U32)?),
            Self::Sint32 => {
                let value = i32::try_from(whole(token, U32)?);
                let value = value.map_err(|_| JsonErrorKind::Number(U32))?;
                Value::Varint(u64::from((value << 1 ^ value >> 31) as u32))
            }
            Self::Double => Value::Fixed64(double(token)?.to_bits()),
            Self::Enum(kind) => Value::Varint(i64::from(enumeration(token, kind)?) as u64),
        })
    }
}

/// The text of a number, whether it stands in quotes or not.
fn number_text<'t>(token: &'t Token<'_>, what: &'static str) -> Read<&'t str> {
    let text = match token {
        Token::Number(text) => text,
        Token::Text(text) if number_len(text) == Some(text.len()) => &**text,
        Token::Text(_) | Token::Bool(_) => return Err(JsonErrorKind::Number(what)),
    };
    std::str::from_utf8(text).map_err(|_| JsonErrorKind::Number(what))
}

/// A whole number, which may be written like a float.
fn whole(token: &Token<'_>, what: &'static str) -> Read<i128> {
    /// Every whole number of 64 bits is less.
    const BOUND: f64 = 18_446_744_073_709_551_616.0;
    let text = number_text(token, what)?;
    if let Ok(value) = text.parse() {
        return Ok(value);
    }
    match text.parse::<f64>() {
        Ok(value) if value.fract() == 0.0 && value.abs() < BOUND => Ok(value as i128),
        _ => Err(JsonErrorKind::Number(what)),
    }
}

fn signed(token: &Token<'_>, what: &'static str) -> Read<i64> {
    whole(token, what)?.try_into().map_err(|_| JsonErrorKind::Number(what))
}

fn unsigned(token: &Token<'_>, what: &'static str) -> Read<u64> {
    whole(token, what)?.try_into().map_err(|_| JsonErrorKind::Number(what))
}

fn double(token: &Token<'_>) -> Read<f64> {
    const WHAT: &str = "a number, \"NaN\", \"Infinity\" or \"-Infinity\"";
    if let Token::Text(text) = token {
        match &**text {
            b"NaN" => return Ok(f64::NAN),
            b"Infinity" => return Ok(f64::INFINITY),
            b"-Infinity" => return Ok(f64::NEG_INFINITY),
            _ => {}
        }
    }
    let value = number_text(token, WHAT)?.parse::<f64>().ok();
    // A number over the largest double is not a number of this field.
    value.filter(|value| value.is_finite()).ok_or(JsonErrorKind::Number(WHAT))
}

fn enumeration(token: &Token<'_>, kind: Enum) -> Read<i32> {
    const WHAT: &str = "a whole number of 32 bits";
    match token {
        Token::Text(name) if number_len(name) != Some(name.len()) => {
            kind.number_of(name).ok_or(JsonErrorKind::EnumName(kind.name()))
        }
        _ => whole(token, WHAT)?.try_into().map_err(|_| JsonErrorKind::Number(WHAT)),
    }
}

/// An id of `length` bytes in hex, either case; none when empty.
pub(super) fn id<'b>(digits: &[u8], length: usize, buffer: &'b mut [u8; 16]) -> Read<&'b [u8]> {
    let wrong = JsonErrorKind::Id(length * 2);
    if digits.is_empty() {
        return Ok(&[]);
    }
    let (Some(id), true) = (buffer.get_mut(..length), digits.len() == length * 2) else {
        return Err(wrong);
    };
    for (byte, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |at: usize| char::from(pair[at]).to_digit(16);
        let (Some(high), Some(low)) = (digit(0), digit(1)) else { return Err(wrong) };
        *byte = (high << 4 | low) as u8;
    }
    Ok(id)
}

/// Bytes in base64, in either alphabet, with or without padding.
pub(super) fn base64(text: &[u8]) -> Read<Vec<u8>> {
    const CONFIG: GeneralPurposeConfig = GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true);
    const STANDARD_ENGINE: GeneralPurpose = GeneralPurpose::new(&STANDARD, CONFIG);
    const URL_ENGINE: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, CONFIG);
    let url = text.iter().any(|byte| matches!(byte, b'-' | b'_'));
    let engine = if url { &URL_ENGINE } else { &STANDARD_ENGINE };
    engine.decode(text).map_err(|_| JsonErrorKind::Base64)
}

#[cfg(test)]
mod tests {
    use super::{Value, base64, id};
    use crate::otlp::json::reader::Reader;
    use crate::otlp::json::shape::{Enum, Scalar};

    fn read(scalar: Scalar, json: &str) -> Option<Value> {
        scalar.read(&Reader::new(json.as_bytes()).scalar().ok()?).ok()
    }

    /// 64-bit numbers are read from numbers, strings and whole floats, at both ends of their range.
    #[test]
    fn whole_numbers_are_read_in_every_form() {
        let int = |json| read(Scalar::Int64, json);
        assert_eq!(int("-9223372036854775808"), Some(Value::Varint(i64::MIN as u64)));
        assert_eq!(int("\"9223372036854775807\""), Some(Value::Varint(i64::MAX as u64)));
        assert_eq!(int("1.0e3"), Some(Value::Varint(1000)));
        assert_eq!(int("\"-2\""), Some(Value::Varint(-2_i64 as u64)));
        for bad in ["9223372036854775808", "1.5", "\"\"", "\" 1\"", "true", "\"0x1\"", "1e400"] {
            assert_eq!(int(bad), None, "{bad}");
        }
        assert_eq!(
            read(Scalar::Fixed64, "\"18446744073709551615\""),
            Some(Value::Fixed64(u64::MAX))
        );
        assert_eq!(read(Scalar::Fixed64, "-1"), None);
        assert_eq!(read(Scalar::Uint32, "4294967295"), Some(Value::Varint(0xffff_ffff)));
        assert_eq!(read(Scalar::Uint32, "4294967296"), None);
        assert_eq!(read(Scalar::Sint32, "-1"), Some(Value::Varint(1)));
        assert_eq!(read(Scalar::Sint32, "-2147483648"), Some(Value::Varint(0xffff_ffff)));
    }

    /// Doubles have three names, and no number past the largest is one.
    #[test]
    fn doubles_are_numbers_or_one_of_three_names() {
        let double = |json| read(Scalar::Double, json);
        let value = |value: f64| Some(Value::Fixed64(value.to_bits()));
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
        assert_eq!(of(Enum::SpanKind, "2"), Some(Value::Varint(2)));
        assert_eq!(of(Enum::SpanKind, "\"SPAN_KIND_SERVER\""), Some(Value::Varint(2)));
        assert_eq!(of(Enum::SpanKind, "-1"), Some(Value::Varint(u64::MAX)));
        assert_eq!(of(Enum::StatusCode, "\"STATUS_CODE_ERROR\""), Some(Value::Varint(2)));
        assert_eq!(of(Enum::Severity, "\"SEVERITY_NUMBER_WARN3\""), Some(Value::Varint(15)));
        let cumulative = "\"AGGREGATION_TEMPORALITY_CUMULATIVE\"";
        assert_eq!(of(Enum::Temporality, cumulative), Some(Value::Varint(2)));
        assert_eq!(of(Enum::SpanKind, "\"SERVER\""), None);
    }

    /// Ids are hex of either case and their own length, or empty.
    #[test]
    fn ids_are_hex() {
        let mut buffer = [0; 16];
        assert_eq!(
            id(b"EEE19b7ec3c1b174", 8, &mut buffer).unwrap(),
            [0xee, 0xe1, 0x9b, 0x7e, 0xc3, 0xc1, 0xb1, 0x74]
        );
        assert_eq!(id(b"", 16, &mut buffer).unwrap(), [0_u8; 0]);
        for bad in [&b"EEE19b7ec3c1b17"[..], b"EEE19b7ec3c1b17g", b"00"] {
            assert!(id(bad, 8, &mut buffer).is_err());
        }
    }

    /// Bytes are base64 in both alphabets, padded or not.
    #[test]
    fn bytes_are_base64() {
        for text in ["+/8=", "+/8", "-_8=", "-_8"] {
            assert_eq!(base64(text.as_bytes()).unwrap(), [0xfb, 0xff], "{text}");
        }
        assert!(base64(b"+/8!").is_err());
    }
}
