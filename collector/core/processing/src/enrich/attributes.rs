//! A pod's attributes as the bytes that a resource gets.

use millrace_wire::protobuf::put_varint;

use crate::edit::encode::{FIRST, LIST, SECOND, field_len};

/// The value of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttributeValue<'v> {
    /// A text.
    Text(&'v str),
    /// A list with one text.
    OneText(&'v str),
}

/// The attributes of a pod, encoded as fields of an OTLP resource. Immutable.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PodAttributes(Box<[u8]>);

impl PodAttributes {
    /// Encodes attributes, whose names must differ.
    #[must_use]
    pub fn encode(attributes: &[(&str, AttributeValue<'_>)]) -> Self {
        let mut bytes = Vec::new();
        for (name, value) in attributes {
            let any = encode_value(*value);
            bytes.push(FIRST);
            put_varint(&mut bytes, (field_len(name.len()) + field_len(any.len())) as u64);
            put_field(&mut bytes, FIRST, name.as_bytes());
            put_field(&mut bytes, SECOND, &any);
        }
        Self(bytes.into_boxed_slice())
    }

    /// Returns these attributes, of which only the first `own_bytes` bytes are taken, and others.
    #[must_use]
    pub fn join(&self, own_bytes: usize, others: &Self) -> Self {
        let own = self.0.get(..own_bytes).unwrap_or(&self.0);
        Self([own, &others.0].concat().into_boxed_slice())
    }

    /// Returns the fields of a resource.
    #[must_use]
    pub const fn bytes(&self) -> &[u8] {
        &self.0
    }
}

fn encode_value(value: AttributeValue<'_>) -> Vec<u8> {
    let mut any = Vec::new();
    match value {
        AttributeValue::Text(text) => put_field(&mut any, FIRST, text.as_bytes()),
        AttributeValue::OneText(text) => {
            let (mut element, mut list) = (Vec::new(), Vec::new());
            put_field(&mut element, FIRST, text.as_bytes());
            put_field(&mut list, FIRST, &element);
            put_field(&mut any, LIST, &list);
        }
    }
    any
}

fn put_field(bytes: &mut Vec<u8>, tag: u8, content: &[u8]) {
    bytes.push(tag);
    put_varint(bytes, content.len() as u64);
    bytes.extend_from_slice(content);
}
