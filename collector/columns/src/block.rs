//! A block: the columns of one table, and how they relate to its rows.

use millrace_schema::{Table, TableKind};
use millrace_wire::otlp::{ROW_BYTES, repeated_bytes};

use crate::body::BodyWriter;
use crate::column::{Column, Json};
use crate::options::Options;
use crate::shape::{Groups, Offsets, Shape};
use crate::typed::TypedColumn;

/// Which rows a column has a value for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// Each row of the block.
    Row,
    /// Each group of rows of one resource.
    Resource,
    /// Each group of rows of one scope.
    Scope,
    /// Each group of rows of one metric.
    Metric,
    /// Each element of the rows' first nested arrays: events, exemplars, quantiles.
    First,
    /// Each element of the rows' second nested arrays: links.
    Second,
}

/// The rows of a block and how they are grouped. Every block has one.
#[derive(Debug, Default)]
pub(crate) struct Levels {
    /// Rows so far.
    pub(crate) rows: u32,
    pub(crate) resource: Groups,
    pub(crate) scope: Groups,
    pub(crate) metric: Groups,
    pub(crate) first: Offsets,
    pub(crate) second: Offsets,
    /// The groups open now, by their serial numbers in the set.
    pub(crate) open: Serials,
    /// What a row counts for each of them.
    shared: Shared,
    /// What the rows are written as, by the measure of `millrace_wire`.
    pub(crate) written_bytes: u64,
    /// What the blocks before this one put into its insert.
    pub(crate) before: Before,
}

/// What the open groups count each time they are written with a row.
#[derive(Clone, Copy, Debug, Default)]
struct Shared {
    resource_bytes: u64,
    scope_bytes: u64,
    metric_bytes: u64,
    all_bytes: u64,
}

/// What an insert has before one of its blocks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Before {
    pub(crate) rows: u32,
    pub(crate) written_bytes: u64,
}

/// Serial numbers of groups within a set, increasing; 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Serials {
    pub(crate) resource: u64,
    pub(crate) scope: u64,
    pub(crate) metric: u64,
}

/// Where a block stood before a request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mark {
    rows: u32,
    resources: usize,
    scopes: usize,
    metrics: usize,
    written_bytes: u64,
}

impl Levels {
    /// The open resource's columns take `bytes` a row.
    pub(crate) fn share_resource(&mut self, bytes: usize) {
        self.shared.resource_bytes = repeated_bytes(bytes as u64);
        self.sum_shared();
    }

    /// The open scope's columns take `bytes` a row.
    pub(crate) fn share_scope(&mut self, bytes: usize) {
        self.shared.scope_bytes = repeated_bytes(bytes as u64);
        self.sum_shared();
    }

    /// The open metric's columns take `bytes` a row.
    pub(crate) fn share_metric(&mut self, bytes: usize) {
        self.shared.metric_bytes = repeated_bytes(bytes as u64);
        self.sum_shared();
    }

    fn sum_shared(&mut self) {
        let Shared { resource_bytes, scope_bytes, metric_bytes, .. } = self.shared;
        self.shared.all_bytes = resource_bytes + scope_bytes + metric_bytes;
    }

    /// Counts what a row of the open groups is written as, made of a message of `own_bytes`.
    #[inline]
    pub(crate) fn count(&mut self, own_bytes: usize) -> u64 {
        let bytes = own_bytes as u64 + ROW_BYTES + self.shared.all_bytes;
        self.written_bytes += bytes;
        bytes
    }

    fn mark(&self) -> Mark {
        Mark {
            rows: self.rows,
            resources: self.resource.len(),
            scopes: self.scope.len(),
            metrics: self.metric.len(),
            written_bytes: self.written_bytes,
        }
    }

    fn restore(&mut self, mark: Mark) {
        let Mark { rows, resources, scopes, metrics, written_bytes } = mark;
        self.rows = rows;
        self.written_bytes = written_bytes;
        self.resource.truncate(resources);
        self.scope.truncate(scopes);
        self.metric.truncate(metrics);
        self.first.truncate(self.first.rows().min(rows as usize));
        self.second.truncate(self.second.rows().min(rows as usize));
        self.open = Serials::default();
    }

    /// Values that a column of `level` has once all rows are complete.
    fn len(&self, level: Level) -> usize {
        match level {
            Level::Row => self.rows as usize,
            Level::Resource => self.resource.len(),
            Level::Scope => self.scope.len(),
            Level::Metric => self.metric.len(),
            Level::First => self.first.total() as usize,
            Level::Second => self.second.total() as usize,
        }
    }

    fn shape(&self, level: Level) -> Shape<'_> {
        match level {
            Level::Row => Shape::Rows,
            Level::Resource => self.resource.shape(self.rows),
            Level::Scope => self.scope.shape(self.rows),
            Level::Metric => self.metric.shape(self.rows),
            Level::First => Shape::Nested { ends: &self.first },
            Level::Second => Shape::Nested { ends: &self.second },
        }
    }

    fn clear(&mut self) {
        let Self { rows, resource, scope, metric, first, second, open, .. } = self;
        *rows = 0;
        resource.clear();
        scope.clear();
        metric.clear();
        first.clear();
        second.clear();
        *open = Serials::default();
        self.shared = Shared::default();
        self.written_bytes = 0;
        self.before = Before::default();
    }

    fn memory_bytes(&self) -> usize {
        self.resource.memory_bytes()
            + self.scope.memory_bytes()
            + self.metric.memory_bytes()
            + self.first.memory_bytes()
            + self.second.memory_bytes()
    }
}

/// The columns of one table. Visits are in the order of the table's insert columns.
pub(crate) trait Block {
    /// An empty block of table `kind`.
    fn new(kind: TableKind, options: &Options) -> Self
    where
        Self: Sized;
    /// The rows.
    fn levels(&self) -> &Levels;
    /// The rows.
    fn levels_mut(&mut self) -> &mut Levels;
    /// Cells of JSON columns in the written form.
    fn cells(&self) -> usize;
    /// Calls `visit` with every column.
    fn each(&self, visit: &mut dyn FnMut(Level, &dyn Column));
    /// Calls `visit` with every column.
    fn each_mut(&mut self, visit: &mut dyn FnMut(Level, &mut dyn Column));
}

/// Implements the visits of a [`Block`] from one list: a level and a field per column.
macro_rules! visits {
    ($($level:ident $($field:ident).+),+ $(,)?) => {
        fn levels(&self) -> &$crate::block::Levels {
            &self.levels
        }

        fn levels_mut(&mut self) -> &mut $crate::block::Levels {
            &mut self.levels
        }

        fn each(
            &self,
            visit: &mut dyn FnMut($crate::block::Level, &dyn $crate::column::Column),
        ) {
            $(visit($crate::block::Level::$level, &self.$($field).+);)+
        }

        fn each_mut(
            &mut self,
            visit: &mut dyn FnMut($crate::block::Level, &mut dyn $crate::column::Column),
        ) {
            $(visit($crate::block::Level::$level, &mut self.$($field).+);)+
        }
    };
}
pub(crate) use visits;

/// What all blocks do the same way.
pub(crate) trait BlockExt: Block {
    fn mark(&self) -> Mark {
        self.levels().mark()
    }

    /// Takes back everything since `mark`.
    fn restore(&mut self, mark: Mark) {
        self.levels_mut().restore(mark);
        let lens = LEVELS.map(|level| self.levels().len(level));
        self.each_mut(&mut |level, column| column.truncate(lens[level as usize]));
    }

    fn clear(&mut self) {
        self.levels_mut().clear();
        self.each_mut(&mut |_, column| column.clear());
    }

    /// Bytes of values held.
    fn bytes(&self) -> usize {
        let mut bytes = self.levels().first.bytes() + self.levels().second.bytes();
        self.each(&mut |_, column| bytes += column.bytes());
        bytes
    }

    /// Names of JSON paths that lists in attributes made: keys repeated for each member.
    fn names_bytes(&self) -> usize {
        let mut bytes = 0;
        self.each(&mut |_, column| bytes += column.names_bytes());
        bytes
    }

    /// Bytes of memory held.
    fn memory_bytes(&self) -> usize {
        let mut bytes = size_of_val(self) + self.levels().memory_bytes();
        self.each(&mut |_, column| bytes += column.memory_bytes());
        bytes
    }

    /// Writes the block in the Native format: counts, then each column's name, type and data.
    /// `typed` are columns of the live table with types of their own.
    fn write(&self, table: &Table, typed: &[TypedColumn], body: &mut BodyWriter) {
        let levels = self.levels();
        body.varint(table.insert_columns().count() as u64);
        body.varint(u64::from(levels.rows));
        let mut definitions = table.insert_columns();
        self.each(&mut |level, column| {
            let Some(definition) = definitions.next() else { return };
            debug_assert_eq!(column.len(), levels.len(level), "{}", definition.name);
            body.string(definition.name.as_bytes());
            let shape = levels.shape(level);
            if let Some((json, live)) = as_live(column, definition.name, typed) {
                body.string(live.ty().as_bytes());
                json.write_prefix_as(live.paths(), body);
                return json.write_values_as(live.paths(), shape, body);
            }
            body.string(definition.ty.to_string().as_bytes());
            column.write_prefix(body);
            if let Shape::Nested { ends } = shape {
                ends.write(Shape::Rows, body);
            }
            column.write_values(shape, body);
        });
    }
}

impl<B: Block> BlockExt for B {}

/// A column as JSON, and its live type, where all that it has fits into that.
fn as_live<'a>(
    column: &'a dyn Column,
    name: &str,
    typed: &'a [TypedColumn],
) -> Option<(&'a Json, &'a TypedColumn)> {
    let live = typed.iter().find(|live| live.name() == name)?;
    let json = column.as_json()?;
    json.fits(live.paths()).then_some((json, live))
}

/// All levels, in the order of their discriminants.
const LEVELS: [Level; 6] =
    [Level::Row, Level::Resource, Level::Scope, Level::Metric, Level::First, Level::Second];
