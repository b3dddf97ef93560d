//! A message's fields by their tags: one look-up for number and wire type.

use crate::otlp::descriptor::{FieldDescriptor, FieldKind};
use crate::protobuf::{FIXED32, FIXED64, LENGTH, VARINT, field_tag};

/// The tags of one byte.
pub(crate) const SHORT_TAGS: usize = 0x80;

/// How the check reads a field of nearly all records in one step.
#[derive(Clone, Copy)]
pub(crate) enum FieldStep {
    /// By the message's table: an undefined field, one of an unexpected wire type, or a rarer one.
    Other,
    Varint,
    Fixed32,
    Fixed64,
    Time,
    SecondTime,
    Text,
    TraceId,
    SpanId,
    Attribute,
    Message,
}

/// Returns the step for each tag of one byte.
pub(crate) const fn steps_of(fields: &[FieldDescriptor]) -> [FieldStep; SHORT_TAGS] {
    let mut steps = [FieldStep::Other; SHORT_TAGS];
    let mut index = 0;
    while index < fields.len() {
        let (wire_type, step) = match fields[index].kind {
            FieldKind::Varint => (VARINT, FieldStep::Varint),
            FieldKind::Fixed32 => (FIXED32, FieldStep::Fixed32),
            FieldKind::Fixed64 => (FIXED64, FieldStep::Fixed64),
            FieldKind::Time => (FIXED64, FieldStep::Time),
            FieldKind::SecondTime => (FIXED64, FieldStep::SecondTime),
            FieldKind::Text => (LENGTH, FieldStep::Text),
            FieldKind::Id(16) => (LENGTH, FieldStep::TraceId),
            FieldKind::Id(8) => (LENGTH, FieldStep::SpanId),
            FieldKind::Attribute => (LENGTH, FieldStep::Attribute),
            FieldKind::Message(_) => (LENGTH, FieldStep::Message),
            _ => (LENGTH, FieldStep::Other),
        };
        // The field with the number n is at n - 1.
        let tag = field_tag(index as u32 + 1, wire_type) as usize;
        if tag < SHORT_TAGS {
            steps[tag] = step;
        }
        index += 1;
    }
    steps
}
