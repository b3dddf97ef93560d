//! Strings: each its length, then its bytes.

use millrace_wire::otlp::is_absent_id;
use millrace_wire::protobuf::{Cursor, put_varint};

use crate::body::BodyWriter;
use crate::bytes::{put_hex, put_piece, put_text};
use crate::column::Column;
use crate::hex;
use crate::reuse;
use crate::shape::Shape;

/// A `String` column.
#[derive(Debug, Default)]
pub(crate) struct Strings {
    data: Vec<u8>,
    len: usize,
}

impl Strings {
    #[inline]
    pub(crate) fn push(&mut self, text: &[u8]) {
        self.len += 1;
        put_text(&mut self.data, text);
    }

    /// Appends the first `len` bytes of a piece.
    #[inline]
    pub(crate) fn push_piece<const N: usize>(&mut self, piece: &[u8; N], len: usize) {
        self.len += 1;
        put_piece(&mut self.data, piece, len);
    }

    /// Appends a trace id in hexadecimal; an absent one as the empty string.
    #[inline]
    pub(crate) fn push_trace_id(&mut self, id: &[u8]) {
        match <&[u8; 16]>::try_from(id) {
            Ok(id) if !is_absent_id(id) => self.push_pairs(id),
            _ => self.push_odd_id(id),
        }
    }

    /// Appends a span id in hexadecimal; an absent one as the empty string.
    #[inline]
    pub(crate) fn push_span_id(&mut self, id: &[u8]) {
        match <&[u8; 8]>::try_from(id) {
            Ok(id) if !is_absent_id(id) => self.push_pairs(id),
            _ => self.push_odd_id(id),
        }
    }

    #[inline]
    fn push_pairs<const N: usize>(&mut self, id: &[u8; N]) {
        self.len += 1;
        put_hex(&mut self.data, id);
    }

    /// An id that is absent or, from a lax producer, of an odd length: kept whole all the same.
    fn push_odd_id(&mut self, id: &[u8]) {
        if is_absent_id(id) {
            self.push(&[]);
        } else {
            self.len += 1;
            put_varint(&mut self.data, 2 * id.len() as u64);
            hex::append(id, &mut self.data);
        }
    }

    /// Appends a string that `write` appends to a buffer, using `scratch` to learn its length.
    pub(crate) fn push_with<E>(
        &mut self,
        scratch: &mut Vec<u8>,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        scratch.clear();
        write(scratch)?;
        self.push(scratch);
        Ok(())
    }

    /// Forgets the last string, which starts at byte `start`.
    pub(crate) fn pop_from(&mut self, start: usize) {
        self.data.truncate(start);
        self.len -= 1;
    }

    /// All strings in their written form.
    pub(crate) fn data(&self) -> &[u8] {
        &self.data
    }

    /// Bytes held, which is where the next string will start.
    pub(crate) fn end(&self) -> usize {
        self.data.len()
    }
}

impl Column for Strings {
    fn len(&self) -> usize {
        self.len
    }

    fn clear(&mut self) {
        reuse::clear(&mut self.data);
        self.len = 0;
    }

    fn truncate(&mut self, len: usize) {
        if len >= self.len {
            return;
        }
        let mut cursor = Cursor::new(&self.data);
        for _ in 0..len {
            let _ = cursor.bytes();
        }
        let end = self.data.len() - cursor.rest().len();
        self.data.truncate(end);
        self.len = len;
    }

    fn bytes(&self) -> usize {
        self.data.len()
    }

    fn memory_bytes(&self) -> usize {
        self.data.capacity()
    }

    fn write_prefix(&self, _body: &mut BodyWriter) {}

    fn write_values(&self, shape: Shape<'_>, body: &mut BodyWriter) {
        write_strings(&self.data, shape, body);
    }
}

/// Writes the strings in `data`, spread over rows by `shape`.
pub(crate) fn write_strings(data: &[u8], shape: Shape<'_>, body: &mut BodyWriter) {
    if shape.is_plain() {
        body.put(data);
        return;
    }
    let mut cursor = Cursor::new(data);
    let mut index = 0;
    while !cursor.is_empty() {
        let before = cursor.rest();
        if cursor.bytes().is_err() {
            break;
        }
        body.repeat(&before[..before.len() - cursor.rest().len()], shape.count(index));
        index += 1;
    }
}

/// Splits `data` after its first `count` strings.
pub(crate) fn split_strings(data: &[u8], count: usize) -> (&[u8], &[u8]) {
    let mut cursor = Cursor::new(data);
    for _ in 0..count {
        if cursor.bytes().is_err() {
            break;
        }
    }
    data.split_at(data.len() - cursor.rest().len())
}
