//! Tests of the private code of `protobuf.rs`.

use super::*;
use proptest::prelude::*;

/// A truncated tag, one of field 0 or of a number over 29 bits is refused at its start.
#[test]
fn invalid_tags_are_refused() {
    for bytes in [&[0x00][..], &[0x07], &[0xff, 0xff, 0xff, 0xff, 0x7f]] {
        let fault = Cursor::new(bytes).tag().unwrap_err();
        assert_eq!(fault, WireFault::new(WireErrorKind::InvalidTag, bytes), "{bytes:?}");
    }
    assert_eq!(Cursor::new(&[0x80]).tag().unwrap_err().kind(), WireErrorKind::Truncated);
    assert_eq!(Cursor::new(&[]).tag(), Ok(None));
}

/// Groups are refused without a search for their end.
#[test]
fn groups_are_refused() {
    for wire_type in [3, 4] {
        let mut cursor = Cursor::new(&[1, 2, 3]);
        let fault = cursor.skip(field_tag(1, wire_type)).unwrap_err();
        assert_eq!(fault.kind(), WireErrorKind::Group);
    }
}

/// An integer of more than ten bytes, or of more than 64 bits, is refused.
#[test]
fn overlong_integers_are_refused() {
    let kind = |bytes: &[u8]| Cursor::new(bytes).varint().map_err(|fault| fault.kind());
    assert_eq!(kind(&[0xff; 11]), Err(WireErrorKind::OverlongVarint));
    let mut largest = [0xff; 10];
    largest[9] = 1;
    assert_eq!(kind(&largest), Ok(u64::MAX));
    largest[9] = 2;
    assert_eq!(kind(&largest), Err(WireErrorKind::OverlongVarint));
}

/// A length that exceeds the message or the address space is refused.
#[test]
fn lengths_past_the_end_are_refused() {
    let mut huge = Vec::new();
    put_varint(&mut huge, u64::MAX);
    for bytes in [&[3, 1, 2][..], &huge] {
        let fault = Cursor::new(bytes).bytes().unwrap_err();
        assert_eq!(fault, WireFault::new(WireErrorKind::Truncated, bytes));
    }
}

/// Finds the field at `start` by a cursor alone.
fn find_by_cursor(message: &[u8], start: usize) -> Result<FieldSpan, WireFault> {
    let mut cursor = Cursor::new(&message[start..]);
    let tag = cursor.tag()?.unwrap();
    let mut value_start = message.len() - cursor.remaining().len();
    if tag & 7 == LENGTH {
        let content = cursor.bytes()?;
        value_start = message.len() - cursor.remaining().len() - content.len();
    } else {
        cursor.skip(tag)?;
    }
    Ok(FieldSpan { tag, value_start, end: message.len() - cursor.remaining().len() })
}

proptest! {
    /// Fields are found where a cursor finds them, with the same faults: short and long ones, of
    /// every wire type, complete and cut off.
    #[test]
    fn field_spans_are_those_of_a_cursor(
        tag in prop_oneof![0_u8..=0xff, Just(0x0a), Just(0x32)],
        length in prop_oneof![0_u64..20, 120_u64..140, 16_380_u64..16_390],
        noise in prop::collection::vec(any::<u8>(), 0..24),
        filling in prop_oneof![0_usize..24, Just(140), Just(16_390)],
        start in 0_usize..3,
    ) {
        let mut message = vec![0; start];
        message.push(tag);
        put_varint(&mut message, length);
        message.extend_from_slice(&noise);
        message.resize(message.len() + filling, 1);
        prop_assert_eq!(FieldSpan::read(&message, start), find_by_cursor(&message, start));
        let mut message = noise;
        message.push(tag);
        prop_assert_eq!(FieldSpan::read(&message, 0), find_by_cursor(&message, 0));
    }

    /// Every integer is read back as written, and has the computed length.
    #[test]
    fn integers_round_trip(value in any::<u64>(), shift in 0_u32..64) {
        let value = value >> shift;
        let mut bytes = Vec::new();
        put_varint(&mut bytes, value);
        prop_assert_eq!(bytes.len(), varint_len(value));
        let mut cursor = Cursor::new(&bytes);
        prop_assert_eq!(cursor.varint(), Ok(value));
        prop_assert!(cursor.is_empty());
        // Also with bytes behind it.
        let mut followed = bytes.clone();
        followed.extend_from_slice(&[0xff; 9]);
        let mut cursor = Cursor::new(&followed);
        prop_assert_eq!(cursor.varint(), Ok(value));
        prop_assert_eq!(cursor.remaining(), &[0xff; 9]);
        // No prefix of it can be read.
        for end in 0..bytes.len() {
            prop_assert!(Cursor::new(&bytes[..end]).varint().is_err());
        }
    }

    /// Zigzag is decoded as protobuf defines it.
    #[test]
    fn zigzag_is_undone(value in any::<i64>()) {
        prop_assert_eq!(unzigzag((value << 1 ^ value >> 63) as u64), value);
    }

    /// Reading field by field ends and never panics, for any bytes.
    #[test]
    fn any_bytes_are_walked_to_an_end(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut cursor = Cursor::new(&bytes);
        while let Ok(Some(tag)) = cursor.tag() {
            if cursor.skip(tag).is_err() {
                break;
            }
        }
    }
}
