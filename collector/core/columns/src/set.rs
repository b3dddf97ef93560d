//! A set of blocks: the rows of a batch, by table and day.

use millrace_schema::TableKind;
use millrace_wire::Signal;
use millrace_wire::otlp::TimeRange;
use millrace_wire::protobuf::{Cursor, LENGTH, WireFault, field_tag};

use crate::block::Serials;
use crate::body::{BodyCompression, BodyWriter};
use crate::options::Options;
use crate::partitions::{AnyPartitions, Insert, Partitions};
use crate::rows::append::{AppendError, AppendSummary, GroupAppendSummary, RowBounds};
use crate::rows::logs::LogBlock;
use crate::rows::metrics::MetricTables;
use crate::rows::traces::TraceBlock;
use crate::typed::TypedColumn;

/// Builds the inserts of a batch. It is reused: [`BlockSet::take_inserts`] empties it and retains
/// its memory.
pub struct BlockSet {
    signal: Signal,
    tables: SignalTables,
    serials: Serials,
    writer: BodyWriter,
}

/// The partitions of a signal's tables.
enum SignalTables {
    Traces(Box<Partitions<TraceBlock>>),
    Logs(Box<Partitions<LogBlock>>),
    Metrics(Box<MetricTables>),
}

impl SignalTables {
    fn for_each(&self, mut visit: impl FnMut(&dyn AnyPartitions)) {
        match self {
            Self::Traces(traces) => visit(traces.as_ref()),
            Self::Logs(logs) => visit(logs.as_ref()),
            Self::Metrics(metrics) => metrics.iter().for_each(|table| visit(table)),
        }
    }

    fn for_each_mut(&mut self, mut visit: impl FnMut(&mut dyn AnyPartitions)) {
        match self {
            Self::Traces(traces) => visit(traces.as_mut()),
            Self::Logs(logs) => visit(logs.as_mut()),
            Self::Metrics(metrics) => metrics.iter_mut().for_each(|table| visit(table)),
        }
    }
}

impl BlockSet {
    /// Returns an empty set for one signal's tables.
    #[must_use]
    pub fn new(signal: Signal, options: &Options) -> Self {
        let tables = match signal {
            Signal::Traces => {
                SignalTables::Traces(Box::new(Partitions::new(TableKind::Traces, *options)))
            }
            Signal::Logs => {
                SignalTables::Logs(Box::new(Partitions::new(TableKind::Logs, *options)))
            }
            Signal::Metrics => {
                SignalTables::Metrics(Box::new(crate::rows::metrics::new_tables(*options)))
            }
        };
        Self { signal, tables, serials: Serials::default(), writer: BodyWriter::default() }
    }

    /// Sets columns that are written with their live types, from the next written block on. It
    /// doesn't change which rows a block has.
    pub fn set_typed(&mut self, typed: &[TypedColumn]) {
        self.tables.for_each_mut(|table| table.set_typed(typed));
    }

    /// Appends all records of an export request, or none of them.
    ///
    /// # Errors
    /// The request is malformed or touches too many days. The set is unchanged.
    pub fn append(&mut self, request: &[u8]) -> Result<AppendSummary, AppendError> {
        self.append_all(request, &TimeRange::ALL)
    }

    fn append_all(
        &mut self,
        request: &[u8],
        times: &TimeRange,
    ) -> Result<AppendSummary, AppendError> {
        self.tables.for_each_mut(|table| table.begin_request());
        self.append_part(request, &mut RowBounds::new(*times))
    }

    /// Appends the valid part of an export request: all of it, or each valid resource group. The
    /// limits of a request apply to the accepted groups together. A record whose time is outside
    /// `times` excludes its resource group.
    ///
    /// # Errors
    /// No part of the request can be appended. The set is unchanged.
    pub fn append_groups(
        &mut self,
        request: &[u8],
        times: &TimeRange,
    ) -> Result<GroupAppendSummary, AppendError> {
        let error = match self.append_all(request, times) {
            Ok(appended) => return Ok(GroupAppendSummary { appended, refused: None }),
            Err(error) => error,
        };
        let Ok(groups) = group_fields(request) else { return Err(error) };
        self.tables.for_each_mut(|table| table.begin_request());
        let mut bounds = RowBounds::new(*times);
        let mut appended = AppendSummary::default();
        let mut refused: Option<(AppendError, Vec<u8>)> = None;
        let mut any_accepted = false;
        for group in groups {
            let before = bounds;
            match self.append_part(group, &mut bounds) {
                Ok(AppendSummary { rows }) => {
                    appended.rows += rows;
                    any_accepted = true;
                }
                Err(error) => {
                    bounds = before;
                    refused.get_or_insert((error, Vec::new())).1.extend_from_slice(group);
                }
            }
        }
        if any_accepted { Ok(GroupAppendSummary { appended, refused }) } else { Err(error) }
    }

    fn append_part(
        &mut self,
        request: &[u8],
        bounds: &mut RowBounds,
    ) -> Result<AppendSummary, AppendError> {
        self.tables.for_each_mut(|table| table.set_savepoint());
        let serials = &mut self.serials;
        let result = match &mut self.tables {
            SignalTables::Traces(traces) => {
                crate::rows::traces::append_traces(traces, serials, request, bounds)
            }
            SignalTables::Logs(logs) => {
                crate::rows::logs::append_logs(logs, serials, request, bounds)
            }
            SignalTables::Metrics(metrics) => {
                crate::rows::metrics::append_metrics(metrics, serials, request, bounds)
            }
        };
        match result {
            Ok(rows) => Ok(AppendSummary { rows }),
            Err(refusal) => {
                self.tables.for_each_mut(|table| table.roll_back());
                Err(refusal.into_append_error(self.signal, request))
            }
        }
    }

    /// Returns the signal whose requests it accepts.
    #[must_use]
    pub fn signal(&self) -> Signal {
        self.signal
    }

    /// Returns the rows appended since the last [`BlockSet::take_inserts`].
    #[must_use]
    pub fn row_count(&self) -> u64 {
        let mut rows = 0;
        self.tables.for_each(|table| rows += table.row_count());
        rows
    }

    /// Returns the size that ends batches: the bytes of values, where values that rows share count
    /// once, or the rows' written size (`millrace_wire`); the larger of the two.
    #[must_use]
    pub fn batch_bytes(&self) -> usize {
        let mut bytes = 0;
        self.tables.for_each(|table| bytes += table.data_bytes());
        bytes.max(self.written_bytes())
    }

    /// Returns the rows' written size (`millrace_wire`).
    #[must_use]
    pub fn written_bytes(&self) -> usize {
        let mut bytes = 0;
        self.tables.for_each(|table| bytes += table.written_bytes());
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// Returns the bytes of memory in use or retained for the next batch.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let mut bytes = self.writer.memory_bytes();
        self.tables.for_each(|table| bytes += table.memory_bytes());
        bytes
    }

    /// Returns the bytes of values in builders: what [`BlockSet::seal_blocks`] would write.
    #[must_use]
    pub fn open_bytes(&self) -> usize {
        let mut bytes = 0;
        self.tables.for_each(|table| bytes += table.open_bytes());
        bytes
    }

    /// Returns the bytes written before the batch is taken.
    #[must_use]
    pub fn sealed_bytes(&self) -> usize {
        let mut bytes = 0;
        self.tables.for_each(|table| bytes += table.sealed_bytes());
        bytes
    }

    /// Writes the rows appended so far, and empties the builders, so that an insert may have many
    /// more rows than memory could hold in plain form. The inserts have the same rows as without
    /// it, in more blocks.
    pub fn seal_blocks(&mut self, compression: BodyCompression) {
        let Self { tables, writer, .. } = self;
        tables.for_each_mut(|table| table.seal_blocks(compression, writer));
    }

    /// Drops all rows and retains memory.
    pub fn clear(&mut self) {
        self.tables.for_each_mut(|table| table.clear());
    }

    /// Takes all rows as inserts, sorted by table and day. The same requests in the same order
    /// always give the same rows in the same order. Two fresh sets give the same bytes too, while a
    /// used one may list JSON paths in another order.
    pub fn take_inserts(&mut self, compression: BodyCompression) -> Vec<Insert> {
        let mut inserts = Vec::new();
        let Self { tables, writer, .. } = self;
        tables.for_each_mut(|table| table.take_inserts(compression, writer, &mut inserts));
        inserts
    }
}

/// Returns the resource groups of a request, each with its tag and length, so that each is a
/// complete request.
fn group_fields(request: &[u8]) -> Result<Vec<&[u8]>, WireFault> {
    const GROUP: u32 = field_tag(1, LENGTH);
    let mut groups = Vec::new();
    let mut cursor = Cursor::new(request);
    loop {
        let start = cursor.remaining();
        let Some(tag) = cursor.tag()? else { return Ok(groups) };
        cursor.skip(tag)?;
        if tag == GROUP {
            groups.push(&start[..start.len() - cursor.remaining().len()]);
        }
    }
}
