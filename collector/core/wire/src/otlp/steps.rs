//! A message's fields by their tags: one look-up for number and wire type.

use crate::otlp::descriptor::{FieldDescriptor, FieldKind};
use crate::protobuf::{FIXED32, FIXED64, LENGTH, VARINT, field_tag};

/// The tags of one byte.
pub(crate) const SHORT_TAGS: usize = 0x80;

/// How the check reads a field of nearly all records in one step.
#[derive(Clone, Copy)]
pub(crate) enum Step {
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
pub(crate) const fn steps_of(fields: &[FieldDescriptor]) -> [Step; SHORT_TAGS] {
    let mut steps = [Step::Other; SHORT_TAGS];
    let mut index = 0;
    while index < fields.len() {
        let (wire_type, step) = match fields[index].kind {
            FieldKind::Varint => (VARINT, Step::Varint),
            FieldKind::Fixed32 => (FIXED32, Step::Fixed32),
            FieldKind::Fixed64 => (FIXED64, Step::Fixed64),
            FieldKind::Time => (FIXED64, Step::Time),
            FieldKind::SecondTime => (FIXED64, Step::SecondTime),
            FieldKind::Text => (LENGTH, Step::Text),
            FieldKind::Id(16) => (LENGTH, Step::TraceId),
            FieldKind::Id(8) => (LENGTH, Step::SpanId),
            FieldKind::Attribute => (LENGTH, Step::Attribute),
            FieldKind::Message(_) => (LENGTH, Step::Message),
            _ => (LENGTH, Step::Other),
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
