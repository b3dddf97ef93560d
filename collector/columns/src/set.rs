//! A set of blocks: the rows of a batch, by table and day.

use millrace_schema::TableKind;
use millrace_wire::Signal;
use millrace_wire::protobuf::{Cursor, Fault, LENGTH, tag};

use crate::append::{AppendError, Appended, AppendedGroups, Written};
use crate::block::Serials;
use crate::body::{BodyWriter, Compression};
use crate::logs::LogBlock;
use crate::metrics::MetricTables;
use crate::options::Options;
use crate::partitions::{AnyPartitions, Insert, Partitions};
use crate::traces::TraceBlock;
use crate::typed::TypedColumn;

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

    /// From the next block that is written out on, these columns are written with their live types.
    /// Which rows a block has doesn't depend on it.
    pub fn set_typed(&mut self, typed: &[TypedColumn]) {
        self.tables.each_mut(|table| table.set_typed(typed));
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

    /// Bytes of values in builders: what [`BlockSet::seal`] would write out.
    #[must_use]
    pub fn open_bytes(&self) -> usize {
        let mut bytes = 0;
        self.tables.each(|table| bytes += table.open_bytes());
        bytes
    }

    /// Bytes of what was written out before the batch is taken.
    #[must_use]
    pub fn sealed_bytes(&self) -> usize {
        let mut bytes = 0;
        self.tables.each(|table| bytes += table.sealed_bytes());
        bytes
    }

    /// Writes out what was appended so far, and empties the builders: an insert may so have many
    /// more rows than there is memory for in plain form. What is taken has the same rows in the
    /// same inserts as without, in more blocks.
    pub fn seal(&mut self, compression: Compression) {
        let Self { tables, writer, .. } = self;
        tables.each_mut(|table| table.seal(compression, writer));
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
