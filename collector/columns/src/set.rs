//! A set of blocks: the rows of a batch, by table and day.

use millrace_schema::{Attributes, Table, TableKind, table};
use millrace_wire::Signal;
use millrace_wire::limits::WRITTEN_BYTES;
use millrace_wire::protobuf::{Cursor, Fault, LENGTH, tag};

use crate::append::{AppendError, Appended, AppendedGroups, MAX_DAYS, Refusal, Written};
use crate::block::{Before, Block, BlockExt, Mark, Serials};
use crate::body::{BodyWriter, Compression};
use crate::logs::LogBlock;
use crate::metrics::MetricTables;
use crate::traces::TraceBlock;

/// Most cells of JSON columns (rows x paths) in one block: 16 Mi, a byte each. That is 100,000 rows
/// with 160 different keys; a block that would have more is followed by another one in the same
/// insert, so that ten thousand keys in a batch cost memory in proportion to their values, not to
/// rows x keys. A path counts for 1,024 rows at least, so a block of few rows ends at 16,384 paths.
pub(crate) const MAX_CELLS: usize = 16 * 1024 * 1024;

/// Most rows of one insert, just below the 1,048,449 that a server takes as one block by default
/// (`max_insert_block_size`, `min_insert_block_size_rows`): so an insert is one part, stored whole
/// or not at all. Batches stay below it; a message of more rows becomes several inserts. Where they
/// are cut depends on the number of rows alone, so the same messages are cut alike at any time.
pub const INSERT_ROWS: u32 = 1_000_000;

/// Where an insert ends that is written as more bytes, by the measure of `millrace_wire`: 64 MiB,
/// which is what one request may be written as. What repeats within 32 KiB counts an eighth there,
/// so a server takes 512 MiB at most, plain, as one block. Where inserts are cut depends on their
/// rows alone here too.
pub const INSERT_BYTES: u64 = WRITTEN_BYTES;

/// What an open block counts beside its values: about the memory that its empty builders take. It
/// makes a batch of many days end early.
const BLOCK_BYTES: usize = 16 * 1024;

/// Cleared blocks kept per table for the next batch. Batches of one day need one; the hour around
/// midnight needs two.
const SPARE_BLOCKS: usize = 2;

/// How rows are built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The tables' attribute variant.
    pub attributes: Attributes,
    /// Levels of key-value lists inside attribute values that become JSON paths of their own;
    /// deeper lists are stored as JSON text. 0 stores every list as text. The Map variant ignores
    /// it.
    pub nested_depth: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self { attributes: Attributes::Json, nested_depth: 8 }
    }
}

/// A table partition: days since 1970-01-01, as the server's `toDate` counts them (16 bits that
/// wrap around in June 2149). Rows of one day lie in one partition if the server's time zone is
/// UTC, its default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day(pub u16);

impl Day {
    /// The day of an instant in nanoseconds since 1970.
    #[inline]
    pub(crate) fn of(ticks: i64) -> Self {
        Self((ticks / NANOS_PER_DAY) as u16)
    }

    /// The day as `toDate(toDateTime(...))` gives it: by way of seconds in 32 bits.
    #[inline]
    pub(crate) fn by_seconds(ticks: i64) -> Self {
        Self(((ticks / NANOS_PER_SECOND) as u32 / SECONDS_PER_DAY) as u16)
    }
}

const NANOS_PER_SECOND: i64 = 1_000_000_000;
const SECONDS_PER_DAY: u32 = 86_400;
const NANOS_PER_DAY: i64 = NANOS_PER_SECOND * SECONDS_PER_DAY as i64;

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
    /// Native blocks, one or more, in the compression asked for.
    pub body: Vec<u8>,
    /// Length of the body before compression.
    pub plain_bytes: u64,
}

/// Builds the inserts of a batch. Reused: [`BlockSet::take`] leaves it empty with its memory kept.
pub struct BlockSet {
    signal: Signal,
    tables: Tables,
    serials: Serials,
    writer: BodyWriter,
}

/// The partitions of a signal's tables.
enum Tables {
    Traces(Box<Partitions<TraceBlock>>),
    Logs(Box<Partitions<LogBlock>>),
    Metrics(Box<MetricTables>),
}

impl Tables {
    fn each(&self, mut visit: impl FnMut(&dyn AnyPartitions)) {
        match self {
            Self::Traces(traces) => visit(traces.as_ref()),
            Self::Logs(logs) => visit(logs.as_ref()),
            Self::Metrics(metrics) => metrics.iter().for_each(|table| visit(table)),
        }
    }

    fn each_mut(&mut self, mut visit: impl FnMut(&mut dyn AnyPartitions)) {
        match self {
            Self::Traces(traces) => visit(traces.as_mut()),
            Self::Logs(logs) => visit(logs.as_mut()),
            Self::Metrics(metrics) => metrics.iter_mut().for_each(|table| visit(table)),
        }
    }
}

impl BlockSet {
    /// An empty set for one signal's tables.
    #[must_use]
    pub fn new(signal: Signal, options: &Options) -> Self {
        let tables = match signal {
            Signal::Traces => {
                Tables::Traces(Box::new(Partitions::new(TableKind::Traces, *options)))
            }
            Signal::Logs => Tables::Logs(Box::new(Partitions::new(TableKind::Logs, *options))),
            Signal::Metrics => Tables::Metrics(Box::new(crate::metrics::tables(*options))),
        };
        Self { signal, tables, serials: Serials::default(), writer: BodyWriter::default() }
    }

    /// Appends all records of an export request, or none of them.
    ///
    /// # Errors
    /// The request is malformed or touches too many days. The set is as it was before.
    pub fn append(&mut self, request: &[u8]) -> Result<Appended, AppendError> {
        self.tables.each_mut(|table| table.begin());
        self.append_part(request, &mut Written::default())
    }

    /// Appends what can be of an export request: all of it, or else resource group by resource
    /// group. The limits of a request hold for what is taken of it together.
    ///
    /// # Errors
    /// Nothing of the request can be appended. The set is as it was before.
    pub fn append_groups(&mut self, request: &[u8]) -> Result<AppendedGroups, AppendError> {
        let error = match self.append(request) {
            Ok(appended) => return Ok(AppendedGroups { appended, refused: None }),
            Err(error) => error,
        };
        let Ok(groups) = group_fields(request) else { return Err(error) };
        self.tables.each_mut(|table| table.begin());
        let mut written = Written::default();
        let mut appended = Appended::default();
        let mut refused: Option<(AppendError, Vec<u8>)> = None;
        let mut taken = false;
        for group in groups {
            let before = written;
            match self.append_part(group, &mut written) {
                Ok(Appended { rows }) => {
                    appended.rows += rows;
                    taken = true;
                }
                Err(error) => {
                    written = before;
                    refused.get_or_insert((error, Vec::new())).1.extend_from_slice(group);
                }
            }
        }
        if taken { Ok(AppendedGroups { appended, refused }) } else { Err(error) }
    }

    fn append_part(
        &mut self,
        request: &[u8],
        written: &mut Written,
    ) -> Result<Appended, AppendError> {
        self.tables.each_mut(|table| table.save());
        let serials = &mut self.serials;
        let result = match &mut self.tables {
            Tables::Traces(traces) => crate::traces::append(traces, serials, request, written),
            Tables::Logs(logs) => crate::logs::append(logs, serials, request, written),
            Tables::Metrics(metrics) => crate::metrics::append(metrics, serials, request, written),
        };
        match result {
            Ok(rows) => Ok(Appended { rows }),
            Err(refusal) => {
                self.tables.each_mut(|table| table.restore());
                Err(refusal.locate(self.signal, request))
            }
        }
    }

    /// The signal whose requests it takes.
    #[must_use]
    pub fn signal(&self) -> Signal {
        self.signal
    }

    /// Rows appended since the last [`BlockSet::take`].
    #[must_use]
    pub fn rows(&self) -> u64 {
        let mut rows = 0;
        self.tables.each(|table| rows += table.rows());
        rows
    }

    /// What to batch by: the bytes of values held, where values that rows share are held once, or
    /// what the rows are written as, by the measure of `millrace_wire`; the larger of the two.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let mut bytes = 0;
        self.tables.each(|table| bytes += table.bytes());
        bytes.max(self.written_bytes())
    }

    /// What the rows are written as, by the measure of `millrace_wire`.
    #[must_use]
    pub fn written_bytes(&self) -> usize {
        let mut bytes = 0;
        self.tables.each(|table| bytes += table.written_bytes());
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// Bytes of memory held, in use or kept for the next batch.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let mut bytes = self.writer.memory_bytes();
        self.tables.each(|table| bytes += table.memory_bytes());
        bytes
    }

    /// Forgets everything appended, keeps memory.
    pub fn clear(&mut self) {
        self.tables.each_mut(|table| table.clear());
    }

    /// Takes everything as inserts, sorted by table and day. The same requests in the same order
    /// always give the same rows in the same order; two fresh sets give the same bytes too, while a
    /// used one may list JSON paths in another order.
    pub fn take(&mut self, compression: Compression) -> Vec<Insert> {
        let mut inserts = Vec::new();
        let Self { tables, writer, .. } = self;
        tables.each_mut(|table| table.take(compression, writer, &mut inserts));
        inserts
    }
}

/// The resource groups of a request, each with its tag and length: a request of its own.
fn group_fields(request: &[u8]) -> Result<Vec<&[u8]>, Fault> {
    const GROUP: u32 = tag(1, LENGTH);
    let mut groups = Vec::new();
    let mut cursor = Cursor::new(request);
    loop {
        let start = cursor.rest();
        let Some(tag) = cursor.tag()? else { return Ok(groups) };
        cursor.skip(tag)?;
        if tag == GROUP {
            groups.push(&start[..start.len() - cursor.rest().len()]);
        }
    }
}

/// What a set does with every table alike.
trait AnyPartitions {
    /// A request begins.
    fn begin(&mut self);
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
    /// All but the last are full.
    blocks: Vec<B>,
    /// The last request that touched it.
    request: u64,
    saved: (usize, Mark),
    saved_request: u64,
}

impl<B: Block> Partitions<B> {
    pub(crate) fn new(kind: TableKind, options: Options) -> Self {
        Self {
            options,
            table: table(kind, options.attributes),
            days: Vec::new(),
            last: 0,
            last_rows: 0,
            last_written_bytes: 0,
            spare: Vec::new(),
            request: 0,
            touched: 0,
            names_bytes: 0,
            saved: Saved::default(),
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
            let saved = (0, Mark::default());
            let (request, blocks) = (*request, Vec::new());
            days.push(DayBlocks { day, blocks, request, saved, saved_request: 0 });
        }
        let blocks = &mut days[index];
        blocks.request = *request;
        let (next, is_of_request) = match blocks.blocks.last() {
            None => (Some(Before::default()), false),
            Some(last) => (before_next(last), blocks.blocks.len() > blocks.saved.0),
        };
        if let Some(before) = next {
            if is_of_request {
                self.names_bytes += blocks.blocks.last().map_or(0, Block::names_bytes);
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
    let (levels, cells) = (last.levels(), last.cells());
    let rows = levels.before.rows + levels.rows;
    let written_bytes = levels.before.written_bytes + levels.written_bytes;
    let is_end = |written_bytes| rows >= INSERT_ROWS || written_bytes >= INSERT_BYTES;
    if is_end(written_bytes) {
        return Some(Before::default());
    }
    if cells < MAX_CELLS {
        return None;
    }
    // Cells without a value are written as well, a byte each.
    let written_bytes = written_bytes + cells as u64;
    let next = Before { rows, written_bytes };
    Some(if is_end(written_bytes) { Before::default() } else { next })
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

    fn rows(&self) -> u64 {
        self.blocks().map(|block| u64::from(block.levels().rows)).sum()
    }

    fn bytes(&self) -> usize {
        self.blocks().map(|block| BLOCK_BYTES + block.bytes()).sum()
    }

    fn written_bytes(&self) -> u64 {
        self.blocks().map(|block| block.levels().written_bytes).sum()
    }

    fn memory_bytes(&self) -> usize {
        self.blocks().chain(&self.spare).map(BlockExt::memory_bytes).sum()
    }

    fn clear(&mut self) {
        for day in self.days.drain(..) {
            day.blocks.into_iter().for_each(|block| Self::retire(&mut self.spare, block));
        }
        self.last = 0;
    }

    fn take(&mut self, compression: Compression, writer: &mut BodyWriter, out: &mut Vec<Insert>) {
        self.days.sort_by_key(|day| day.day);
        for DayBlocks { day, blocks, .. } in self.days.drain(..) {
            let mut blocks = blocks.into_iter().peekable();
            let mut number = 0;
            while let Some(first) = blocks.next() {
                let mut rows = 0;
                writer.begin(compression);
                let mut next = Some(first);
                while let Some(block) = next {
                    rows += u64::from(block.levels().rows);
                    if block.levels().rows > 0 {
                        block.write(&self.table, writer);
                    }
                    Self::retire(&mut self.spare, block);
                    // The first block of an insert has nothing before it.
                    next = blocks.next_if(|block| block.levels().before.rows > 0);
                }
                let (body, plain_bytes) = writer.finish();
                if rows > 0 {
                    let table = self.table.kind;
                    out.push(Insert { table, day, number, rows, body, plain_bytes });
                    number += 1;
                }
            }
        }
        self.last = 0;
    }
}
