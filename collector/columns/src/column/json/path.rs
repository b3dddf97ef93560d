//! One path of a JSON column: which rows have a value, of which type, and the values by type.

use millrace_wire::otlp::Array;
use millrace_wire::protobuf::{Cursor, Fault};

use crate::body::BodyWriter;
use crate::column::fixed::write_fixed;
use crate::column::json::arrays::{ArrayValues, element_kind};
use crate::column::json::kind::Kind;
use crate::column::json::{FLATTENED, NO_PATH};
use crate::column::{Column, Strings};
use crate::decimal;
use crate::reuse;
use crate::shape::Shape;

/// Rows next to each other with values of one type.
#[derive(Clone, Copy, Debug)]
struct Run {
    start: u32,
    end: u32,
    kind: Kind,
}

impl Run {
    /// No rows: what a path without values has.
    const NONE: Self = Self { start: 0, end: 0, kind: Kind::String };
}

/// A path and its values in this block.
pub(super) struct Path {
    name: Box<[u8]>,
    /// The run that the next value most often extends; no rows if the path has no value.
    open: Run,
    /// The runs before it.
    runs: Vec<Run>,
    kinds: u16,
    strings: Strings,
    /// Where the last string starts: needed when a later value of its row replaces it.
    last_string: usize,
    int64s: Vec<u8>,
    float64s: Vec<u8>,
    bools: Vec<u8>,
    /// Arrays are rare; a path without any doesn't carry their builders.
    arrays: Option<Box<ArrayValues>>,
    /// A list's member made it in this block.
    is_member: bool,
    /// The path that followed it last.
    next: u32,
}

impl Path {
    /// Bytes that a path with one value takes beside name and value.
    pub(super) const LEAST_BYTES: usize = size_of::<Run>();

    pub(super) fn new(name: &[u8]) -> Self {
        Self::named(name.into())
    }

    fn named(name: Box<[u8]>) -> Self {
        Self {
            name,
            open: Run::NONE,
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

    /// Notes that a list's member made it in this block.
    pub(super) fn set_member(&mut self) {
        self.is_member = true;
    }

    /// Length of its name, if a list's member made it in this block.
    pub(super) fn member_name_bytes(&self) -> usize {
        if self.is_member { self.name.len() } else { 0 }
    }

    /// Bytes of its arrays.
    pub(super) fn array_bytes(&self) -> usize {
        self.arrays.as_ref().map_or(0, |arrays| arrays.bytes())
    }

    #[inline]
    pub(super) fn bytes(&self) -> usize {
        let arrays = self.array_bytes();
        (self.runs.len() + 1) * size_of::<Run>()
            + self.strings.bytes()
            + self.int64s.len()
            + self.float64s.len()
            + self.bools.len()
            + arrays
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let arrays = self.arrays.as_ref().map_or(0, |arrays| arrays.memory_bytes());
        size_of::<Self>()
            + self.name.len()
            + self.runs.capacity() * size_of::<Run>()
            + self.strings.memory_bytes()
            + self.int64s.capacity()
            + self.float64s.capacity()
            + self.bools.capacity()
            + arrays
    }

    /// Forgets all values, keeps memory; a path without values gives its memory back.
    pub(super) fn clear(&mut self) {
        if self.is_unused() {
            if self.memory_bytes() > size_of::<Self>() + self.name.len() {
                let name = std::mem::take(&mut self.name);
                *self = Self::named(name);
            }
            return;
        }
        self.open = Run::NONE;
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

    /// Notes that `row` has a value of type `kind`; one it had before is forgotten.
    #[inline]
    fn note(&mut self, row: u32, kind: Kind) {
        if self.open.end == row && self.open.kind == kind && row > 0 {
            self.open.end += 1;
        } else {
            self.begin_run(row, kind);
        }
    }

    #[inline(never)]
    fn begin_run(&mut self, row: u32, kind: Kind) {
        if self.open.end > row {
            self.forget_last();
            return self.note(row, kind);
        }
        if !self.is_unused() {
            self.runs.push(self.open);
        }
        self.open = Run { start: row, end: row + 1, kind };
        self.kinds |= kind.bit();
    }

    fn all_runs(&self) -> impl Iterator<Item = Run> {
        let open = (!self.is_unused()).then_some(self.open);
        self.runs.iter().copied().chain(open)
    }

    #[cold]
    fn forget_last(&mut self) {
        let kind = self.open.kind;
        self.open.end -= 1;
        if self.open.end == self.open.start {
            self.open = self.runs.pop().unwrap_or(Run::NONE);
            if !self.all_runs().any(|run| run.kind == kind) {
                self.kinds &= !kind.bit();
            }
        }
        match kind {
            Kind::String => self.strings.pop_from(self.last_string),
            Kind::Int64 => shorten(&mut self.int64s, size_of::<u64>()),
            Kind::Float64 => shorten(&mut self.float64s, size_of::<u64>()),
            Kind::Bool => shorten(&mut self.bools, 1),
            Kind::Strings | Kind::Int64s | Kind::Float64s | Kind::Bools | Kind::Mixed => {
                if let Some(arrays) = &mut self.arrays {
                    let rows = arrays.rows(kind);
                    arrays.truncate(kind, rows.saturating_sub(1));
                }
            }
        }
    }

    #[inline]
    pub(super) fn put_string(&mut self, row: u32, text: &[u8]) {
        self.note(row, Kind::String);
        self.last_string = self.strings.end();
        self.strings.push(text);
    }

    /// Sets an `Int64` or `Float64`, given as its 64 bits.
    #[inline]
    pub(super) fn put_word(&mut self, row: u32, kind: Kind, bits: u64) {
        self.note(row, kind);
        let words = if kind == Kind::Int64 { &mut self.int64s } else { &mut self.float64s };
        words.extend_from_slice(&bits.to_le_bytes());
    }

    #[inline]
    pub(super) fn put_bool(&mut self, row: u32, truth: bool) {
        self.note(row, Kind::Bool);
        self.bools.push(u8::from(truth));
    }

    pub(super) fn put_array(
        &mut self,
        row: u32,
        array: Array<'_>,
        scratch: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        let kind = element_kind(array)?;
        self.note(row, kind);
        self.arrays.get_or_insert_default().push(kind, array, scratch)
    }

    /// Forgets the values of rows from `rows` on.
    pub(super) fn truncate(&mut self, rows: u32) {
        while !self.is_unused() && self.open.start >= rows {
            self.open = self.runs.pop().unwrap_or(Run::NONE);
        }
        self.open.end = self.open.end.min(rows);
        // Who brings it next in this block may be no list's member.
        self.is_member &= !self.is_unused();
        self.kinds = 0;
        let mut counts = [0; Kind::ALL.len()];
        for run in self.runs.iter().copied().chain((!self.is_unused()).then_some(self.open)) {
            self.kinds |= run.kind.bit();
            counts[run.kind as usize] += (run.end - run.start) as usize;
        }
        let count = |kind: Kind| counts[kind as usize];
        self.strings.truncate(count(Kind::String));
        self.int64s.truncate(count(Kind::Int64) * size_of::<u64>());
        self.float64s.truncate(count(Kind::Float64) * size_of::<u64>());
        self.bools.truncate(count(Kind::Bool));
        if let Some(arrays) = &mut self.arrays {
            for kind in Kind::ALL.into_iter().skip(Kind::Strings as usize) {
                arrays.truncate(kind, count(kind));
            }
        }
    }

    fn used_kinds(&self) -> impl Iterator<Item = Kind> {
        let kinds = self.kinds;
        Kind::ALL.into_iter().filter(move |kind| kinds & kind.bit() != 0)
    }

    pub(super) fn write_prefix(&self, body: &mut BodyWriter) {
        body.word(FLATTENED);
        body.varint(u64::from(self.kinds.count_ones()));
        self.used_kinds().for_each(|kind| body.string(kind.type_name().as_bytes()));
        if let Some(arrays) = &self.arrays
            && self.kinds & Kind::Mixed.bit() != 0
        {
            arrays.write_prefix(body);
        }
    }

    /// Writes the index of types, then the values of each type. `rows` is the number of rows in the
    /// builder.
    pub(super) fn write_values(&self, rows: u32, shape: Shape<'_>, body: &mut BodyWriter) {
        let absent = self.kinds.count_ones() as u8;
        let mut row = 0;
        for run in self.all_runs() {
            // The place of the type among those in use.
            let index = (self.kinds & (run.kind.bit() - 1)).count_ones() as u8;
            body.repeat(&[absent], shape.start(run.start) - shape.start(row));
            body.repeat(&[index], shape.start(run.end) - shape.start(run.start));
            row = run.end;
        }
        body.repeat(&[absent], shape.start(rows) - shape.start(row));
        self.used_kinds().for_each(|kind| self.write_kind(kind, shape, body));
    }

    /// Whether a row has an array: those kinds come last.
    pub(super) fn has_arrays(&self) -> bool {
        self.kinds >= Kind::Strings.bit()
    }

    /// Hands over the text of each of `rows`, as a map has it: empty where there is no value. A row
    /// with an array has none here.
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
                    Kind::String => take(strings.bytes().unwrap_or_default()),
                    Kind::Int64 => {
                        let number = int64s.split_off_first().copied().unwrap_or_default();
                        decimal::integer(i64::from_le_bytes(number), &mut take);
                    }
                    Kind::Float64 => {
                        let number = float64s.split_off_first().copied().unwrap_or_default();
                        decimal::double(f64::from_le_bytes(number), &mut take);
                    }
                    Kind::Bool => {
                        let (text, len) = decimal::truth(bools.next() == Some(&1));
                        take(&text[..len]);
                    }
                    Kind::Strings | Kind::Int64s | Kind::Float64s | Kind::Bools | Kind::Mixed => {
                        take(b"");
                    }
                }
            }
            row = run.end;
        }
        (row..rows).for_each(|_| take(b""));
    }

    fn write_kind(&self, kind: Kind, shape: Shape<'_>, body: &mut BodyWriter) {
        if shape.is_plain() {
            return self.write_all(kind, body);
        }
        // Each value once per row of its group. The values of a kind have rows of their own, so the
        // groups they belong to are gathered first.
        let mut starts = Vec::new();
        let mut end = 0;
        for run in self.all_runs().filter(|run| run.kind == kind) {
            for row in run.start..run.end {
                starts.push(end);
                end += shape.count(row as usize) as u32;
            }
        }
        let shape = Shape::Grouped { starts: &starts, rows: end };
        match kind {
            Kind::String => self.strings.write_values(shape, body),
            Kind::Int64 => write_fixed::<8>(&self.int64s, shape, body),
            Kind::Float64 => write_fixed::<8>(&self.float64s, shape, body),
            Kind::Bool => write_fixed::<1>(&self.bools, shape, body),
            Kind::Strings | Kind::Int64s | Kind::Float64s | Kind::Bools | Kind::Mixed => {
                if let Some(arrays) = &self.arrays {
                    arrays.write(kind, shape, body);
                }
            }
        }
    }

    fn write_all(&self, kind: Kind, body: &mut BodyWriter) {
        match kind {
            Kind::String => body.put(self.strings.data()),
            Kind::Int64 => body.put(&self.int64s),
            Kind::Float64 => body.put(&self.float64s),
            Kind::Bool => body.put(&self.bools),
            Kind::Strings | Kind::Int64s | Kind::Float64s | Kind::Bools | Kind::Mixed => {
                if let Some(arrays) = &self.arrays {
                    arrays.write(kind, Shape::Rows, body);
                }
            }
        }
    }
}

fn shorten(bytes: &mut Vec<u8>, by: usize) {
    bytes.truncate(bytes.len().saturating_sub(by));
}
