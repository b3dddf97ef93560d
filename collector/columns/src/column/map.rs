//! `Map(LowCardinality(String), String)`: attribute sets with every value as text.

use millrace_wire::WireErrorKind;
use millrace_wire::limits::ATTRIBUTES;
use millrace_wire::otlp::{AnyValue, KeyValue};
use millrace_wire::protobuf::{Cursor, Fault};

use crate::body::BodyWriter;
use crate::column::sequence::Sequence;
use crate::column::strings::split_strings;
use crate::column::{Column, Dictionary, Strings};
use crate::decimal;
use crate::reuse;
use crate::shape::{Offsets, Shape};
use crate::text;

/// A column of maps. The server stores it as an array of key and value pairs: the ends of each
/// row's pairs, all keys, all values.
#[derive(Default)]
pub(crate) struct Map {
    ends: Offsets,
    /// Pairs of the row being filled.
    pending: u64,
    keys: Dictionary,
    sequence: Sequence,
    values: Strings,
    scratch: Vec<u8>,
}

impl Map {
    /// Adds a pair whose value is a scalar, which nearly all are.
    #[inline(always)]
    pub(crate) fn add_scalar(&mut self, attribute: KeyValue<'_>) -> Result<(), Fault> {
        self.put(attribute)
    }

    /// Adds a pair to the row being filled.
    #[inline(never)]
    pub(crate) fn add(&mut self, attribute: KeyValue<'_>) -> Result<(), Fault> {
        self.put(attribute)
    }

    #[inline(always)]
    fn put(&mut self, attribute: KeyValue<'_>) -> Result<(), Fault> {
        match attribute.value {
            AnyValue::String(text) => self.values.push(text),
            AnyValue::Bool(truth) => {
                let (piece, len) = decimal::truth(truth);
                self.values.push_piece(piece, len);
            }
            AnyValue::Int(number) => match decimal::short(number) {
                Some((piece, len)) => self.values.push_piece(&piece, len),
                None => decimal::integer(number, |text| self.values.push(text)),
            },
            AnyValue::Double(number) => self.put_double(number),
            value => {
                self.values.push_with(&mut self.scratch, |out| text::plain(value, out))?;
            }
        }
        if self.pending >= u64::from(ATTRIBUTES) {
            return Err(Cursor::new(attribute.key).fault(WireErrorKind::TooManyAttributes));
        }
        match self.sequence.foretold(attribute.key) {
            Some(index) => self.keys.push_index(index),
            None => self.put_other_key(attribute.key),
        }
        self.pending += 1;
        Ok(())
    }

    #[inline(never)]
    fn put_other_key(&mut self, key: &[u8]) {
        let index = self.keys.push_guessed(key, self.sequence.guess());
        self.sequence.note(key, index);
    }

    #[inline(never)]
    fn put_double(&mut self, number: f64) {
        decimal::double(number, |text| self.values.push(text));
    }

    /// Ends the row.
    #[inline]
    pub(crate) fn end(&mut self) {
        self.ends.push(self.pending);
        self.pending = 0;
        self.sequence.end();
    }

    /// Bytes of all pairs as they are written once: an index for a key, and the value.
    pub(crate) fn value_bytes(&self) -> usize {
        self.keys.len() + self.values.bytes()
    }

    /// Calls `each` for each row with the range of its pairs and how often it is written.
    fn spread(&self, shape: Shape<'_>, mut each: impl FnMut(std::ops::Range<usize>, usize)) {
        for row in 0..self.ends.rows() {
            each(self.ends.range(row), shape.count(row));
        }
    }
}

impl Column for Map {
    fn len(&self) -> usize {
        self.ends.rows()
    }

    fn clear(&mut self) {
        self.ends.clear();
        self.pending = 0;
        self.keys.clear();
        self.sequence.clear();
        self.values.clear();
        reuse::clear(&mut self.scratch);
    }

    fn truncate(&mut self, len: usize) {
        if len < self.ends.rows() {
            self.ends.truncate(len);
        }
        self.pending = 0;
        self.sequence.end();
        let pairs = self.ends.total() as usize;
        self.keys.truncate(pairs);
        self.values.truncate(pairs);
    }

    fn bytes(&self) -> usize {
        self.ends.bytes() + self.keys.bytes() + self.values.bytes()
    }

    fn memory_bytes(&self) -> usize {
        self.ends.memory_bytes()
            + self.keys.memory_bytes()
            + self.values.memory_bytes()
            + self.sequence.memory_bytes()
            + self.scratch.capacity()
    }

    fn write_prefix(&self, body: &mut BodyWriter) {
        self.keys.write_prefix(body);
    }

    fn write_values(&self, shape: Shape<'_>, body: &mut BodyWriter) {
        self.ends.write(shape, body);
        if shape.is_plain() {
            self.keys.write_values(Shape::Rows, body);
            self.values.write_values(Shape::Rows, body);
            return;
        }
        let mut pairs = 0;
        self.spread(shape, |range, count| pairs += range.len() * count);
        self.keys.write_runs(pairs, body, |write| {
            self.spread(shape, write);
        });
        let mut rest = self.values.data();
        self.spread(shape, |range, count| {
            let (row, after) = split_strings(rest, range.len());
            body.repeat(row, count);
            rest = after;
        });
    }
}
