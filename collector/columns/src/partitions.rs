//! The rows of one table by day, in blocks: what a signal's rows are appended to, and what inserts
//! are taken from.

use millrace_schema::{Attributes, Table, TableKind, table};
use millrace_wire::limits::WRITTEN_BYTES;

use crate::append::{MAX_DAYS, Refusal};
use crate::block::{Before, Block, BlockExt, Mark};
use crate::body::{BodyWriter, Compression, Piece};
use crate::day::Day;
use crate::options::{INSERT_BYTES, INSERT_ROWS, MAX_CELLS, Options};
use crate::typed::TypedColumn;

/// What an open block counts beside its values: about the memory that its empty builders take. It
/// makes a batch of many days end early.
const BLOCK_BYTES: usize = 16 * 1024;

/// Cleared blocks kept per table for the next batch. Batches of one day need one; the hour around
/// midnight needs two.
const SPARE_BLOCKS: usize = 2;

/// One insert: rows of one table and one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Insert {
    /// The table.
    pub table: TableKind,
    /// The partition.
    pub day: Day,
    /// Which of the inserts for this table and day, from 0.
    pub number: u16,
    /// Rows in it, at most [`INSERT_ROWS`].
    pub rows: u64,
    /// Native blocks, one or more, in the compression asked for: pieces, to be sent one after the
    /// other. Each is what was written out at one time, so none is moved while the next is made.
    pub body: Vec<Vec<u8>>,
    /// Length of the body before compression.
    pub plain_bytes: u64,
}

/// What a set does with every table alike.
pub(crate) trait AnyPartitions {
    /// A request begins.
    fn begin(&mut self);
    /// Writes the blocks out into their inserts' bodies. Only between two requests: what is written
    /// out can't be taken back.
    fn seal(&mut self, compression: Compression, writer: &mut BodyWriter);
    /// Columns of the live tables with types of their own, those of other tables among them.
    fn set_typed(&mut self, typed: &[TypedColumn]);
    /// Bytes of values in blocks.
    fn open_bytes(&self) -> usize;
    /// Bytes of bodies.
    fn sealed_bytes(&self) -> usize;
    /// A part of it begins, to which `restore` goes back.
    fn save(&mut self);
    fn restore(&mut self);
    fn rows(&self) -> u64;
    fn bytes(&self) -> usize;
    fn written_bytes(&self) -> u64;
    fn memory_bytes(&self) -> usize;
    fn clear(&mut self);
    fn take(&mut self, compression: Compression, writer: &mut BodyWriter, out: &mut Vec<Insert>);
}

/// The rows of one table, by day.
pub(crate) struct Partitions<B> {
    options: Options,
    table: Table,
    /// Its live JSON columns that have a type of their own.
    typed: Vec<TypedColumn>,
    days: Vec<DayBlocks<B>>,
    /// The day that the last row went to.
    last: usize,
    /// The rows, and what they are written as, at which the insert of its last block is full.
    last_rows: u32,
    last_written_bytes: u64,
    spare: Vec<B>,
    /// The request being appended, by a number of its own, and how many days it has touched.
    request: u64,
    touched: usize,
    /// Names that lists made in the blocks it has filled.
    names_bytes: usize,
    saved: Saved,
    ratio: Ratio,
}

/// What a part of a request found: days, days touched, names.
#[derive(Default)]
struct Saved {
    days: usize,
    touched: usize,
    names_bytes: usize,
}

struct DayBlocks<B> {
    day: Day,
    /// What was written out: inserts, of which the last may have more to come.
    bodies: Vec<Body>,
    /// What the next block's insert has before it, where no block is open.
    before: Before,
    /// All but the last are full.
    blocks: Vec<B>,
    /// The last request that touched it.
    request: u64,
    saved: (usize, Mark),
    saved_request: u64,
}

/// An insert, or the beginning of one: whole Native blocks, in the pieces they were written in.
#[derive(Default)]
struct Body {
    rows: u64,
    pieces: Vec<Vec<u8>>,
    plain_bytes: u64,
    /// What its blocks held, and were written as, by the measures that batches end by.
    value_bytes: usize,
    written_bytes: u64,
}

impl<B: Block> DayBlocks<B> {
    fn new(day: Day, request: u64) -> Self {
        Self {
            day,
            bodies: Vec::new(),
            before: Before::default(),
            blocks: Vec::new(),
            request,
            saved: (0, Mark::default()),
            saved_request: 0,
        }
    }

    /// Writes the blocks out, behind those written out before.
    fn seal(
        &mut self,
        (table, typed): (&Table, &[TypedColumn]),
        spare: &mut Vec<B>,
        ratio: &mut Ratio,
        writer: &mut BodyWriter,
    ) {
        let Some(last) = self.blocks.last() else { return };
        self.before = before_next(last).or_else(|| after(last)).unwrap_or_default();
        for block in self.blocks.drain(..) {
            // The first block of an insert has nothing before it.
            let continues = block.levels().before.rows > 0;
            let mut body = self.bodies.pop_if(|_| continues).unwrap_or_default();
            if block.levels().rows > 0 {
                writer.begin(ratio.expected_bytes(block.bytes()));
                block.write(table, typed, writer);
                let piece = writer.finish();
                ratio.learn(block.bytes(), piece.bytes.len());
                body.add(&block, piece);
            }
            self.bodies.push(body);
            Partitions::retire(spare, block);
        }
    }
}

impl Body {
    fn add<B: Block>(&mut self, block: &B, piece: Piece) {
        let Piece { bytes, plain_bytes } = piece;
        self.rows += u64::from(block.levels().rows);
        self.value_bytes += block.bytes();
        self.written_bytes += block.levels().written_bytes;
        self.plain_bytes += plain_bytes;
        self.pieces.push(bytes);
    }
}

/// What a table's values become when they are written out, by its last block: blocks of one table
/// are alike.
#[derive(Clone, Copy)]
struct Ratio {
    /// Bytes written out of 256 bytes of values, at most 256: what rows share may be written out to
    /// any multiple of what it holds, and is no reason to ask for as much memory.
    of_256: usize,
}

impl Ratio {
    fn learn(&mut self, value_bytes: usize, piece_bytes: usize) {
        self.of_256 = (piece_bytes.saturating_mul(256) / value_bytes.max(1)).clamp(1, 256);
    }

    /// What a block will be written as, and a little over.
    fn expected_bytes(self, value_bytes: usize) -> usize {
        value_bytes / 256 * self.of_256 / 16 * 17
    }
}

impl<B: Block> Partitions<B> {
    pub(crate) fn new(kind: TableKind, options: Options) -> Self {
        Self {
            options,
            table: table(kind, options.attributes),
            typed: Vec::new(),
            days: Vec::new(),
            last: 0,
            last_rows: 0,
            last_written_bytes: 0,
            spare: Vec::new(),
            request: 0,
            touched: 0,
            names_bytes: 0,
            saved: Saved::default(),
            ratio: Ratio { of_256: 256 },
        }
    }

    pub(crate) fn attributes(&self) -> Attributes {
        self.options.attributes
    }

    /// The block that takes the next row of `day`.
    #[inline]
    pub(crate) fn block(&mut self, day: Day) -> Result<&mut B, Refusal> {
        let hit = self.days.get(self.last).is_some_and(|last| {
            last.day == day
                && last.request == self.request
                && last.blocks.last().is_some_and(|block| {
                    block.cells() < MAX_CELLS
                        && block.levels().rows < self.last_rows
                        && block.levels().written_bytes < self.last_written_bytes
                })
        });
        if !hit {
            self.last = self.open(day)?;
        }
        match self.days.get_mut(self.last).and_then(|day| day.blocks.last_mut()) {
            Some(block) => Ok(block),
            // Can't be: `open` has just put one there.
            None => Err(Refusal::TooManyDays),
        }
    }

    #[cold]
    fn open(&mut self, day: Day) -> Result<usize, Refusal> {
        let Self { options, table, days, spare, request, touched, .. } = self;
        let found = days.iter().position(|blocks| blocks.day == day);
        let index = found.unwrap_or(days.len());
        if found.is_none_or(|index| days[index].request != *request) {
            *touched += 1;
            if *touched > MAX_DAYS {
                return Err(Refusal::TooManyDays);
            }
        }
        if found.is_none() {
            days.push(DayBlocks::new(day, *request));
        }
        let blocks = &mut days[index];
        blocks.request = *request;
        let (next, is_of_request) = match blocks.blocks.last() {
            None => (Some(blocks.before), false),
            Some(last) => (before_next(last), blocks.blocks.len() > blocks.saved.0),
        };
        if let Some(before) = next {
            if is_of_request {
                self.names_bytes += blocks.blocks.last().map_or(0, BlockExt::names_bytes);
            }
            let mut block = spare.pop().unwrap_or_else(|| B::new(table.kind, options));
            block.levels_mut().before = before;
            blocks.blocks.push(block);
        }
        let before = blocks.blocks.last().map(|last| last.levels().before).unwrap_or_default();
        self.last_rows = INSERT_ROWS - before.rows;
        self.last_written_bytes = INSERT_BYTES - before.written_bytes;
        if self.names_bytes as u64 > WRITTEN_BYTES {
            return Err(Refusal::TooMuchWritten);
        }
        Ok(index)
    }

    fn blocks(&self) -> impl Iterator<Item = &B> {
        self.days.iter().flat_map(|day| &day.blocks)
    }

    fn bodies(&self) -> impl Iterator<Item = &Body> {
        self.days.iter().flat_map(|day| &day.bodies)
    }

    fn retire(spare: &mut Vec<B>, mut block: B) {
        if spare.len() < SPARE_BLOCKS {
            block.clear();
            spare.push(block);
        }
    }
}

/// If a block takes no more rows, what the next one's insert has before it: nothing, where an
/// insert ends with the block.
fn before_next<B: Block>(last: &B) -> Option<Before> {
    let Some(Before { rows, written_bytes }) = after(last) else { return Some(Before::default()) };
    let cells = last.cells();
    if cells < MAX_CELLS {
        return None;
    }
    // Cells without a value are written as well, a byte each.
    let next = Before { rows, written_bytes: written_bytes + cells as u64 };
    Some(if is_full(next) { Before::default() } else { next })
}

/// What its insert has after a block; nothing where the insert ends with it.
fn after<B: Block>(block: &B) -> Option<Before> {
    let levels = block.levels();
    let rows = levels.before.rows + levels.rows;
    let written_bytes = levels.before.written_bytes + levels.written_bytes;
    Some(Before { rows, written_bytes }).filter(|before| !is_full(*before))
}

fn is_full(insert: Before) -> bool {
    insert.rows >= INSERT_ROWS || insert.written_bytes >= INSERT_BYTES
}

impl<B: Block> AnyPartitions for Partitions<B> {
    fn begin(&mut self) {
        self.request += 1;
        self.touched = 0;
        self.names_bytes = 0;
    }

    fn save(&mut self) {
        let Self { touched, names_bytes, .. } = *self;
        self.saved = Saved { days: self.days.len(), touched, names_bytes };
        for day in &mut self.days {
            let mark = day.blocks.last().map(BlockExt::mark).unwrap_or_default();
            day.saved = (day.blocks.len(), mark);
            day.saved_request = day.request;
        }
    }

    fn restore(&mut self) {
        let Saved { days, touched, names_bytes } = self.saved;
        (self.touched, self.names_bytes) = (touched, names_bytes);
        for day in self.days.drain(days..) {
            day.blocks.into_iter().for_each(|block| Self::retire(&mut self.spare, block));
        }
        for day in self.days.iter_mut().filter(|day| day.request == self.request) {
            let (blocks, mark) = day.saved;
            for block in day.blocks.drain(blocks..) {
                Self::retire(&mut self.spare, block);
            }
            if let Some(block) = day.blocks.last_mut() {
                block.restore(mark);
            }
            day.request = day.saved_request;
        }
        self.last = 0;
    }

    fn seal(&mut self, compression: Compression, writer: &mut BodyWriter) {
        let Self { table, typed, days, spare, ratio, .. } = self;
        writer.compress(compression);
        days.iter_mut().for_each(|day| day.seal((table, typed), spare, ratio, writer));
    }

    fn set_typed(&mut self, typed: &[TypedColumn]) {
        let own = typed.iter().filter(|column| column.table() == self.table.kind);
        self.typed = own.cloned().collect();
    }

    fn rows(&self) -> u64 {
        let open: u64 = self.blocks().map(|block| u64::from(block.levels().rows)).sum();
        open + self.bodies().map(|body| body.rows).sum::<u64>()
    }

    fn bytes(&self) -> usize {
        let open: usize = self.blocks().map(|block| BLOCK_BYTES + block.bytes()).sum();
        open + self.bodies().map(|body| BLOCK_BYTES + body.value_bytes).sum::<usize>()
    }

    fn open_bytes(&self) -> usize {
        self.blocks().map(BlockExt::bytes).sum()
    }

    fn sealed_bytes(&self) -> usize {
        self.bodies().flat_map(|body| &body.pieces).map(Vec::capacity).sum()
    }

    fn written_bytes(&self) -> u64 {
        let open: u64 = self.blocks().map(|block| block.levels().written_bytes).sum();
        open + self.bodies().map(|body| body.written_bytes).sum::<u64>()
    }

    fn memory_bytes(&self) -> usize {
        let blocks = self.blocks().chain(&self.spare).map(BlockExt::memory_bytes).sum::<usize>();
        blocks + self.sealed_bytes()
    }

    fn clear(&mut self) {
        for day in self.days.drain(..) {
            day.blocks.into_iter().for_each(|block| Self::retire(&mut self.spare, block));
        }
        self.last = 0;
    }

    fn take(&mut self, compression: Compression, writer: &mut BodyWriter, out: &mut Vec<Insert>) {
        self.seal(compression, writer);
        self.days.sort_by_key(|day| day.day);
        let table = self.table.kind;
        for DayBlocks { day, bodies, .. } in self.days.drain(..) {
            let filled = bodies.into_iter().filter(|body| body.rows > 0);
            out.extend(filled.zip(0..).map(|(body, number)| {
                let Body { rows, pieces, plain_bytes, .. } = body;
                Insert { table, day, number, rows, body: pieces, plain_bytes }
            }));
        }
        self.last = 0;
    }
}
