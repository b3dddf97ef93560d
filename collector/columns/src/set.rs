//! A set of blocks: the rows of a batch, by table and day.

use millrace_schema::{Attributes, Table, TableKind, table};
use millrace_wire::Signal;

use crate::append::{AppendError, Appended, MAX_DAYS, Refusal};
use crate::block::{Block, BlockExt, Mark, Serials};
use crate::body::{BodyWriter, Compression};
use crate::logs::LogBlock;
use crate::metrics::MetricTables;
use crate::traces::TraceBlock;

/// Most cells of JSON columns (rows x paths) in one block: 16 Mi, a byte each. That is 100,000 rows
/// with 160 different keys; a block that would have more is followed by another one in the same
/// insert, so that ten thousand keys in a batch cost memory in proportion to their values, not to
/// rows x keys. A path counts for 1,024 rows at least, so a block of few rows ends at 16,384 paths.
const MAX_CELLS: usize = 16 * 1024 * 1024;

/// Most rows of one insert, just below the 1,048,449 that a server takes as one block by default
/// (`max_insert_block_size`, `min_insert_block_size_rows`): so an insert is one part, stored whole
/// or not at all. Batches stay below it; a message of more rows becomes several inserts. Where they
/// are cut depends on the number of rows alone, so the same messages are cut alike at any time.
pub const INSERT_ROWS: u32 = 1_000_000;

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
        self.tables.each_mut(|table| table.save());
        let serials = &mut self.serials;
        let result = match &mut self.tables {
            Tables::Traces(traces) => crate::traces::append(traces, serials, request),
            Tables::Logs(logs) => crate::logs::append(logs, serials, request),
            Tables::Metrics(metrics) => crate::metrics::append(metrics, serials, request),
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

    /// Bytes of values held, which are less than the bodies before compression: values that rows
    /// share are held once. It is what to batch by.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let mut bytes = 0;
        self.tables.each(|table| bytes += table.bytes());
        bytes
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

/// What a set does with every table alike.
trait AnyPartitions {
    fn save(&mut self);
    fn restore(&mut self);
    fn rows(&self) -> u64;
    fn bytes(&self) -> usize;
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
    /// The rows at which its last block is full.
    last_rows: u32,
    spare: Vec<B>,
    /// The request being appended, by a number of its own, and how many days it has touched.
    request: u64,
    touched: usize,
    saved: usize,
}

struct DayBlocks<B> {
    day: Day,
    /// All but the last are full.
    blocks: Vec<B>,
    /// The last request that touched it.
    request: u64,
    saved: (usize, Mark),
}

impl<B: Block> Partitions<B> {
    pub(crate) fn new(kind: TableKind, options: Options) -> Self {
        Self {
            options,
            table: table(kind, options.attributes),
            days: Vec::new(),
            last: 0,
            last_rows: 0,
            spare: Vec::new(),
            request: 0,
            touched: 0,
            saved: 0,
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
                    block.cells() < MAX_CELLS && block.levels().rows < self.last_rows
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
        let Self { options, table, days, spare, request, touched, last_rows, .. } = self;
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
            days.push(DayBlocks { day, blocks: Vec::new(), request: *request, saved });
        }
        let blocks = &mut days[index];
        blocks.request = *request;
        let rows: u64 = blocks.blocks.iter().map(|block| u64::from(block.levels().rows)).sum();
        let left = INSERT_ROWS - (rows % u64::from(INSERT_ROWS)) as u32;
        let last = blocks.blocks.last();
        // A whole number of inserts is full: the next begins with a block of its own.
        let is_full = last.is_none_or(|last| {
            last.cells() >= MAX_CELLS || (left == INSERT_ROWS && last.levels().rows > 0)
        });
        if is_full {
            blocks.blocks.push(spare.pop().unwrap_or_else(|| B::new(table.kind, options)));
        }
        *last_rows = left + blocks.blocks.last().map_or(0, |last| last.levels().rows);
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

impl<B: Block> AnyPartitions for Partitions<B> {
    fn save(&mut self) {
        self.request += 1;
        self.touched = 0;
        self.saved = self.days.len();
        for day in &mut self.days {
            let mark = day.blocks.last().map(BlockExt::mark).unwrap_or_default();
            day.saved = (day.blocks.len(), mark);
        }
    }

    fn restore(&mut self) {
        for day in self.days.drain(self.saved..) {
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
        }
        self.last = 0;
    }

    fn rows(&self) -> u64 {
        self.blocks().map(|block| u64::from(block.levels().rows)).sum()
    }

    fn bytes(&self) -> usize {
        self.blocks().map(|block| BLOCK_BYTES + block.bytes()).sum()
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
            for number in 0.. {
                if blocks.peek().is_none() {
                    break;
                }
                let mut rows = 0;
                writer.begin(compression);
                // Blocks end where an insert does, so it is never more.
                while let Some(block) = blocks.next_if(|_| rows < u64::from(INSERT_ROWS)) {
                    rows += u64::from(block.levels().rows);
                    if block.levels().rows > 0 {
                        block.write(&self.table, writer);
                    }
                    Self::retire(&mut self.spare, block);
                }
                let (body, plain_bytes) = writer.finish();
                if rows > 0 {
                    let table = self.table.kind;
                    out.push(Insert { table, day, number, rows, body, plain_bytes });
                }
            }
        }
        self.last = 0;
    }
}
