//! One path of a JSON column: the rows with a value, each value's type, and the values by type.

use millrace_wire::otlp::Array;
use millrace_wire::protobuf::{Cursor, WireFault};

use crate::body::BodyWriter;
use crate::column::fixed::write_fixed;
use crate::column::json::arrays::{ArrayValues, element_kind};
use crate::column::json::kind::JsonKind;
use crate::column::json::{FLATTENED, NO_PATH};
use crate::column::{ColumnBuilder, Strings};
use crate::format::decimal;
use crate::reuse;
use crate::shape::ColumnShape;

/// Adjacent rows with values of one type.
#[derive(Clone, Copy, Debug)]
struct ValueRun {
    start: u32,
    end: u32,
    kind: JsonKind,
}

impl ValueRun {
    /// No rows: the run of a path without values.
    const NONE: Self = Self { start: 0, end: 0, kind: JsonKind::String };
}

/// A path and its values in this block.
pub(super) struct JsonPath {
    name: Box<[u8]>,
    /// The run that the next value most often extends; empty if the path has no value.
    open: ValueRun,
    /// The runs before the open one.
    runs: Vec<ValueRun>,
    kinds: u16,
    strings: Strings,
    /// The start of the last string: needed when a later value of its row replaces it.
    last_string: usize,
    int64s: Vec<u8>,
    float64s: Vec<u8>,
    bools: Vec<u8>,
    /// Arrays are rare; a path without them has no builders for them.
    arrays: Option<Box<ArrayValues>>,
    /// Whether a list's member created it in this block.
    is_member: bool,
    /// Its last successor.
    next: u32,
}

impl JsonPath {
    /// The bytes of a path with one value, in addition to name and value.
    pub(super) const LEAST_BYTES: usize = size_of::<ValueRun>();

    pub(super) fn new(name: &[u8]) -> Self {
        Self::with_name(name.into())
    }

    fn with_name(name: Box<[u8]>) -> Self {
        Self {
            name,
            open: ValueRun::NONE,
            runs: Vec::new(),
            kinds: 0,
            strings: Strings::default(),
            last_string: 0,
            int64s: Vec::new(),
            float64s: Vec::new(),
            bools: Vec::new(),
            arrays: None,
            is_member: false,
            next: NO_PATH,
        }
    }

    #[inline]
    pub(super) fn name(&self) -> &[u8] {
        &self.name
    }

    #[inline]
    pub(super) fn next(&self) -> u32 {
        self.next
    }

    pub(super) fn set_next(&mut self, next: u32) {
        self.next = next;
    }

    #[inline]
    pub(super) fn is_unused(&self) -> bool {
        self.open.end == 0
    }

    /// Records that a list's member created it in this block.
    pub(super) fn set_member(&mut self) {
        self.is_member = true;
    }

    /// Returns the length of its name, if a list's member created it in this block.
    pub(super) fn member_name_bytes(&self) -> usize {
        if self.is_member { self.name.len() } else { 0 }
    }

    /// Returns the bytes of its arrays.
    pub(super) fn array_bytes(&self) -> usize {
        self.arrays.as_ref().map_or(0, |arrays| arrays.data_bytes())
    }

    #[inline]
    pub(super) fn data_bytes(&self) -> usize {
        let arrays = self.array_bytes();
        (self.runs.len() + 1) * size_of::<ValueRun>()
            + self.strings.data_bytes()
            + self.int64s.len()
            + self.float64s.len()
            + self.bools.len()
            + arrays
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let arrays = self.arrays.as_ref().map_or(0, |arrays| arrays.memory_bytes());
        size_of::<Self>()
            + self.name.len()
            + self.runs.capacity() * size_of::<ValueRun>()
            + self.strings.memory_bytes()
            + self.int64s.capacity()
            + self.float64s.capacity()
            + self.bools.capacity()
            + arrays
    }

    /// Drops all values and retains memory; a path without values frees its memory.
    pub(super) fn clear(&mut self) {
        if self.is_unused() {
            if self.memory_bytes() > size_of::<Self>() + self.name.len() {
                let name = std::mem::take(&mut self.name);
                *self = Self::with_name(name);
            }
            return;
        }
        self.open = ValueRun::NONE;
        self.is_member = false;
        reuse::clear(&mut self.runs);
        self.kinds = 0;
        self.strings.clear();
        reuse::clear(&mut self.int64s);
        reuse::clear(&mut self.float64s);
        reuse::clear(&mut self.bools);
        if let Some(arrays) = &mut self.arrays {
            arrays.clear();
        }
    }

    /// Records that `row` has a value of type `kind`, which replaces an earlier one.
    #[inline]
    fn record_value(&mut self, row: u32, kind: JsonKind) {
        if self.open.end == row && self.open.kind == kind && row > 0 {
            self.open.end += 1;
        } else {
            self.begin_run(row, kind);
        }
    }

    #[inline(never)]
    fn begin_run(&mut self, row: u32, kind: JsonKind) {
        if self.open.end > row {
            self.drop_last_value();
            return self.record_value(row, kind);
        }
        if !self.is_unused() {
            self.runs.push(self.open);
        }
        self.open = ValueRun { start: row, end: row + 1, kind };
        self.kinds |= kind.bit_mask();
    }

    fn all_runs(&self) -> impl Iterator<Item = ValueRun> {
        let open = (!self.is_unused()).then_some(self.open);
        self.runs.iter().copied().chain(open)
    }

    #[cold]
    fn drop_last_value(&mut self) {
        let kind = self.open.kind;
        self.open.end -= 1;
        if self.open.end == self.open.start {
            self.open = self.runs.pop().unwrap_or(ValueRun::NONE);
            if !self.all_runs().any(|run| run.kind == kind) {
                self.kinds &= !kind.bit_mask();
            }
        }
        match kind {
            JsonKind::String => self.strings.pop_from(self.last_string),
            JsonKind::Int64 => shorten_by(&mut self.int64s, size_of::<u64>()),
            JsonKind::Float64 => shorten_by(&mut self.float64s, size_of::<u64>()),
            JsonKind::Bool => shorten_by(&mut self.bools, 1),
            JsonKind::Strings
            | JsonKind::Int64s
            | JsonKind::Float64s
            | JsonKind::Bools
            | JsonKind::Mixed => {
                if let Some(arrays) = &mut self.arrays {
                    let rows = arrays.row_count(kind);
                    arrays.truncate(kind, rows.saturating_sub(1));
                }
            }
        }
    }

    #[inline]
    pub(super) fn put_string(&mut self, row: u32, text: &[u8]) {
        self.record_value(row, JsonKind::String);
        self.last_string = self.strings.end_offset();
        self.strings.push(text);
    }

    /// Sets an `Int64` or `Float64`, given as its 64 bits.
    #[inline]
    pub(super) fn put_bits(&mut self, row: u32, kind: JsonKind, bits: u64) {
        self.record_value(row, kind);
        let words = if kind == JsonKind::Int64 { &mut self.int64s } else { &mut self.float64s };
        words.extend_from_slice(&bits.to_le_bytes());
    }

    #[inline]
    pub(super) fn put_bool(&mut self, row: u32, truth: bool) {
        self.record_value(row, JsonKind::Bool);
        self.bools.push(u8::from(truth));
    }

    pub(super) fn put_array(
        &mut self,
        row: u32,
        array: Array<'_>,
        scratch: &mut Vec<u8>,
    ) -> Result<(), WireFault> {
        let kind = element_kind(array)?;
        self.record_value(row, kind);
        self.arrays.get_or_insert_default().push(kind, array, scratch)
    }

    /// Drops the values of rows from `rows` on.
    pub(super) fn truncate(&mut self, rows: u32) {
        while !self.is_unused() && self.open.start >= rows {
            self.open = self.runs.pop().unwrap_or(ValueRun::NONE);
        }
        self.open.end = self.open.end.min(rows);
        // The next value in this block may come from outside a list.
        self.is_member &= !self.is_unused();
        self.kinds = 0;
        let mut counts = [0; JsonKind::ALL.len()];
        for run in self.runs.iter().copied().chain((!self.is_unused()).then_some(self.open)) {
            self.kinds |= run.kind.bit_mask();
            counts[run.kind as usize] += (run.end - run.start) as usize;
        }
        let count = |kind: JsonKind| counts[kind as usize];
        self.strings.truncate(count(JsonKind::String));
        self.int64s.truncate(count(JsonKind::Int64) * size_of::<u64>());
        self.float64s.truncate(count(JsonKind::Float64) * size_of::<u64>());
        self.bools.truncate(count(JsonKind::Bool));
        if let Some(arrays) = &mut self.arrays {
            for kind in JsonKind::ALL.into_iter().skip(JsonKind::Strings as usize) {
                arrays.truncate(kind, count(kind));
            }
        }
    }

    fn used_kinds(&self) -> impl Iterator<Item = JsonKind> {
        let kinds = self.kinds;
        JsonKind::ALL.into_iter().filter(move |kind| kinds & kind.bit_mask() != 0)
    }

    pub(super) fn write_prefix(&self, body: &mut BodyWriter) {
        body.put_u64(FLATTENED);
        body.put_varint(u64::from(self.kinds.count_ones()));
        self.used_kinds().for_each(|kind| body.put_string(kind.type_name().as_bytes()));
        if let Some(arrays) = &self.arrays
            && self.kinds & JsonKind::Mixed.bit_mask() != 0
        {
            arrays.write_prefix(body);
        }
    }

    /// Writes the index of types, then the values of each type. `rows` is the number of rows in the
    /// builder.
    pub(super) fn write_values(&self, rows: u32, shape: ColumnShape<'_>, body: &mut BodyWriter) {
        let absent = self.kinds.count_ones() as u8;
        let mut row = 0;
        for run in self.all_runs() {
            // The index of the type among those in use.
            let index = (self.kinds & (run.kind.bit_mask() - 1)).count_ones() as u8;
            body.put_repeated(&[absent], shape.start_row(run.start) - shape.start_row(row));
            body.put_repeated(&[index], shape.start_row(run.end) - shape.start_row(run.start));
            row = run.end;
        }
        body.put_repeated(&[absent], shape.start_row(rows) - shape.start_row(row));
        self.used_kinds().for_each(|kind| self.write_kind(kind, shape, body));
    }

    /// Returns whether a row has an array: those kinds come last.
    pub(super) fn has_arrays(&self) -> bool {
        self.kinds >= JsonKind::Strings.bit_mask()
    }

    /// Passes on the text of each of `rows`, as a map has it: empty without a value. A row with an
    /// array has none here.
    pub(super) fn each_text(&self, rows: u32, mut take: impl FnMut(&[u8])) {
        let mut strings = Cursor::new(self.strings.data());
        let (mut int64s, _) = self.int64s.as_chunks();
        let (mut float64s, _) = self.float64s.as_chunks();
        let mut bools = self.bools.iter();
        let mut row = 0;
        for run in self.all_runs() {
            (row..run.start).for_each(|_| take(b""));
            for _ in run.start..run.end {
                match run.kind {
                    JsonKind::String => take(strings.bytes().unwrap_or_default()),
                    JsonKind::Int64 => {
                        let number = int64s.split_off_first().copied().unwrap_or_default();
                        decimal::format_integer(i64::from_le_bytes(number), &mut take);
                    }
                    JsonKind::Float64 => {
                        let number = float64s.split_off_first().copied().unwrap_or_default();
                        decimal::format_double(f64::from_le_bytes(number), &mut take);
                    }
                    JsonKind::Bool => {
                        let (text, len) = decimal::format_bool(bools.next() == Some(&1));
                        take(&text[..len]);
                    }
                    JsonKind::Strings
                    | JsonKind::Int64s
                    | JsonKind::Float64s
                    | JsonKind::Bools
                    | JsonKind::Mixed => {
                        take(b"");
                    }
                }
            }
            row = run.end;
        }
        (row..rows).for_each(|_| take(b""));
    }

    fn write_kind(&self, kind: JsonKind, shape: ColumnShape<'_>, body: &mut BodyWriter) {
        if shape.is_plain() {
            return self.write_all(kind, body);
        }
        // Each value appears once per row of its group. The values of a kind have separate rows, so
        // their groups are gathered first.
        let mut starts = Vec::new();
        let mut end = 0;
        for run in self.all_runs().filter(|run| run.kind == kind) {
            for row in run.start..run.end {
                starts.push(end);
                end += shape.rows_sharing(row as usize) as u32;
            }
        }
        let shape = ColumnShape::Grouped { starts: &starts, rows: end };
        match kind {
            JsonKind::String => self.strings.write_values(shape, body),
            JsonKind::Int64 => write_fixed::<8>(&self.int64s, shape, body),
            JsonKind::Float64 => write_fixed::<8>(&self.float64s, shape, body),
            JsonKind::Bool => write_fixed::<1>(&self.bools, shape, body),
            JsonKind::Strings
            | JsonKind::Int64s
            | JsonKind::Float64s
            | JsonKind::Bools
            | JsonKind::Mixed => {
                if let Some(arrays) = &self.arrays {
                    arrays.write(kind, shape, body);
                }
            }
        }
    }

    fn write_all(&self, kind: JsonKind, body: &mut BodyWriter) {
        match kind {
            JsonKind::String => body.put_raw(self.strings.data()),
            JsonKind::Int64 => body.put_raw(&self.int64s),
            JsonKind::Float64 => body.put_raw(&self.float64s),
            JsonKind::Bool => body.put_raw(&self.bools),
            JsonKind::Strings
            | JsonKind::Int64s
            | JsonKind::Float64s
            | JsonKind::Bools
            | JsonKind::Mixed => {
                if let Some(arrays) = &self.arrays {
                    arrays.write(kind, ColumnShape::Rows, body);
                }
            }
        }
    }
}

fn shorten_by(bytes: &mut Vec<u8>, by: usize) {
    bytes.truncate(bytes.len().saturating_sub(by));
}
