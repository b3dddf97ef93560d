//! Reads fields as encoders write nearly all of them, each in one step: tags of one byte, lengths
//! of one or two, attributes that are a key and then a text, number or flag.

use crate::error::WireFault;
use crate::otlp::check::text::{check_utf8, is_ascii};
use crate::otlp::check::{RequestWalk, VALUE_BYTES};
use crate::otlp::descriptor::{ANY_VALUE, FieldKind, MessageDescriptor};
use crate::otlp::steps::FieldStep;
use crate::protobuf::{Cursor, FIXED64, LENGTH, VARINT, field_tag};

const KEY: u8 = field_tag(1, LENGTH) as u8;
const VALUE: u8 = field_tag(2, LENGTH) as u8;
const STRING: u8 = field_tag(1, LENGTH) as u8;
const BOOL: u8 = field_tag(2, VARINT) as u8;
const INT: u8 = field_tag(3, VARINT) as u8;
const DOUBLE: u8 = field_tag(4, FIXED64) as u8;

impl<'a> RequestWalk<'a> {
    /// Returns the tag of the next field that isn't read in one step. Counts the attributes before
    /// it.
    #[inline(always)]
    pub(super) fn next_tag(
        &mut self,
        message: &MessageDescriptor,
        cursor: &mut Cursor<'a>,
        depth: u32,
        attributes: &mut u32,
    ) -> Result<Option<u32>, WireFault> {
        if depth == 0 {
            let left = self.limits.attributes.saturating_sub(*attributes);
            *attributes += self.read_common_fields(message, cursor, left);
        }
        cursor.tag()
    }

    /// Reads fields of a message outside of attributes' values, up to the first that is written in
    /// another form or is malformed: the walk by the message's table reads that one, and finds the
    /// position of its fault. Returns the number of attributes, at most `attributes_left`.
    #[inline]
    fn read_common_fields(
        &mut self,
        message: &MessageDescriptor,
        cursor: &mut Cursor<'a>,
        attributes_left: u32,
    ) -> u32 {
        let mut rest = cursor.remaining();
        let mut attributes = 0;
        while let [tag @ ..0x80, value @ ..] = rest {
            let next = match message.steps[usize::from(*tag)] {
                FieldStep::Attribute if attributes < attributes_left => {
                    let next = split_short(value)
                        .and_then(|(attribute, next)| is_plain(attribute).then_some(next));
                    attributes += u32::from(next.is_some());
                    next
                }
                FieldStep::Text => split_short(value)
                    .and_then(|(text, next)| check_utf8(text).is_ok().then_some(next)),
                FieldStep::Time => value.split_first_chunk().map(|(time, next)| {
                    self.times[0] = u64::from_le_bytes(*time);
                    next
                }),
                FieldStep::SecondTime => value.split_first_chunk().map(|(time, next)| {
                    self.times[1] = u64::from_le_bytes(*time);
                    next
                }),
                FieldStep::Fixed64 => value.get(8..),
                FieldStep::Fixed32 => value.get(4..),
                FieldStep::Varint => match value {
                    [..0x80, next @ ..] => Some(next),
                    _ => None,
                },
                FieldStep::TraceId => skip_id::<16>(value),
                FieldStep::SpanId => skip_id::<8>(value),
                FieldStep::Message => split_short(value)
                    .and_then(|(value, next)| is_text(message, *tag, value).then_some(next)),
                FieldStep::Attribute | FieldStep::Other => None,
            };
            match next {
                Some(next) => rest = next,
                None => break,
            }
        }
        self.extra_bytes += u64::from(attributes) * VALUE_BYTES;
        *cursor = Cursor::new(rest);
        attributes
    }
}

/// Splits off what follows a length of one or two bytes.
#[inline(always)]
fn split_short(value: &[u8]) -> Option<(&[u8], &[u8])> {
    match value {
        [len @ ..0x80, rest @ ..] => rest.split_at_checked(usize::from(*len)),
        [low, high @ ..0x80, rest @ ..] => {
            rest.split_at_checked(usize::from(*low & 0x7f) | usize::from(*high) << 7)
        }
        _ => None,
    }
}

/// Skips an id of `LEN` bytes, or an empty one.
#[inline(always)]
fn skip_id<const LEN: usize>(value: &[u8]) -> Option<&[u8]> {
    match value {
        [0, next @ ..] => Some(next),
        [len, rest @ ..] if usize::from(*len) == LEN => rest.get(LEN..),
        _ => None,
    }
}

/// Whether the field with a tag holds an `AnyValue`, and this one is one text.
#[inline(always)]
fn is_text(message: &MessageDescriptor, tag: u8, value: &[u8]) -> bool {
    let field = message.field(u32::from(tag >> 3));
    let is_any_value = field.is_some_and(|field| match field.kind {
        FieldKind::Message(inner) => std::ptr::eq(inner, &raw const ANY_VALUE),
        _ => false,
    });
    match value {
        [STRING, rest @ ..] if is_any_value => {
            matches!(split_short(rest), Some((text, [])) if check_utf8(text).is_ok())
        }
        _ => false,
    }
}

/// Whether an attribute is a key and a text, number or flag, each once and in this order.
#[inline(always)]
fn is_plain(attribute: &[u8]) -> bool {
    let [KEY, key_len @ ..0x80, rest @ ..] = attribute else { return false };
    let Some((key, rest)) = rest.split_at_checked(usize::from(*key_len)) else { return false };
    let [VALUE, value_len @ ..0x80, value @ ..] = rest else { return is_long(key, rest) };
    if usize::from(*value_len) != value.len() {
        return false;
    }
    match value {
        // All tags and lengths are ASCII, so one search covers both texts.
        [STRING, len, text @ ..] => {
            usize::from(*len) == text.len()
                && (is_ascii(attribute) || check_utf8(key).is_ok() && check_utf8(text).is_ok())
        }
        [BOOL | INT, ..0x80] => is_ascii(attribute),
        [BOOL | INT, number @ ..] => {
            let mut number = Cursor::new(number);
            number.varint().is_ok() && number.is_empty() && check_utf8(key).is_ok()
        }
        [DOUBLE, number @ ..] => number.len() == 8 && check_utf8(key).is_ok(),
        _ => false,
    }
}

/// As [`is_plain`], for texts too long for a length of one byte.
#[inline(never)]
fn is_long(key: &[u8], value: &[u8]) -> bool {
    let [VALUE, value @ ..] = value else { return false };
    let Some(([STRING, rest @ ..], [])) = split_short(value) else { return false };
    let Some((text, [])) = split_short(rest) else { return false };
    check_utf8(text).is_ok() && check_utf8(key).is_ok()
}
