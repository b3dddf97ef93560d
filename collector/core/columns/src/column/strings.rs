//! Strings, each written as its length and its bytes.

use millrace_wire::otlp::is_absent_id;
use millrace_wire::protobuf::{Cursor, put_varint};

use crate::body::BodyWriter;
use crate::column::ColumnBuilder;
use crate::format::bytes::{put_hex, put_piece, put_text};
use crate::format::hex;
use crate::reuse;
use crate::shape::ColumnShape;

/// The longest string, with its length, that is moved by a copy of this size.
const SHORT: usize = 32;

/// The memory for reordering strings: the earlier strings, and the start of each.
#[derive(Debug, Default)]
pub(crate) struct Reorder {
    old: Vec<u8>,
    starts: Vec<u32>,
}

impl Reorder {
    pub(crate) fn clear(&mut self) {
        reuse::clear(&mut self.old);
        reuse::clear(&mut self.starts);
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.old.capacity() + self.starts.capacity() * size_of::<u32>()
    }
}

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

    /// Appends a trace id in hexadecimal; a missing one as the empty string.
    #[inline]
    pub(crate) fn push_trace_id(&mut self, id: &[u8]) {
        match <&[u8; 16]>::try_from(id) {
            Ok(id) if !is_absent_id(id) => self.push_pairs(id),
            _ => self.push_odd_id(id),
        }
    }

    /// Appends a span id in hexadecimal; a missing one as the empty string.
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

    /// Appends an id that is missing or, from a lax producer, of an odd length; it is stored
    /// completely.
    fn push_odd_id(&mut self, id: &[u8]) {
        if is_absent_id(id) {
            self.push(&[]);
        } else {
            self.len += 1;
            put_varint(&mut self.data, 2 * id.len() as u64);
            hex::append_hex(id, &mut self.data);
        }
    }

    /// Appends a string that `write` appends to a buffer; `scratch` serves to learn its length.
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

    /// Drops the last string, which starts at byte `start`.
    pub(crate) fn pop_from(&mut self, start: usize) {
        self.data.truncate(start);
        self.len -= 1;
    }

    /// Puts the strings from byte `start` on in the order of `positions`, which has each of them
    /// once.
    pub(crate) fn reorder_from(&mut self, start: usize, positions: &[u16], scratch: &mut Reorder) {
        let Reorder { old, starts } = scratch;
        old.clear();
        old.extend_from_slice(&self.data[start..]);
        starts.clear();
        let mut end = 0;
        for _ in positions {
            starts.push(end);
            end += string_bytes(&old[end as usize..]);
        }
        starts.push(end);
        old.extend_from_slice(&[0; SHORT]);
        self.data.extend_from_slice(&[0; SHORT]);
        let mut to = start;
        for &position in positions {
            let at = usize::from(position);
            let (from, end) = (starts[at] as usize, starts[at + 1] as usize);
            // A copy of a fixed size has no branch that depends on the length.
            let len = if end - from <= SHORT { SHORT } else { end - from };
            if len == SHORT {
                self.data[to..to + SHORT].copy_from_slice(&old[from..from + SHORT]);
            } else {
                self.data[to..to + len].copy_from_slice(&old[from..end]);
            }
            to += end - from;
        }
        self.data.truncate(to);
    }

    /// Returns all strings in their written form.
    pub(crate) fn data(&self) -> &[u8] {
        &self.data
    }

    /// Returns the bytes held, which is where the next string will start.
    pub(crate) fn end_offset(&self) -> usize {
        self.data.len()
    }
}

impl ColumnBuilder for Strings {
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
        let end = self.data.len() - cursor.remaining().len();
        self.data.truncate(end);
        self.len = len;
    }

    fn data_bytes(&self) -> usize {
        self.data.len()
    }

    fn memory_bytes(&self) -> usize {
        self.data.capacity()
    }

    fn write_prefix(&self, _body: &mut BodyWriter) {}

    fn write_values(&self, shape: ColumnShape<'_>, body: &mut BodyWriter) {
        write_strings(&self.data, shape, body);
    }
}

/// Returns the bytes of the first string of `data` in its written form.
#[inline]
fn string_bytes(data: &[u8]) -> u32 {
    let bytes = match data.first() {
        Some(&len) if len < 0x80 => 1 + usize::from(len),
        _ => {
            let mut cursor = Cursor::new(data);
            let _ = cursor.bytes();
            data.len() - cursor.remaining().len()
        }
    };
    // A batch ends far below 4 GiB.
    bytes as u32
}

/// Writes the strings in `data`, spread over rows by `shape`.
pub(crate) fn write_strings(data: &[u8], shape: ColumnShape<'_>, body: &mut BodyWriter) {
    if shape.is_plain() {
        body.put_raw(data);
        return;
    }
    let mut cursor = Cursor::new(data);
    let mut index = 0;
    while !cursor.is_empty() {
        let before = cursor.remaining();
        if cursor.bytes().is_err() {
            break;
        }
        body.put_repeated(
            &before[..before.len() - cursor.remaining().len()],
            shape.rows_sharing(index),
        );
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
    data.split_at(data.len() - cursor.remaining().len())
}
