//! Converts spans to rows of the traces table.

use millrace_schema::TableKind;
use millrace_wire::otlp::{Event, Link, ResourceGroup, ScopeGroup, Span, resource_groups};
use millrace_wire::protobuf::WireFault;

use crate::block::{Levels, Serials, TableBlock, visits};
use crate::column::{Dictionary, Fixed, LabelColumn, Sets, Strings};
use crate::day::Day;
use crate::options::Options;
use crate::partitions::Partitions;
use crate::rows::append::{AppendRefusal, RowBounds, ticks};
use crate::rows::group::push_resource;

/// `SpanKind` by number, in the Collector's spelling; empty for unknown numbers.
static SPAN_KINDS: [&str; 7] =
    ["Unspecified", "Internal", "Server", "Client", "Producer", "Consumer", ""];

/// `StatusCode` by number, in the Collector's spelling; empty for unknown numbers.
static STATUS_CODES: [&str; 4] = ["Unset", "Ok", "Error", ""];

pub(crate) struct TraceBlock {
    levels: Levels,
    timestamp: Fixed<8>,
    trace_id: Strings,
    span_id: Strings,
    parent_span_id: Strings,
    trace_state: Strings,
    span_name: Dictionary,
    span_kind: LabelColumn,
    service_name: Dictionary,
    resource_attributes: Sets,
    scope_name: Strings,
    scope_version: Strings,
    span_attributes: Sets,
    duration: Fixed<8>,
    status_code: LabelColumn,
    status_message: Strings,
    event_timestamp: Fixed<8>,
    event_name: Dictionary,
    event_attributes: Sets,
    link_trace_id: Strings,
    link_span_id: Strings,
    link_trace_state: Strings,
    link_attributes: Sets,
}

impl TableBlock for TraceBlock {
    fn new(_kind: TableKind, options: &Options) -> Self {
        let sets = || Sets::new(options.attributes, options.nested_depth);
        Self {
            levels: Levels::default(),
            timestamp: Fixed::default(),
            trace_id: Strings::default(),
            span_id: Strings::default(),
            parent_span_id: Strings::default(),
            trace_state: Strings::default(),
            span_name: Dictionary::default(),
            span_kind: LabelColumn::new(&SPAN_KINDS),
            service_name: Dictionary::default(),
            resource_attributes: sets(),
            scope_name: Strings::default(),
            scope_version: Strings::default(),
            span_attributes: sets(),
            duration: Fixed::default(),
            status_code: LabelColumn::new(&STATUS_CODES),
            status_message: Strings::default(),
            event_timestamp: Fixed::default(),
            event_name: Dictionary::default(),
            event_attributes: sets(),
            link_trace_id: Strings::default(),
            link_span_id: Strings::default(),
            link_trace_state: Strings::default(),
            link_attributes: sets(),
        }
    }

    #[inline]
    fn cell_count(&self) -> usize {
        self.resource_attributes.shared_cells(self.levels.rows)
            + self.span_attributes.cell_count()
            + self.event_attributes.cell_count()
            + self.link_attributes.cell_count()
    }

    visits! {
        Row timestamp,
        Row trace_id,
        Row span_id,
        Row parent_span_id,
        Row trace_state,
        Row span_name,
        Row span_kind,
        Resource service_name,
        Resource resource_attributes,
        Scope scope_name,
        Scope scope_version,
        Row span_attributes,
        Row duration,
        Row status_code,
        Row status_message,
        First event_timestamp,
        First event_name,
        First event_attributes,
        Second link_trace_id,
        Second link_span_id,
        Second link_trace_state,
        Second link_attributes,
    }
}

impl TraceBlock {
    fn begin_resource(&mut self, group: &ResourceGroup<'_>) -> Result<(), WireFault> {
        self.levels.resource.begin_group(self.levels.rows);
        let Self { resource_attributes, service_name, levels, .. } = self;
        levels.share_resource(push_resource(group.resource, resource_attributes, service_name)?);
        Ok(())
    }

    fn begin_scope(&mut self, group: &ScopeGroup<'_>) {
        self.levels.scope.begin_group(self.levels.rows);
        self.scope_name.push(group.scope.name);
        self.scope_version.push(group.scope.version);
        self.levels.share_scope(group.scope.name.len() + group.scope.version.len());
    }

    #[inline]
    fn push(&mut self, span: &Span<'_>, start: i64) -> Result<(), WireFault> {
        let duration = span.end_time_unix_nano.saturating_sub(span.start_time_unix_nano);
        self.timestamp.push(start.to_le_bytes());
        self.trace_id.push_trace_id(span.trace_id);
        self.span_id.push_span_id(span.span_id);
        self.parent_span_id.push_span_id(span.parent_span_id);
        self.trace_state.push(span.trace_state);
        self.span_name.push(span.name);
        self.span_kind.push(span.kind);
        self.duration.push(duration.to_le_bytes());
        self.status_code.push(span.status.code);
        self.status_message.push(span.status.message);
        self.span_attributes.push(span.attributes)?;
        self.push_events(span)?;
        self.push_links(span)?;
        self.levels.rows += 1;
        Ok(())
    }

    #[inline]
    fn push_events(&mut self, span: &Span<'_>) -> Result<(), WireFault> {
        let mut count = 0;
        let mut events = span.events;
        while let Some(event) = events.next_value()? {
            let event = Event::parse(event)?;
            self.event_timestamp.push(ticks(event.time_unix_nano).to_le_bytes());
            self.event_name.push(event.name);
            self.event_attributes.push(event.attributes)?;
            count += 1;
        }
        self.levels.first.push(count);
        Ok(())
    }

    #[inline]
    fn push_links(&mut self, span: &Span<'_>) -> Result<(), WireFault> {
        let mut count = 0;
        let mut links = span.links;
        while let Some(link) = links.next_value()? {
            let link = Link::parse(link)?;
            self.link_trace_id.push_trace_id(link.trace_id);
            self.link_span_id.push_span_id(link.span_id);
            self.link_trace_state.push(link.trace_state);
            self.link_attributes.push(link.attributes)?;
            count += 1;
        }
        self.levels.second.push(count);
        Ok(())
    }
}

/// Appends every span of `request` and returns their number.
pub(crate) fn append_traces(
    tables: &mut Partitions<TraceBlock>,
    serials: &mut Serials,
    request: &[u8],
    bounds: &mut RowBounds,
) -> Result<u64, AppendRefusal> {
    let mut rows = 0;
    for resource in resource_groups(request) {
        let resource = ResourceGroup::parse(resource?)?;
        serials.resource += 1;
        for scope in resource.scopes {
            let scope = ScopeGroup::parse(scope?)?;
            serials.scope += 1;
            let mut spans = scope.records;
            while let Some(message) = spans.next_value()? {
                let span = Span::parse(message)?;
                let start = ticks(span.start_time_unix_nano);
                bounds.check_time(start)?;
                let block = tables.block_for_day(Day::from_ticks(start))?;
                if block.levels.open != *serials {
                    if block.levels.open.resource != serials.resource {
                        block.begin_resource(&resource)?;
                    }
                    block.begin_scope(&scope);
                    block.levels.open = *serials;
                }
                block.push(&span, start)?;
                bounds.count_row(block.levels.count_row(message.len()))?;
                rows += 1;
            }
        }
    }
    Ok(rows)
}
