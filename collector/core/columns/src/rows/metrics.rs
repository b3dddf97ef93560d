//! Converts metric points to rows of the five metrics tables.

use millrace_schema::TableKind;
use millrace_wire::otlp::{
    Exemplar, ExponentialHistogramPoint, HistogramPoint, Metric, MetricData, NumberPoint, Points,
    Quantile, Repeated, ResourceGroup, ScopeGroup, SummaryPoint, resource_groups,
};
use millrace_wire::protobuf::WireFault;

use crate::block::{ColumnLevel, Levels, Serials, TableBlock};
use crate::column::{ColumnBuilder, Dictionary, Fixed, Numbers, Sets, Strings};
use crate::day::Day;
use crate::options::Options;
use crate::partitions::Partitions;
use crate::rows::append::{AppendRefusal, RowBounds, ticks};
use crate::rows::group::push_resource;

/// The metrics tables, in the order of [`KINDS`].
pub(crate) type MetricTables = [Partitions<MetricBlock>; 5];

/// The kinds of points, each with its own table.
const KINDS: [TableKind; 5] = [
    TableKind::MetricsGauge,
    TableKind::MetricsSum,
    TableKind::MetricsHistogram,
    TableKind::MetricsExponentialHistogram,
    TableKind::MetricsSummary,
];

pub(crate) fn new_tables(options: Options) -> MetricTables {
    KINDS.map(|kind| Partitions::new(kind, options))
}

/// A block of one of the metrics tables. Columns that its table lacks stay empty.
pub(crate) struct MetricBlock {
    kind: TableKind,
    levels: Levels,
    resource_attributes: Sets,
    resource_schema_url: Dictionary,
    service_name: Dictionary,
    scope_name: Dictionary,
    scope_version: Dictionary,
    scope_attributes: Sets,
    scope_dropped: Fixed<4>,
    scope_schema_url: Dictionary,
    metric_name: Dictionary,
    description: Dictionary,
    unit: Dictionary,
    temporality: Fixed<4>,
    monotonic: Fixed<1>,
    attributes: Sets,
    start_time: Fixed<8>,
    time: Fixed<8>,
    flags: Fixed<4>,
    value: Fixed<8>,
    count: Fixed<8>,
    sum: Fixed<8>,
    min: Fixed<8>,
    max: Fixed<8>,
    bucket_counts: Numbers,
    explicit_bounds: Numbers,
    scale: Fixed<4>,
    zero_count: Fixed<8>,
    positive_offset: Fixed<4>,
    positive_counts: Numbers,
    negative_offset: Fixed<4>,
    negative_counts: Numbers,
    quantile: Fixed<8>,
    quantile_value: Fixed<8>,
    exemplar_attributes: Sets,
    exemplar_time: Fixed<8>,
    exemplar_value: Fixed<8>,
    exemplar_span_id: Strings,
    exemplar_trace_id: Strings,
}

/// Visits the named columns, each with its level.
macro_rules! visit {
    ($block:ident $visit:ident () $($level:ident $field:ident),+ $(,)?) => {{
        $($visit(ColumnLevel::$level, &$block.$field);)+
    }};
    ($block:ident $visit:ident (mut) $($level:ident $field:ident),+ $(,)?) => {{
        $($visit(ColumnLevel::$level, &mut $block.$field);)+
    }};
}

/// Visits the columns of a block's table in their order, shared or `mut`.
macro_rules! visit_columns {
    ($block:ident $visit:ident $mutable:tt) => {{
        visit! { $block $visit $mutable
            Resource resource_attributes, Resource resource_schema_url, Scope scope_name,
            Scope scope_version, Scope scope_attributes, Scope scope_dropped,
            Scope scope_schema_url, Resource service_name, Metric metric_name,
            Metric description, Metric unit, Row attributes, Row start_time, Row time,
        }
        match $block.kind {
            TableKind::MetricsHistogram => visit! { $block $visit $mutable
                Row count, Row sum, Row bucket_counts, Row explicit_bounds,
            },
            TableKind::MetricsExponentialHistogram => visit! { $block $visit $mutable
                Row count, Row sum, Row scale, Row zero_count, Row positive_offset,
                Row positive_counts, Row negative_offset, Row negative_counts,
            },
            TableKind::MetricsSummary => visit! { $block $visit $mutable
                Row count, Row sum, First quantile, First quantile_value, Row flags,
            },
            _ => visit! { $block $visit $mutable Row value, Row flags },
        }
        if $block.kind != TableKind::MetricsSummary {
            visit! { $block $visit $mutable
                First exemplar_attributes, First exemplar_time, First exemplar_value,
                First exemplar_span_id, First exemplar_trace_id,
            }
        }
        match $block.kind {
            TableKind::MetricsSum => {
                visit! { $block $visit $mutable Metric temporality, Metric monotonic }
            }
            TableKind::MetricsHistogram | TableKind::MetricsExponentialHistogram => {
                visit! { $block $visit $mutable Row flags, Row min, Row max, Metric temporality }
            }
            _ => {}
        }
    }};
}

impl TableBlock for MetricBlock {
    fn new(kind: TableKind, options: &Options) -> Self {
        let sets = || Sets::of_series(options.attributes, options.nested_depth);
        Self {
            kind,
            levels: Levels::default(),
            resource_attributes: sets(),
            resource_schema_url: Dictionary::default(),
            service_name: Dictionary::default(),
            scope_name: Dictionary::default(),
            scope_version: Dictionary::default(),
            scope_attributes: sets(),
            scope_dropped: Fixed::default(),
            scope_schema_url: Dictionary::default(),
            metric_name: Dictionary::default(),
            description: Dictionary::default(),
            unit: Dictionary::default(),
            temporality: Fixed::default(),
            monotonic: Fixed::default(),
            attributes: sets(),
            start_time: Fixed::default(),
            time: Fixed::default(),
            flags: Fixed::default(),
            value: Fixed::default(),
            count: Fixed::default(),
            sum: Fixed::default(),
            min: Fixed::default(),
            max: Fixed::default(),
            bucket_counts: Numbers::default(),
            explicit_bounds: Numbers::default(),
            scale: Fixed::default(),
            zero_count: Fixed::default(),
            positive_offset: Fixed::default(),
            positive_counts: Numbers::default(),
            negative_offset: Fixed::default(),
            negative_counts: Numbers::default(),
            quantile: Fixed::default(),
            quantile_value: Fixed::default(),
            exemplar_attributes: Sets::new(options.attributes, options.nested_depth),
            exemplar_time: Fixed::default(),
            exemplar_value: Fixed::default(),
            exemplar_span_id: Strings::default(),
            exemplar_trace_id: Strings::default(),
        }
    }

    fn levels(&self) -> &Levels {
        &self.levels
    }

    fn levels_mut(&mut self) -> &mut Levels {
        &mut self.levels
    }

    #[inline]
    fn cell_count(&self) -> usize {
        self.resource_attributes.shared_cells(self.levels.rows)
            + self.scope_attributes.shared_cells(self.levels.rows)
            + self.attributes.cell_count()
            + self.exemplar_attributes.cell_count()
    }

    fn each(&self, visit: &mut dyn FnMut(ColumnLevel, &dyn ColumnBuilder)) {
        visit_columns! { self visit () }
    }

    fn each_mut(&mut self, visit: &mut dyn FnMut(ColumnLevel, &mut dyn ColumnBuilder)) {
        visit_columns! { self visit (mut) }
    }
}

/// The values that the points of a metric share, with the groups around it.
struct MetricGroup<'a> {
    resource: &'a ResourceGroup<'a>,
    scope: &'a ScopeGroup<'a>,
    metric: &'a Metric<'a>,
    temporality: i32,
    monotonic: bool,
}

/// The fields that all kinds of points have.
struct PointFields<'a> {
    start_time_unix_nano: u64,
    time: i64,
    flags: u32,
    attributes: Repeated<'a>,
}

impl MetricBlock {
    /// Opens the groups of `group` that aren't open in this block.
    #[inline]
    fn open_groups(&mut self, group: &MetricGroup<'_>, serials: Serials) -> Result<(), WireFault> {
        if self.levels.open == serials {
            return Ok(());
        }
        if self.levels.open.resource != serials.resource {
            self.levels.resource.begin_group(self.levels.rows);
            self.resource_schema_url.push(group.resource.schema_url);
            let Self { resource_attributes, service_name, levels, .. } = self;
            let attributes_bytes =
                push_resource(group.resource.resource, resource_attributes, service_name)?;
            levels.share_resource(attributes_bytes + group.resource.schema_url.len());
        }
        if self.levels.open.scope != serials.scope {
            self.levels.scope.begin_group(self.levels.rows);
            let ScopeGroup { scope, schema_url, .. } = group.scope;
            self.scope_name.push(scope.name);
            self.scope_version.push(scope.version);
            self.scope_dropped.push(scope.dropped_attributes_count.to_le_bytes());
            self.scope_schema_url.push(schema_url);
            let before = self.scope_attributes.value_bytes();
            self.scope_attributes.push_with(|add| scope.for_each_attribute(add))?;
            let attributes_bytes = self.scope_attributes.value_bytes() - before;
            let texts_bytes = scope.name.len() + scope.version.len() + schema_url.len();
            self.levels.share_scope(attributes_bytes + texts_bytes);
        }
        self.levels.metric.begin_group(self.levels.rows);
        let Metric { name, description, unit, .. } = *group.metric;
        self.metric_name.push(name);
        self.description.push(description);
        self.unit.push(unit);
        self.levels.share_metric(description.len() + unit.len());
        if self.kind == TableKind::MetricsSum {
            self.monotonic.push([u8::from(group.monotonic)]);
        }
        if !matches!(self.kind, TableKind::MetricsGauge | TableKind::MetricsSummary) {
            self.temporality.push(group.temporality.to_le_bytes());
        }
        self.levels.open = serials;
        Ok(())
    }

    #[inline]
    fn push_common(&mut self, point: &PointFields<'_>) -> Result<(), WireFault> {
        let PointFields { start_time_unix_nano, time, flags, attributes } = *point;
        self.start_time.push(ticks(start_time_unix_nano).to_le_bytes());
        self.time.push(time.to_le_bytes());
        self.flags.push(flags.to_le_bytes());
        self.attributes.push(attributes)
    }

    #[inline]
    fn push_exemplars(&mut self, mut exemplars: Repeated<'_>) -> Result<(), WireFault> {
        let mut count = 0;
        while let Some(exemplar) = exemplars.next_value()? {
            let exemplar = Exemplar::parse(exemplar)?;
            self.exemplar_attributes.push(exemplar.filtered_attributes)?;
            self.exemplar_time.push(ticks(exemplar.time_unix_nano).to_le_bytes());
            self.exemplar_value.push(exemplar.value.to_le_bytes());
            self.exemplar_span_id.push_span_id(exemplar.span_id);
            self.exemplar_trace_id.push_trace_id(exemplar.trace_id);
            count += 1;
        }
        self.levels.first.push(count);
        Ok(())
    }
}

/// A kind of point: how it is read and appended as a row.
trait PointKind<'a>: Sized {
    fn parse(message: &'a [u8]) -> Result<Self, WireFault>;
    fn common(&self) -> PointFields<'a>;
    /// Appends the kind's own fields, in addition to the common ones.
    fn push(&self, block: &mut MetricBlock) -> Result<(), WireFault>;
}

/// Implements the part of [`PointKind`] that all kinds share.
macro_rules! common_point {
    () => {
        #[inline]
        fn parse(message: &'a [u8]) -> Result<Self, WireFault> {
            Self::parse(message)
        }

        #[inline]
        fn common(&self) -> PointFields<'a> {
            PointFields {
                start_time_unix_nano: self.start_time_unix_nano,
                time: ticks(self.time_unix_nano),
                flags: self.flags,
                attributes: self.attributes,
            }
        }
    };
}

impl<'a> PointKind<'a> for NumberPoint<'a> {
    common_point! {}

    #[inline]
    fn push(&self, block: &mut MetricBlock) -> Result<(), WireFault> {
        block.value.push(self.value.to_le_bytes());
        block.push_exemplars(self.exemplars)
    }
}

impl<'a> PointKind<'a> for HistogramPoint<'a> {
    common_point! {}

    /// Counts and bounds that don't match are stored as received.
    fn push(&self, block: &mut MetricBlock) -> Result<(), WireFault> {
        block.count.push(self.count.to_le_bytes());
        block.sum.push(self.sum.to_le_bytes());
        block.min.push(self.min.to_le_bytes());
        block.max.push(self.max.to_le_bytes());
        self.bucket_counts.for_each_fixed64(|count| block.bucket_counts.add_number(count))?;
        block.bucket_counts.end_row();
        self.explicit_bounds.for_each_fixed64(|bound| block.explicit_bounds.add_number(bound))?;
        block.explicit_bounds.end_row();
        block.push_exemplars(self.exemplars)
    }
}

impl<'a> PointKind<'a> for ExponentialHistogramPoint<'a> {
    common_point! {}

    fn push(&self, block: &mut MetricBlock) -> Result<(), WireFault> {
        block.count.push(self.count.to_le_bytes());
        block.sum.push(self.sum.to_le_bytes());
        block.min.push(self.min.to_le_bytes());
        block.max.push(self.max.to_le_bytes());
        block.scale.push(self.scale.to_le_bytes());
        block.zero_count.push(self.zero_count.to_le_bytes());
        block.positive_offset.push(self.positive.offset.to_le_bytes());
        self.positive.counts.for_each_varint(|count| block.positive_counts.add_number(count))?;
        block.positive_counts.end_row();
        block.negative_offset.push(self.negative.offset.to_le_bytes());
        self.negative.counts.for_each_varint(|count| block.negative_counts.add_number(count))?;
        block.negative_counts.end_row();
        block.push_exemplars(self.exemplars)
    }
}

impl<'a> PointKind<'a> for SummaryPoint<'a> {
    common_point! {}

    fn push(&self, block: &mut MetricBlock) -> Result<(), WireFault> {
        block.count.push(self.count.to_le_bytes());
        block.sum.push(self.sum.to_le_bytes());
        let mut count = 0;
        for quantile in self.quantiles {
            let Quantile { quantile, value } = Quantile::parse(quantile?)?;
            block.quantile.push(quantile.to_le_bytes());
            block.quantile_value.push(value.to_le_bytes());
            count += 1;
        }
        block.levels.first.push(count);
        Ok(())
    }
}

/// Appends the points of one metric and returns their number.
#[inline]
fn push_points<'a, P: PointKind<'a>>(
    table: &mut Partitions<MetricBlock>,
    group: &MetricGroup<'_>,
    serials: Serials,
    mut points: Points<'a>,
    bounds: &mut RowBounds,
) -> Result<u64, AppendRefusal> {
    let mut rows = 0;
    while let Some(message) = points.next_value()? {
        let point = <P as PointKind>::parse(message)?;
        let common = point.common();
        bounds.check_time(common.time)?;
        let block = table.block_for_day(Day::from_ticks(common.time))?;
        block.open_groups(group, serials)?;
        block.push_common(&common)?;
        point.push(block)?;
        block.levels.rows += 1;
        bounds.count_row(block.levels.count_row(message.len()))?;
        rows += 1;
    }
    Ok(rows)
}

/// Appends every point of `request` and returns their number.
pub(crate) fn append_metrics(
    tables: &mut MetricTables,
    serials: &mut Serials,
    request: &[u8],
    bounds: &mut RowBounds,
) -> Result<u64, AppendRefusal> {
    let mut rows = 0;
    for resource in resource_groups(request) {
        let resource = &ResourceGroup::parse(resource?)?;
        serials.resource += 1;
        for scope in resource.scopes {
            let scope = &ScopeGroup::parse(scope?)?;
            serials.scope += 1;
            for metric in scope.records {
                let metric = &Metric::parse(metric?)?;
                serials.metric += 1;
                rows += push_metric(tables, *serials, (resource, scope, metric), bounds)?;
            }
        }
    }
    Ok(rows)
}

fn push_metric(
    tables: &mut MetricTables,
    serials: Serials,
    (resource, scope, metric): (&ResourceGroup<'_>, &ScopeGroup<'_>, &Metric<'_>),
    bounds: &mut RowBounds,
) -> Result<u64, AppendRefusal> {
    let [gauge, sum, histogram, exponential_histogram, summary] = tables;
    let mut group = MetricGroup { resource, scope, metric, temporality: 0, monotonic: false };
    match metric.data {
        MetricData::Empty => Ok(0),
        MetricData::Gauge(points) => {
            push_points::<NumberPoint<'_>>(gauge, &group, serials, points, bounds)
        }
        MetricData::Sum { points, temporality, monotonic } => {
            group.temporality = temporality;
            group.monotonic = monotonic;
            push_points::<NumberPoint<'_>>(sum, &group, serials, points, bounds)
        }
        MetricData::Histogram { points, temporality } => {
            group.temporality = temporality;
            push_points::<HistogramPoint<'_>>(histogram, &group, serials, points, bounds)
        }
        MetricData::ExponentialHistogram { points, temporality } => {
            group.temporality = temporality;
            let table = exponential_histogram;
            push_points::<ExponentialHistogramPoint<'_>>(table, &group, serials, points, bounds)
        }
        MetricData::Summary(points) => {
            push_points::<SummaryPoint<'_>>(summary, &group, serials, points, bounds)
        }
    }
}
