//! Decodes labels of the protobuf format (`LabelPair`).

use millrace_wire::protobuf::{Cursor, LENGTH, field_tag};

use crate::limits::FaultKind;

/// The field of labels in a metric and in an exemplar, and of a label's name.
pub(crate) const LABEL: u32 = field_tag(1, LENGTH);
/// The field of a label's value.
const LABEL_VALUE: u32 = field_tag(2, LENGTH);

/// Decodes a label's name and value.
pub(crate) fn decode_label(message: &[u8]) -> Result<(&[u8], &[u8]), FaultKind> {
    let (mut name, mut value): (&[u8], &[u8]) = (&[], &[]);
    let mut cursor = Cursor::new(message);
    while let Some(tag) = cursor.tag()? {
        match tag {
            LABEL => name = cursor.bytes()?,
            LABEL_VALUE => value = cursor.bytes()?,
            _ => cursor.skip(tag)?,
        }
    }
    for text in [name, value] {
        std::str::from_utf8(text).map_err(|_| FaultKind::NotText)?;
    }
    if name.is_empty() { Err(FaultKind::LabelName) } else { Ok((name, value)) }
}
