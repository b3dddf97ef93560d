//! A block: the columns of one table, and how their values relate to its rows.

use millrace_schema::{Table, TableKind};
use millrace_wire::otlp::{ROW_BYTES, repeated_bytes};

use crate::body::BodyWriter;
use crate::column::{ColumnBuilder, Json};
use crate::options::Options;
use crate::shape::{ColumnShape, Groups, Offsets};
use crate::typed::TypedColumn;

/// The rows for which a column has a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnLevel {
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
    /// The open groups, by their serial numbers in the set.
    pub(crate) open: Serials,
    /// The bytes that each of them adds to a row.
    shared: GroupBytes,
    /// The rows' written size (`millrace_wire`).
    pub(crate) written_bytes: u64,
    /// The part of its insert in the blocks before this one.
    pub(crate) before: InsertTotals,
}

/// The bytes that the open groups add each time they are written with a row.
#[derive(Clone, Copy, Debug, Default)]
struct GroupBytes {
    resource_bytes: u64,
    scope_bytes: u64,
    metric_bytes: u64,
    all_bytes: u64,
}

/// The size of an insert before one of its blocks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct InsertTotals {
    pub(crate) rows: u32,
    pub(crate) written_bytes: u64,
}

/// Serial numbers of groups within a set, increasing; 0 means none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Serials {
    pub(crate) resource: u64,
    pub(crate) scope: u64,
    pub(crate) metric: u64,
}

/// The state of a block before a request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mark {
    rows: u32,
    resources: usize,
    scopes: usize,
    metrics: usize,
    written_bytes: u64,
}

impl Levels {
    /// Sets the open resource's bytes per row.
    pub(crate) fn share_resource(&mut self, bytes: usize) {
        self.shared.resource_bytes = repeated_bytes(bytes as u64);
        self.sum_shared();
    }

    /// Sets the open scope's bytes per row.
    pub(crate) fn share_scope(&mut self, bytes: usize) {
        self.shared.scope_bytes = repeated_bytes(bytes as u64);
        self.sum_shared();
    }

    /// Sets the open metric's bytes per row.
    pub(crate) fn share_metric(&mut self, bytes: usize) {
        self.shared.metric_bytes = repeated_bytes(bytes as u64);
        self.sum_shared();
    }

    fn sum_shared(&mut self) {
        let GroupBytes { resource_bytes, scope_bytes, metric_bytes, .. } = self.shared;
        self.shared.all_bytes = resource_bytes + scope_bytes + metric_bytes;
    }

    /// Counts and returns the written size of a row of the open groups whose message has
    /// `own_bytes`.
    #[inline]
    pub(crate) fn count_row(&mut self, own_bytes: usize) -> u64 {
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

    fn roll_back_to(&mut self, mark: Mark) {
        let Mark { rows, resources, scopes, metrics, written_bytes } = mark;
        self.rows = rows;
        self.written_bytes = written_bytes;
        self.resource.truncate(resources);
        self.scope.truncate(scopes);
        self.metric.truncate(metrics);
        self.first.truncate(self.first.row_count().min(rows as usize));
        self.second.truncate(self.second.row_count().min(rows as usize));
        self.open = Serials::default();
    }

    /// Returns how many values a column of `level` has once all rows are complete.
    fn len(&self, level: ColumnLevel) -> usize {
        match level {
            ColumnLevel::Row => self.rows as usize,
            ColumnLevel::Resource => self.resource.len(),
            ColumnLevel::Scope => self.scope.len(),
            ColumnLevel::Metric => self.metric.len(),
            ColumnLevel::First => self.first.total() as usize,
            ColumnLevel::Second => self.second.total() as usize,
        }
    }

    fn shape_of(&self, level: ColumnLevel) -> ColumnShape<'_> {
        match level {
            ColumnLevel::Row => ColumnShape::Rows,
            ColumnLevel::Resource => self.resource.shape_for(self.rows),
            ColumnLevel::Scope => self.scope.shape_for(self.rows),
            ColumnLevel::Metric => self.metric.shape_for(self.rows),
            ColumnLevel::First => ColumnShape::Nested { ends: &self.first },
            ColumnLevel::Second => ColumnShape::Nested { ends: &self.second },
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
        self.shared = GroupBytes::default();
        self.written_bytes = 0;
        self.before = InsertTotals::default();
    }

    fn memory_bytes(&self) -> usize {
        self.resource.memory_bytes()
            + self.scope.memory_bytes()
            + self.metric.memory_bytes()
            + self.first.memory_bytes()
            + self.second.memory_bytes()
    }
}

/// The columns of one table. Visits follow the order of the table's insert columns.
pub(crate) trait TableBlock {
    /// Returns an empty block of table `kind`.
    fn new(kind: TableKind, options: &Options) -> Self
    where
        Self: Sized;
    /// Returns the block's rows.
    fn levels(&self) -> &Levels;
    fn levels_mut(&mut self) -> &mut Levels;
    /// Returns the cells of JSON columns in the written form.
    fn cell_count(&self) -> usize;
    /// Calls `visit` with every column.
    fn each(&self, visit: &mut dyn FnMut(ColumnLevel, &dyn ColumnBuilder));
    /// Calls `visit` with every column.
    fn each_mut(&mut self, visit: &mut dyn FnMut(ColumnLevel, &mut dyn ColumnBuilder));
}

/// Implements the visits of a [`TableBlock`] from one list with a level and a field per column.
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
            visit: &mut dyn FnMut($crate::block::ColumnLevel, &dyn $crate::column::ColumnBuilder),
        ) {
            $(visit($crate::block::ColumnLevel::$level, &self.$($field).+);)+
        }

        fn each_mut(
            &mut self,
            visit: &mut dyn FnMut(
                $crate::block::ColumnLevel,
                &mut dyn $crate::column::ColumnBuilder,
            ),
        ) {
            $(visit($crate::block::ColumnLevel::$level, &mut self.$($field).+);)+
        }
    };
}
pub(crate) use visits;

/// The operations that are the same for all blocks.
pub(crate) trait BlockExt: TableBlock {
    fn mark(&self) -> Mark {
        self.levels().mark()
    }

    /// Reverts everything since `mark`.
    fn roll_back_to(&mut self, mark: Mark) {
        self.levels_mut().roll_back_to(mark);
        let lens = LEVELS.map(|level| self.levels().len(level));
        self.each_mut(&mut |level, column| column.truncate(lens[level as usize]));
    }

    fn clear(&mut self) {
        self.levels_mut().clear();
        self.each_mut(&mut |_, column| column.clear());
    }

    /// Returns the bytes of values.
    fn data_bytes(&self) -> usize {
        let mut bytes = self.levels().first.data_bytes() + self.levels().second.data_bytes();
        self.each(&mut |_, column| bytes += column.data_bytes());
        bytes
    }

    /// Returns the bytes of the names of JSON paths from lists in attributes, which repeat keys for
    /// each member.
    fn names_bytes(&self) -> usize {
        let mut bytes = 0;
        self.each(&mut |_, column| bytes += column.names_bytes());
        bytes
    }

    /// Returns the bytes of memory held.
    fn memory_bytes(&self) -> usize {
        let mut bytes = size_of_val(self) + self.levels().memory_bytes();
        self.each(&mut |_, column| bytes += column.memory_bytes());
        bytes
    }

    /// Writes the block in the Native format: counts, then each column's name, type and data.
    /// `typed` are columns of the live table with types of their own.
    fn write(&self, table: &Table, typed: &[TypedColumn], body: &mut BodyWriter) {
        let levels = self.levels();
        body.put_varint(table.insert_columns().count() as u64);
        body.put_varint(u64::from(levels.rows));
        let mut definitions = table.insert_columns();
        self.each(&mut |level, column| {
            let Some(definition) = definitions.next() else { return };
            debug_assert_eq!(column.len(), levels.len(level), "{}", definition.name);
            body.put_string(definition.name.as_bytes());
            let shape = levels.shape_of(level);
            if let Some((json, live)) = as_live(column, definition.name, typed) {
                body.put_string(live.ty().as_bytes());
                json.write_prefix_as(live.paths(), body);
                return json.write_values_as(live.paths(), shape, body);
            }
            body.put_string(definition.ty.to_string().as_bytes());
            column.write_prefix(body);
            if let ColumnShape::Nested { ends } = shape {
                ends.write(ColumnShape::Rows, body);
            }
            column.write_values(shape, body);
        });
    }
}

impl<B: TableBlock> BlockExt for B {}

/// Returns a column as JSON with its live type, if all its values fit that type.
fn as_live<'a>(
    column: &'a dyn ColumnBuilder,
    name: &str,
    typed: &'a [TypedColumn],
) -> Option<(&'a Json, &'a TypedColumn)> {
    let live = typed.iter().find(|live| live.name() == name)?;
    let json = column.as_json()?;
    json.fits_typed(live.paths()).then_some((json, live))
}

/// All levels, in the order of their discriminants.
const LEVELS: [ColumnLevel; 6] = [
    ColumnLevel::Row,
    ColumnLevel::Resource,
    ColumnLevel::Scope,
    ColumnLevel::Metric,
    ColumnLevel::First,
    ColumnLevel::Second,
];
