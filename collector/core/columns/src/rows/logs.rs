//! Converts log records to rows of the logs table.

use millrace_schema::{AttributeStorage, TableKind};
use millrace_wire::otlp::{AnyValue, LogRecord, ResourceGroup, ScopeGroup, resource_groups};
use millrace_wire::protobuf::WireFault;

use crate::block::{Levels, Serials, TableBlock, visits};
use crate::column::{Dictionary, Fixed, Sets, Strings};
use crate::day::Day;
use crate::format::text;
use crate::options::Options;
use crate::partitions::Partitions;
use crate::rows::append::{AppendRefusal, RowBounds, ticks};
use crate::rows::group::push_resource;

pub(crate) struct LogBlock {
    levels: Levels,
    timestamp: Fixed<8>,
    trace_id: Strings,
    span_id: Strings,
    trace_flags: Fixed<1>,
    severity_text: Dictionary,
    severity_number: Fixed<1>,
    service_name: Dictionary,
    body: Strings,
    resource_schema_url: Dictionary,
    resource_attributes: Sets,
    scope_schema_url: Dictionary,
    scope_name: Strings,
    scope_version: Dictionary,
    scope_attributes: Sets,
    log_attributes: Sets,
    event_name: Strings,
    scratch: Vec<u8>,
}

impl TableBlock for LogBlock {
    fn new(_kind: TableKind, options: &Options) -> Self {
        let sets = || Sets::new(options.attributes, options.nested_depth);
        Self {
            levels: Levels::default(),
            timestamp: Fixed::default(),
            trace_id: Strings::default(),
            span_id: Strings::default(),
            trace_flags: Fixed::default(),
            severity_text: Dictionary::default(),
            severity_number: Fixed::default(),
            service_name: Dictionary::default(),
            body: Strings::default(),
            resource_schema_url: Dictionary::default(),
            resource_attributes: sets(),
            scope_schema_url: Dictionary::default(),
            scope_name: Strings::default(),
            scope_version: Dictionary::default(),
            scope_attributes: sets(),
            log_attributes: sets(),
            event_name: Strings::default(),
            scratch: Vec::new(),
        }
    }

    #[inline]
    fn cell_count(&self) -> usize {
        self.resource_attributes.shared_cells(self.levels.rows)
            + self.scope_attributes.shared_cells(self.levels.rows)
            + self.log_attributes.cell_count()
    }

    visits! {
        Row timestamp,
        Row trace_id,
        Row span_id,
        Row trace_flags,
        Row severity_text,
        Row severity_number,
        Resource service_name,
        Row body,
        Resource resource_schema_url,
        Resource resource_attributes,
        Scope scope_schema_url,
        Scope scope_name,
        Scope scope_version,
        Scope scope_attributes,
        Row log_attributes,
        Row event_name,
    }
}

impl LogBlock {
    fn begin_resource(&mut self, group: &ResourceGroup<'_>) -> Result<(), WireFault> {
        self.levels.resource.begin_group(self.levels.rows);
        self.resource_schema_url.push(group.schema_url);
        let Self { resource_attributes, service_name, levels, .. } = self;
        levels.share_resource(push_resource(group.resource, resource_attributes, service_name)?);
        Ok(())
    }

    fn begin_scope(&mut self, group: &ScopeGroup<'_>) -> Result<(), WireFault> {
        self.levels.scope.begin_group(self.levels.rows);
        self.scope_schema_url.push(group.schema_url);
        self.scope_name.push(group.scope.name);
        self.scope_version.push(group.scope.version);
        let before = self.scope_attributes.value_bytes();
        self.scope_attributes.push_with(|add| group.scope.for_each_attribute(add))?;
        let attributes_bytes = self.scope_attributes.value_bytes() - before;
        self.levels.share_scope(attributes_bytes + group.scope.name.len());
        Ok(())
    }

    #[inline]
    fn push(&mut self, record: &LogRecord<'_>, time: i64) -> Result<(), WireFault> {
        self.timestamp.push(time.to_le_bytes());
        self.trace_id.push_trace_id(record.trace_id);
        self.span_id.push_span_id(record.span_id);
        // W3C trace flags are the low eight bits; severities go to 24.
        self.trace_flags.push([record.flags as u8]);
        self.severity_text.push(record.severity_text);
        self.severity_number.push([record.severity_number as u8]);
        match record.body {
            AnyValue::String(text) => self.body.push(text),
            value => {
                self.body.push_with(&mut self.scratch, |out| text::append_plain(value, out))?
            }
        }
        self.event_name.push(record.event_name);
        self.log_attributes.push(record.attributes)?;
        self.levels.rows += 1;
        Ok(())
    }
}

/// Appends every log record of `request` and returns their number. A record without a time gets the
/// time at which it was observed.
pub(crate) fn append_logs(
    tables: &mut Partitions<LogBlock>,
    serials: &mut Serials,
    request: &[u8],
    bounds: &mut RowBounds,
) -> Result<u64, AppendRefusal> {
    // The Map variant's table is partitioned by its column of whole seconds.
    let day_of = match tables.attributes() {
        AttributeStorage::Json => Day::from_ticks,
        AttributeStorage::Map => Day::by_seconds,
    };
    let mut rows = 0;
    for resource in resource_groups(request) {
        let resource = ResourceGroup::parse(resource?)?;
        serials.resource += 1;
        for scope in resource.scopes {
            let scope = ScopeGroup::parse(scope?)?;
            serials.scope += 1;
            let mut records = scope.records;
            while let Some(message) = records.next_value()? {
                let record = LogRecord::parse(message)?;
                let time = match record.time_unix_nano {
                    0 => ticks(record.observed_time_unix_nano),
                    time => ticks(time),
                };
                bounds.check_time(time)?;
                let block = tables.block_for_day(day_of(time))?;
                if block.levels.open != *serials {
                    if block.levels.open.resource != serials.resource {
                        block.begin_resource(&resource)?;
                    }
                    block.begin_scope(&scope)?;
                    block.levels.open = *serials;
                }
                block.push(&record, time)?;
                bounds.count_row(block.levels.count_row(message.len()))?;
                rows += 1;
            }
        }
    }
    Ok(rows)
}
