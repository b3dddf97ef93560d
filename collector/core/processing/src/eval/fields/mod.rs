//! Decodes the numbers and small messages of fields.

mod nested;
pub(in crate::eval) mod read;
mod sampling;
pub(in crate::eval) mod write;

use millrace_wire::protobuf::{Cursor, FIXED64, LENGTH, VARINT, WireFault, field_tag, unzigzag};

use crate::edit::memory::{Memory, Ref};

/// Reads a varint; 0 if the field is absent.
pub(in crate::eval) fn varint(memory: &Memory<'_>, field: Option<Ref>) -> Result<u64, WireFault> {
    field.map_or(Ok(0), |field| Cursor::new(memory.get(field)).varint())
}

/// Reads eight bytes; 0 if the field is absent.
pub(in crate::eval) fn fixed64(memory: &Memory<'_>, field: Option<Ref>) -> Result<u64, WireFault> {
    field.map_or(Ok(0), |field| Cursor::new(memory.get(field)).fixed64())
}

/// Reads four bytes; 0 if the field is absent.
pub(in crate::eval) fn fixed32(memory: &Memory<'_>, field: Option<Ref>) -> Result<u32, WireFault> {
    field.map_or(Ok(0), |field| Cursor::new(memory.get(field)).fixed32())
}

/// Reads an id; zeros if it is absent.
pub(in crate::eval) fn id<const N: usize>(memory: &Memory<'_>, field: Option<Ref>) -> [u8; N] {
    let bytes = field.map_or(&[][..], |field| memory.get(field));
    bytes.try_into().unwrap_or([0; N])
}

/// A span's status.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::eval) struct Status {
    pub(in crate::eval) message: Ref,
    pub(in crate::eval) code: u64,
}

impl Status {
    pub(in crate::eval) fn read(
        memory: &Memory<'_>,
        field: Option<Ref>,
    ) -> Result<Self, WireFault> {
        const MESSAGE: u32 = field_tag(2, LENGTH);
        const CODE: u32 = field_tag(3, VARINT);
        let mut status = Self::default();
        let Some(field) = field else { return Ok(status) };
        let bytes = memory.get(field);
        let mut cursor = Cursor::new(bytes);
        while let Some(tag) = cursor.tag()? {
            match tag {
                MESSAGE => status.message = field.locate(bytes, cursor.bytes()?),
                CODE => status.code = cursor.varint()?,
                other => cursor.skip(other)?,
            }
        }
        Ok(status)
    }
}

/// One side of an exponential histogram.
#[derive(Clone, Debug, Default)]
pub(in crate::eval) struct BucketFields {
    pub(in crate::eval) offset: i64,
    pub(in crate::eval) counts: Vec<u64>,
}

impl BucketFields {
    pub(in crate::eval) fn read(
        memory: &Memory<'_>,
        field: Option<Ref>,
    ) -> Result<Self, WireFault> {
        const OFFSET: u32 = field_tag(1, VARINT);
        const COUNTS: u32 = field_tag(2, LENGTH);
        const COUNT: u32 = field_tag(2, VARINT);
        let mut buckets = Self::default();
        let Some(field) = field else { return Ok(buckets) };
        let mut cursor = Cursor::new(memory.get(field));
        while let Some(tag) = cursor.tag()? {
            match tag {
                OFFSET => buckets.offset = i64::from(unzigzag(cursor.varint()?) as i32),
                COUNT => buckets.counts.push(cursor.varint()?),
                COUNTS => {
                    let mut packed = Cursor::new(cursor.bytes()?);
                    while !packed.is_empty() {
                        buckets.counts.push(packed.varint()?);
                    }
                }
                other => cursor.skip(other)?,
            }
        }
        Ok(buckets)
    }
}

/// Reads the eight-byte numbers of a repeated field, packed or not, from all its occurrences.
pub(in crate::eval) fn numbers64(
    memory: &Memory<'_>,
    occurrences: impl Iterator<Item = (Ref, Ref)>,
) -> Result<Vec<u64>, WireFault> {
    let mut numbers = Vec::new();
    for (full, value) in occurrences {
        let wire_type = memory.get(full).first().map_or(LENGTH, |tag| u32::from(tag & 7));
        let mut cursor = Cursor::new(memory.get(value));
        while !cursor.is_empty() && (wire_type == LENGTH || wire_type == FIXED64) {
            numbers.push(cursor.fixed64()?);
        }
    }
    Ok(numbers)
}
