//! The rows of one table by day, in blocks. Requests append a signal's rows to them, and inserts
//! are taken from them.

use millrace_schema::{AttributeStorage, Table, TableKind, build_table};
use millrace_wire::limits::WRITTEN_BYTES;

use crate::block::{BlockExt, InsertTotals, Mark, TableBlock};
use crate::body::{BodyCompression, BodyWriter, Piece};
use crate::day::Day;
use crate::options::{INSERT_BYTES, INSERT_ROWS, MAX_CELLS, Options};
use crate::rows::append::{AppendRefusal, MAX_DAYS};
use crate::typed::TypedColumn;

/// The size that an open block adds to that of its values: about the memory of its empty builders.
/// It makes a batch of many days end early.
const BLOCK_BYTES: usize = 16 * 1024;

/// The number of cleared blocks retained per table for the next batch. Batches of one day need one;
/// the hour around midnight needs two.
const SPARE_BLOCKS: usize = 2;

/// One insert: rows of one table and one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Insert {
    /// The table.
    pub table: TableKind,
    /// The partition.
    pub day: Day,
    /// The number of this insert among those for its table and day, from 0.
    pub number: u16,
    /// The number of rows, at most [`INSERT_ROWS`].
    pub rows: u64,
    /// One or more Native blocks in the requested compression, in pieces to be sent one after the
    /// other. Each piece was written at one time, so none is moved while the next is written.
    pub body: Vec<Vec<u8>>,
    /// Length of the body before compression.
    pub plain_bytes: u64,
}

/// The operations that are the same for every table.
pub(crate) trait AnyPartitions {
    /// Begins a request.
    fn begin_request(&mut self);
    /// Writes the blocks to their inserts' bodies. It may only run between two requests: written
    /// blocks can't be reverted.
    fn seal_blocks(&mut self, compression: BodyCompression, writer: &mut BodyWriter);
    /// Sets the columns of the live tables with types of their own, including those of other
    /// tables.
    fn set_typed(&mut self, typed: &[TypedColumn]);
    /// Returns the bytes of values in blocks.
    fn open_bytes(&self) -> usize;
    /// Returns the bytes of bodies.
    fn sealed_bytes(&self) -> usize;
    /// Begins a part of the request, to whose start `restore` reverts.
    fn set_savepoint(&mut self);
    fn roll_back(&mut self);
    fn row_count(&self) -> u64;
    fn data_bytes(&self) -> usize;
    fn written_bytes(&self) -> u64;
    fn memory_bytes(&self) -> usize;
    fn clear(&mut self);
    fn take_inserts(
        &mut self,
        compression: BodyCompression,
        writer: &mut BodyWriter,
        out: &mut Vec<Insert>,
    );
}

/// The rows of one table, by day.
pub(crate) struct Partitions<B> {
    options: Options,
    table: Table,
    /// The table's live JSON columns with types of their own.
    typed: Vec<TypedColumn>,
    days: Vec<DayBlocks<B>>,
    /// The index of the last row's day.
    last: usize,
    /// The number of rows, and the written size, at which the insert of its last block is full.
    last_rows: u32,
    last_written_bytes: u64,
    spare: Vec<B>,
    /// The unique number of the current request, and how many days it has touched.
    request: u64,
    touched: usize,
    /// The bytes of names from lists in its full blocks.
    names_bytes: usize,
    saved: Saved,
    ratio: Ratio,
}

/// The state before a part of a request: days, days touched, names.
#[derive(Default)]
struct Saved {
    days: usize,
    touched: usize,
    names_bytes: usize,
}

struct DayBlocks<B> {
    day: Day,
    /// Written inserts, of which the last may be incomplete.
    bodies: Vec<OpenInsert>,
    /// The size of the next block's insert before that block, while no block is open.
    before: InsertTotals,
    /// The day's blocks; all but the last are full.
    blocks: Vec<B>,
    /// The last request that touched this day.
    request: u64,
    saved: (usize, Mark),
    saved_request: u64,
}

/// A complete or incomplete insert: complete Native blocks, in the pieces in which they were
/// written.
#[derive(Default)]
struct OpenInsert {
    rows: u64,
    pieces: Vec<Vec<u8>>,
    plain_bytes: u64,
    /// The value bytes and the written size of its blocks, by the measures that end batches.
    value_bytes: usize,
    written_bytes: u64,
}

impl<B: TableBlock> DayBlocks<B> {
    fn new(day: Day, request: u64) -> Self {
        Self {
            day,
            bodies: Vec::new(),
            before: InsertTotals::default(),
            blocks: Vec::new(),
            request,
            saved: (0, Mark::default()),
            saved_request: 0,
        }
    }

    /// Writes the blocks behind those written before.
    fn seal_blocks(
        &mut self,
        (table, typed): (&Table, &[TypedColumn]),
        spare: &mut Vec<B>,
        ratio: &mut Ratio,
        writer: &mut BodyWriter,
    ) {
        let Some(last) = self.blocks.last() else { return };
        self.before = totals_before_next(last).or_else(|| totals_after(last)).unwrap_or_default();
        for block in self.blocks.drain(..) {
            // The first block of an insert has nothing before it.
            let continues = block.levels().before.rows > 0;
            let mut body = self.bodies.pop_if(|_| continues).unwrap_or_default();
            if block.levels().rows > 0 {
                writer.begin_piece(ratio.expected_bytes(block.data_bytes()));
                block.write(table, typed, writer);
                let piece = writer.finish_piece();
                ratio.observe_piece(block.data_bytes(), piece.bytes.len());
                body.add_piece(&block, piece);
            }
            self.bodies.push(body);
            Partitions::retire_block(spare, block);
        }
    }
}

impl OpenInsert {
    fn add_piece<B: TableBlock>(&mut self, block: &B, piece: Piece) {
        let Piece { bytes, plain_bytes } = piece;
        self.rows += u64::from(block.levels().rows);
        self.value_bytes += block.data_bytes();
        self.written_bytes += block.levels().written_bytes;
        self.plain_bytes += plain_bytes;
        self.pieces.push(bytes);
    }
}

/// The ratio of written to value bytes in a table's last block: blocks of one table are similar.
#[derive(Clone, Copy)]
struct Ratio {
    /// Written bytes per 256 bytes of values, at most 256: values shared by rows may be written as
    /// any multiple of their bytes, which is no reason to reserve as much memory.
    of_256: usize,
}

impl Ratio {
    fn observe_piece(&mut self, value_bytes: usize, piece_bytes: usize) {
        self.of_256 = (piece_bytes.saturating_mul(256) / value_bytes.max(1)).clamp(1, 256);
    }

    /// Returns the expected written bytes of a block, and a little more.
    fn expected_bytes(self, value_bytes: usize) -> usize {
        value_bytes / 256 * self.of_256 / 16 * 17
    }
}

impl<B: TableBlock> Partitions<B> {
    pub(crate) fn new(kind: TableKind, options: Options) -> Self {
        Self {
            options,
            table: build_table(kind, options.attributes),
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

    pub(crate) fn attributes(&self) -> AttributeStorage {
        self.options.attributes
    }

    /// Returns the block for the next row of `day`.
    #[inline]
    pub(crate) fn block_for_day(&mut self, day: Day) -> Result<&mut B, AppendRefusal> {
        let hit = self.days.get(self.last).is_some_and(|last| {
            last.day == day
                && last.request == self.request
                && last.blocks.last().is_some_and(|block| {
                    block.cell_count() < MAX_CELLS
                        && block.levels().rows < self.last_rows
                        && block.levels().written_bytes < self.last_written_bytes
                })
        });
        if !hit {
            self.last = self.open_day(day)?;
        }
        match self.days.get_mut(self.last).and_then(|day| day.blocks.last_mut()) {
            Some(block) => Ok(block),
            // This can't happen: `open` has just put one there.
            None => Err(AppendRefusal::TooManyDays),
        }
    }

    #[cold]
    fn open_day(&mut self, day: Day) -> Result<usize, AppendRefusal> {
        let Self { options, table, days, spare, request, touched, .. } = self;
        let found = days.iter().position(|blocks| blocks.day == day);
        let index = found.unwrap_or(days.len());
        if found.is_none_or(|index| days[index].request != *request) {
            *touched += 1;
            if *touched > MAX_DAYS {
                return Err(AppendRefusal::TooManyDays);
            }
        }
        if found.is_none() {
            days.push(DayBlocks::new(day, *request));
        }
        let blocks = &mut days[index];
        blocks.request = *request;
        let (next, is_of_request) = match blocks.blocks.last() {
            None => (Some(blocks.before), false),
            Some(last) => (totals_before_next(last), blocks.blocks.len() > blocks.saved.0),
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
            return Err(AppendRefusal::TooMuchWritten);
        }
        Ok(index)
    }

    fn blocks(&self) -> impl Iterator<Item = &B> {
        self.days.iter().flat_map(|day| &day.blocks)
    }

    fn bodies(&self) -> impl Iterator<Item = &OpenInsert> {
        self.days.iter().flat_map(|day| &day.bodies)
    }

    fn retire_block(spare: &mut Vec<B>, mut block: B) {
        if spare.len() < SPARE_BLOCKS {
            block.clear();
            spare.push(block);
        }
    }
}

/// If a block accepts no more rows, returns the size before the next block in its insert: zero
/// where the insert ends with the block.
fn totals_before_next<B: TableBlock>(last: &B) -> Option<InsertTotals> {
    let Some(InsertTotals { rows, written_bytes }) = totals_after(last) else {
        return Some(InsertTotals::default());
    };
    let cells = last.cell_count();
    if cells < MAX_CELLS {
        return None;
    }
    // Cells without a value are written too, a byte each.
    let next = InsertTotals { rows, written_bytes: written_bytes + cells as u64 };
    Some(if is_full(next) { InsertTotals::default() } else { next })
}

/// Returns the size of a block's insert after the block; `None` where the insert ends with it.
fn totals_after<B: TableBlock>(block: &B) -> Option<InsertTotals> {
    let levels = block.levels();
    let rows = levels.before.rows + levels.rows;
    let written_bytes = levels.before.written_bytes + levels.written_bytes;
    Some(InsertTotals { rows, written_bytes }).filter(|before| !is_full(*before))
}

fn is_full(insert: InsertTotals) -> bool {
    insert.rows >= INSERT_ROWS || insert.written_bytes >= INSERT_BYTES
}

impl<B: TableBlock> AnyPartitions for Partitions<B> {
    fn begin_request(&mut self) {
        self.request += 1;
        self.touched = 0;
        self.names_bytes = 0;
    }

    fn set_savepoint(&mut self) {
        let Self { touched, names_bytes, .. } = *self;
        self.saved = Saved { days: self.days.len(), touched, names_bytes };
        for day in &mut self.days {
            let mark = day.blocks.last().map(BlockExt::mark).unwrap_or_default();
            day.saved = (day.blocks.len(), mark);
            day.saved_request = day.request;
        }
    }

    fn roll_back(&mut self) {
        let Saved { days, touched, names_bytes } = self.saved;
        (self.touched, self.names_bytes) = (touched, names_bytes);
        for day in self.days.drain(days..) {
            day.blocks.into_iter().for_each(|block| Self::retire_block(&mut self.spare, block));
        }
        for day in self.days.iter_mut().filter(|day| day.request == self.request) {
            let (blocks, mark) = day.saved;
            for block in day.blocks.drain(blocks..) {
                Self::retire_block(&mut self.spare, block);
            }
            if let Some(block) = day.blocks.last_mut() {
                block.roll_back_to(mark);
            }
            day.request = day.saved_request;
        }
        self.last = 0;
    }

    fn seal_blocks(&mut self, compression: BodyCompression, writer: &mut BodyWriter) {
        let Self { table, typed, days, spare, ratio, .. } = self;
        writer.set_compression(compression);
        days.iter_mut().for_each(|day| day.seal_blocks((table, typed), spare, ratio, writer));
    }

    fn set_typed(&mut self, typed: &[TypedColumn]) {
        let own = typed.iter().filter(|column| column.table() == self.table.kind);
        self.typed = own.cloned().collect();
    }

    fn row_count(&self) -> u64 {
        let open: u64 = self.blocks().map(|block| u64::from(block.levels().rows)).sum();
        open + self.bodies().map(|body| body.rows).sum::<u64>()
    }

    fn data_bytes(&self) -> usize {
        let open: usize = self.blocks().map(|block| BLOCK_BYTES + block.data_bytes()).sum();
        open + self.bodies().map(|body| BLOCK_BYTES + body.value_bytes).sum::<usize>()
    }

    fn open_bytes(&self) -> usize {
        self.blocks().map(BlockExt::data_bytes).sum()
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
            day.blocks.into_iter().for_each(|block| Self::retire_block(&mut self.spare, block));
        }
        self.last = 0;
    }

    fn take_inserts(
        &mut self,
        compression: BodyCompression,
        writer: &mut BodyWriter,
        out: &mut Vec<Insert>,
    ) {
        self.seal_blocks(compression, writer);
        self.days.sort_by_key(|day| day.day);
        let table = self.table.kind;
        for DayBlocks { day, bodies, .. } in self.days.drain(..) {
            let filled = bodies.into_iter().filter(|body| body.rows > 0);
            out.extend(filled.zip(0..).map(|(body, number)| {
                let OpenInsert { rows, pieces, plain_bytes, .. } = body;
                Insert { table, day, number, rows, body: pieces, plain_bytes }
            }));
        }
        self.last = 0;
    }
}
