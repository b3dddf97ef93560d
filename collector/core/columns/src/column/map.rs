//! `Map(LowCardinality(String), String)`: attribute sets with every value as text.

use millrace_wire::WireErrorKind;
use millrace_wire::limits::ATTRIBUTES;
use millrace_wire::otlp::{AnyValue, KeyValue};
use millrace_wire::protobuf::{Cursor, WireFault};

use crate::body::BodyWriter;
use crate::column::pair_order::PairOrder;
use crate::column::sequence::Sequence;
use crate::column::strings::split_strings;
use crate::column::{ColumnBuilder, Dictionary, Strings};
use crate::format::decimal;
use crate::format::text;
use crate::reuse;
use crate::shape::{ColumnShape, Offsets};

/// A column of maps. The server stores it as an array of key and value pairs: the ends of each
/// row's pairs, all keys, all values.
#[derive(Default)]
pub(crate) struct Map {
    ends: Offsets,
    /// The number of the current row's pairs.
    pending: u64,
    keys: Dictionary,
    sequence: Sequence,
    values: Strings,
    scratch: Vec<u8>,
    /// Sorts the pairs of each row, in columns that identify a series.
    order: Option<Box<PairOrder>>,
    /// The start of the current row's values.
    row_start: usize,
}

impl Map {
    /// Creates a column whose rows have their pairs in the order of their keys.
    pub(crate) fn sorted() -> Self {
        Self { order: Some(Box::default()), ..Self::default() }
    }

    /// Adds a pair whose value is a scalar, as nearly all are.
    #[inline(always)]
    pub(crate) fn add_scalar(&mut self, attribute: KeyValue<'_>) -> Result<(), WireFault> {
        self.put_attribute(attribute)
    }

    /// Adds a pair to the current row.
    #[inline(never)]
    pub(crate) fn add_attribute(&mut self, attribute: KeyValue<'_>) -> Result<(), WireFault> {
        self.put_attribute(attribute)
    }

    #[inline(always)]
    fn put_attribute(&mut self, attribute: KeyValue<'_>) -> Result<(), WireFault> {
        match attribute.value {
            AnyValue::String(text) => self.values.push(text),
            AnyValue::Bool(truth) => {
                let (piece, len) = decimal::format_bool(truth);
                self.values.push_piece(piece, len);
            }
            AnyValue::Int(number) => match decimal::format_short(number) {
                Some((piece, len)) => self.values.push_piece(&piece, len),
                None => decimal::format_integer(number, |text| self.values.push(text)),
            },
            AnyValue::Double(number) => self.put_double(number),
            value => {
                self.values.push_with(&mut self.scratch, |out| text::append_plain(value, out))?;
            }
        }
        if self.pending >= u64::from(ATTRIBUTES) {
            return Err(Cursor::new(attribute.key).fault_here(WireErrorKind::TooManyAttributes));
        }
        match self.sequence.match_guess(attribute.key) {
            Some(index) => self.keys.push_index(index),
            None => self.put_other_key(attribute.key),
        }
        self.pending += 1;
        Ok(())
    }

    #[inline(never)]
    fn put_other_key(&mut self, key: &[u8]) {
        let index = self.keys.push_guessed(key, self.sequence.guess());
        self.sequence.record_key(key, index);
    }

    #[inline(never)]
    fn put_double(&mut self, number: f64) {
        decimal::format_double(number, |text| self.values.push(text));
    }

    /// Ends the row.
    #[inline]
    pub(crate) fn end_row(&mut self) {
        if let Some(order) = self.order.as_deref_mut() {
            if self.pending > 1 {
                let first_key = self.keys.len() - self.pending as usize;
                order.sort((&mut self.keys, first_key), (&mut self.values, self.row_start));
            }
            self.row_start = self.values.end_offset();
        }
        self.ends.push(self.pending);
        self.pending = 0;
        self.sequence.end_row();
    }

    /// Returns the bytes of all pairs, each written once: an index for a key, and the value.
    pub(crate) fn value_bytes(&self) -> usize {
        self.keys.len() + self.values.data_bytes()
    }

    /// Calls `each` for each row with the range of its pairs and how often it is written.
    fn for_each_row(
        &self,
        shape: ColumnShape<'_>,
        mut each: impl FnMut(std::ops::Range<usize>, usize),
    ) {
        for row in 0..self.ends.row_count() {
            each(self.ends.value_range(row), shape.rows_sharing(row));
        }
    }
}

impl ColumnBuilder for Map {
    fn len(&self) -> usize {
        self.ends.row_count()
    }

    fn clear(&mut self) {
        self.ends.clear();
        self.pending = 0;
        self.keys.clear();
        self.sequence.clear();
        self.values.clear();
        self.row_start = 0;
        self.order.iter_mut().for_each(|order| order.clear());
        reuse::clear(&mut self.scratch);
    }

    fn truncate(&mut self, len: usize) {
        if len < self.ends.row_count() {
            self.ends.truncate(len);
        }
        self.pending = 0;
        self.sequence.end_row();
        let pairs = self.ends.total() as usize;
        self.keys.truncate(pairs);
        self.values.truncate(pairs);
        self.row_start = self.values.end_offset();
    }

    fn data_bytes(&self) -> usize {
        self.ends.data_bytes() + self.keys.data_bytes() + self.values.data_bytes()
    }

    fn memory_bytes(&self) -> usize {
        self.ends.memory_bytes()
            + self.keys.memory_bytes()
            + self.values.memory_bytes()
            + self.sequence.memory_bytes()
            + self.order.as_ref().map_or(0, |order| order.memory_bytes())
            + self.scratch.capacity()
    }

    fn write_prefix(&self, body: &mut BodyWriter) {
        self.keys.write_prefix(body);
    }

    fn write_values(&self, shape: ColumnShape<'_>, body: &mut BodyWriter) {
        self.ends.write(shape, body);
        if shape.is_plain() {
            self.keys.write_values(ColumnShape::Rows, body);
            self.values.write_values(ColumnShape::Rows, body);
            return;
        }
        let mut pairs = 0;
        self.for_each_row(shape, |range, count| pairs += range.len() * count);
        self.keys.write_runs(pairs, body, |write| {
            self.for_each_row(shape, write);
        });
        let mut rest = self.values.data();
        self.for_each_row(shape, |range, count| {
            let (row, after) = split_strings(rest, range.len());
            body.put_repeated(row, count);
            rest = after;
        });
    }
}
