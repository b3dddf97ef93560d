//! Reads servers' answers: counts of refused records, and retry delays. It trusts no length.

use super::write::{BYTES, FIXED32, FIXED64, VARINT};

/// A field of a message: its number, and its payload.
enum ProtoField<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
    Other,
}

/// Reads the next field and advances; `None` at the end and at malformed input.
fn next_field<'a>(rest: &mut &'a [u8]) -> Option<(u64, ProtoField<'a>)> {
    let head = take_varint(rest)?;
    let field = match (head & 7) as u8 {
        VARINT => ProtoField::Varint(take_varint(rest)?),
        FIXED64 => take_bytes(rest, 8).map(|_| ProtoField::Other)?,
        FIXED32 => take_bytes(rest, 4).map(|_| ProtoField::Other)?,
        BYTES => {
            let len = usize::try_from(take_varint(rest)?).ok()?;
            ProtoField::Bytes(take_bytes(rest, len)?)
        }
        _ => return None,
    };
    Some((head >> 3, field))
}

fn take_bytes<'a>(rest: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (head, left) = rest.split_at_checked(len)?;
    *rest = left;
    Some(head)
}

fn take_varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for at in 0..10 {
        let (&byte, left) = rest.split_first()?;
        *rest = left;
        value |= u64::from(byte & 0x7F).checked_shl(7 * at)?;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Returns the records that a server rejected, from the answer to an export of any signal: all
/// three have the same fields.
pub(crate) fn rejected_records(mut response: &[u8]) -> u64 {
    while let Some((number, field)) = next_field(&mut response) {
        if let (1, ProtoField::Bytes(mut partial)) = (number, field) {
            while let Some((number, field)) = next_field(&mut partial) {
                if let (1, ProtoField::Varint(rejected)) = (number, field) {
                    return rejected;
                }
            }
        }
    }
    0
}

/// Returns the delay that a server requests, from the `RetryInfo` in a `google.rpc.Status`.
pub(crate) fn retry_delay(mut status: &[u8]) -> Option<std::time::Duration> {
    while let Some((number, field)) = next_field(&mut status) {
        let (3, ProtoField::Bytes(mut any)) = (number, field) else { continue };
        let (mut is_retry_info, mut value): (bool, &[u8]) = (false, &[]);
        while let Some((number, field)) = next_field(&mut any) {
            match (number, field) {
                (1, ProtoField::Bytes(url)) => {
                    is_retry_info = url.ends_with(b"google.rpc.RetryInfo")
                }
                (2, ProtoField::Bytes(bytes)) => value = bytes,
                _ => {}
            }
        }
        if is_retry_info {
            return Some(delay_of(value));
        }
    }
    None
}

fn delay_of(mut retry_info: &[u8]) -> std::time::Duration {
    let (mut seconds, mut nanos) = (0, 0);
    while let Some((number, field)) = next_field(&mut retry_info) {
        let (1, ProtoField::Bytes(mut duration)) = (number, field) else { continue };
        while let Some((number, field)) = next_field(&mut duration) {
            match (number, field) {
                (1, ProtoField::Varint(value)) => seconds = value,
                (2, ProtoField::Varint(value)) => nanos = u32::try_from(value).unwrap_or(0),
                _ => {}
            }
        }
    }
    // A negative delay arrives as a huge varint and counts as no delay.
    if i64::try_from(seconds).is_err() {
        return std::time::Duration::ZERO;
    }
    std::time::Duration::from_secs(seconds) + std::time::Duration::from_nanos(u64::from(nanos))
}
