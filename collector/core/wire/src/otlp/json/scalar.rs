//! Reads numbers, bools, enums, ids and bytes of OTLP's JSON.

use base64::Engine;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::error::JsonErrorKind;
use super::reader::{Token, number_len};
use super::shape::{Enum, Scalar};

/// A scalar as protobuf holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScalarValue {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
}

type Read<T> = Result<T, JsonErrorKind>;

impl Scalar {
    /// Returns the value of a token in a field of this type.
    pub(super) fn read(self, token: &Token<'_>) -> Read<ScalarValue> {
        const U32: &str = "a 32-bit integer";
        const U64: &str = "an unsigned 64-bit integer";
        const I64: &str = "a 64-bit integer";
        let in_u32 = |what| -> Read<u32> {
            parse_integer(token, what)?.try_into().map_err(|_| JsonErrorKind::Number(what))
        };
        Ok(match self {
            Self::Bool => match token {
                Token::Bool(value) => ScalarValue::Varint(u64::from(*value)),
                _ => return Err(JsonErrorKind::Expected("true or false")),
            },
            Self::Int64 => ScalarValue::Varint(parse_i64(token, I64)? as u64),
            Self::Sfixed64 => ScalarValue::Fixed64(parse_i64(token, I64)? as u64),
            Self::Uint64 => ScalarValue::Varint(parse_u64(token, U64)?),
            Self::Fixed64 => ScalarValue::Fixed64(parse_u64(token, U64)?),
            Self::Uint32 => ScalarValue::Varint(u64::from(in_u32(U32)?)),
            Self::Fixed32 => ScalarValue::Fixed32(in_u32(U32)?),
            Self::Sint32 => {
                let value = i32::try_from(parse_integer(token, U32)?);
                let value = value.map_err(|_| JsonErrorKind::Number(U32))?;
                ScalarValue::Varint(u64::from((value << 1 ^ value >> 31) as u32))
            }
            Self::Double => ScalarValue::Fixed64(parse_f64(token)?.to_bits()),
            Self::Enum(kind) => ScalarValue::Varint(i64::from(parse_enum(token, kind)?) as u64),
        })
    }
}

/// Returns the text of a number, quoted or not.
fn number_text<'t>(token: &'t Token<'_>, what: &'static str) -> Read<&'t str> {
    let text = match token {
        Token::Number(text) => text,
        Token::Text(text) if number_len(text) == Some(text.len()) => &**text,
        Token::Text(_) | Token::Bool(_) => return Err(JsonErrorKind::Number(what)),
    };
    std::str::from_utf8(text).map_err(|_| JsonErrorKind::Number(what))
}

/// Reads an integer, which may be written like a float.
fn parse_integer(token: &Token<'_>, what: &'static str) -> Read<i128> {
    /// Every 64-bit integer is less.
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

fn parse_i64(token: &Token<'_>, what: &'static str) -> Read<i64> {
    parse_integer(token, what)?.try_into().map_err(|_| JsonErrorKind::Number(what))
}

fn parse_u64(token: &Token<'_>, what: &'static str) -> Read<u64> {
    parse_integer(token, what)?.try_into().map_err(|_| JsonErrorKind::Number(what))
}

fn parse_f64(token: &Token<'_>) -> Read<f64> {
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
    // A number over the largest double is invalid for this field.
    value.filter(|value| value.is_finite()).ok_or(JsonErrorKind::Number(WHAT))
}

fn parse_enum(token: &Token<'_>, kind: Enum) -> Read<i32> {
    const WHAT: &str = "a 32-bit integer";
    match token {
        Token::Text(name) if number_len(name) != Some(name.len()) => {
            kind.number_of(name).ok_or(JsonErrorKind::EnumName(kind.protocol_name()))
        }
        _ => parse_integer(token, WHAT)?.try_into().map_err(|_| JsonErrorKind::Number(WHAT)),
    }
}

/// Reads an id of `length` bytes in hex, either case; empty stays empty.
pub(super) fn decode_id<'b>(
    digits: &[u8],
    length: usize,
    buffer: &'b mut [u8; 16],
) -> Read<&'b [u8]> {
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

/// Reads base64, in either alphabet, with or without padding.
pub(super) fn decode_base64(text: &[u8]) -> Read<Vec<u8>> {
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
mod tests;
