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
    /// What a token means in a field of this type.
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

/// The text of a number, in quotes or not.
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
#[path = "../../../tests/unit/otlp/json/scalar.rs"]
mod tests;
