//! One walk over a request: resources, scopes, records, and what is inside of them.
//!
//! Ranges of the request that no rule changed are copied as they are, with their lengths; a message
//! in which something changed gets a new length when it ends.

mod metrics;
mod records;
mod steps;
mod units;

use millrace_wire::Signal;
use millrace_wire::WireErrorKind;
use millrace_wire::protobuf::{Cursor, FieldSpan, LENGTH, WireFault, field_tag};

use crate::counts::Counts;
use crate::edit::memory::Ref;
use crate::edit::segments::{Mark, Segments};
use crate::enrich::UnlabeledReason;
use crate::error::RuleFailure;
use crate::eval::Machine;
use crate::ottl::context::StatementContext;
use crate::program::Pass;
use crate::timer::RuleTimer;

/// The tag of a request's groups, a scope's records and a data's points.
const FIRST: u8 = field_tag(1, LENGTH) as u8;
const SECOND: u8 = field_tag(2, LENGTH) as u8;
const THIRD: u8 = field_tag(3, LENGTH) as u8;

/// Why a walk ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The request isn't OTLP.
    Malformed(WireErrorKind),
    /// A rule failed whose step propagates errors.
    Rejected { rule: usize, error: RuleFailure },
}

impl From<WireFault> for Stop {
    fn from(fault: WireFault) -> Self {
        Self::Malformed(fault.kind())
    }
}

/// Whether a message is part of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RecordFate {
    Retained,
    Dropped,
}

/// The messages in a group that were retained and dropped.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    retained: usize,
    dropped: usize,
}

impl Tally {
    fn note(&mut self, fate: RecordFate) {
        match fate {
            RecordFate::Retained => self.retained += 1,
            RecordFate::Dropped => self.dropped += 1,
        }
    }

    /// Whether rules dropped all of a group.
    fn is_emptied(self) -> bool {
        self.dropped > 0 && self.retained == 0
    }
}

/// A walk over a request.
pub(crate) struct Walk<'r> {
    pub(crate) machine: Machine<'r>,
    pub(crate) segments: &'r mut Segments,
    pub(crate) counts: &'r mut Counts,
    pub(crate) timer: &'r mut RuleTimer,
    pub(crate) pass: &'r Pass,
    pub(crate) signal: Signal,
    pub(crate) input_len: usize,
    /// The longest output.
    pub(crate) limit_bytes: usize,
    /// The length of fields of open messages that were read and are written when these end.
    pub(crate) pending_bytes: usize,
    /// Whether the output has what the walk's rules match, instead of what they leave.
    pub(crate) is_selecting: bool,
    /// The number of changes so far: a group in which it didn't grow is copied as it is.
    pub(crate) changes: u64,
    /// Why the open resource got no metadata of a pod, until its records are counted.
    pub(crate) unlabeled: Option<UnlabeledReason>,
}

/// The position of a message with its tag and of its content.
#[derive(Clone, Copy, Debug)]
struct MessageFrame {
    full: Ref,
    content: Ref,
    tag: u8,
}

/// The fields of a message, one after the other.
struct FieldReader {
    message: Ref,
    at: usize,
}

impl FieldReader {
    const fn new(message: Ref) -> Self {
        Self { message, at: 0 }
    }

    /// Returns the next field: its tag, and its content if it is length-prefixed.
    #[inline]
    fn next_field(
        &mut self,
        machine: &Machine<'_>,
    ) -> Result<Option<(u32, MessageFrame)>, WireFault> {
        let bytes = machine.memory.get(self.message);
        let start = self.at;
        if start >= bytes.len() {
            return Ok(None);
        }
        let FieldSpan { tag, value_start, end } = FieldSpan::read(bytes, start)?;
        self.at = end;
        let content = match tag & 7 {
            LENGTH => self.message.part(value_start, end - value_start),
            _ => Ref::EMPTY,
        };
        let full = self.message.part(start, end - start);
        Ok(Some((tag, MessageFrame { full, content, tag: tag as u8 })))
    }
}

impl Walk<'_> {
    /// Walks the request.
    pub(crate) fn request(&mut self) -> Result<(), Stop> {
        let mut fields = FieldReader::new(Ref::input(self.input_len));
        while let Some((tag, message)) = fields.next_field(&self.machine)? {
            if tag == u32::from(FIRST) {
                self.group(StatementContext::Resource, message)?;
            } else {
                self.segments.push(message.full);
            }
        }
        Ok(())
    }

    /// Walks a resource's or scope's group.
    fn group(
        &mut self,
        context: StatementContext,
        group: MessageFrame,
    ) -> Result<RecordFate, Stop> {
        let mark = self.segments.open();
        let changes = self.changes;
        let fields = *self.pass.fields(context);
        if fields.is_used {
            self.open_shared(context, group.content)?;
            if let Some(fate) = self.run_on_group(context, group, mark)? {
                return Ok(fate);
            }
        }
        let own = self.is_own_written(context).then(|| self.segments.open());
        let pending_bytes = self.pending_bytes;
        let mut tally = Tally::default();
        let has_units_below = self.pass.has_units_below(context);
        let mut reader = FieldReader::new(group.content);
        while let Some((tag, message)) = reader.next_field(&self.machine)? {
            if tag == u32::from(SECOND) && has_units_below {
                tally.note(match context {
                    StatementContext::Resource => self.group(StatementContext::Scope, message)?,
                    _ => self.record(message)?,
                });
            } else if tag == u32::from(SECOND) || own.is_none() {
                self.segments.push(message.full);
            } else {
                self.pending_bytes += message.full.len();
            }
        }
        self.pending_bytes = pending_bytes;
        if tally.is_emptied() {
            self.segments.rewind(mark);
            return Ok(RecordFate::Dropped);
        }
        if let Some(own) = own {
            self.fill_shared(context, group.content, own)?;
        }
        self.close(group, mark, changes);
        Ok(RecordFate::Retained)
    }

    /// Ends a message: as it was received if nothing in it changed.
    fn close(&mut self, message: MessageFrame, mark: Mark, changes: u64) {
        if self.changes == changes {
            self.segments.rewind(mark);
            self.segments.push(message.full);
        } else {
            self.segments.close(&mut self.machine.memory, mark, message.tag);
        }
    }

    /// Runs the rules on a resource or scope. Returns its fate if they dropped it.
    fn run_on_group(
        &mut self,
        context: StatementContext,
        group: MessageFrame,
        mark: Mark,
    ) -> Result<Option<RecordFate>, Stop> {
        let verdict = self.run_units(context)?;
        if let Some(reason) = self.unlabeled.take() {
            let records = self.count_records(context, group.content)?;
            self.counts.unlabeled[reason.index()] += records;
        }
        match verdict {
            units::Verdict::Retained => Ok(None),
            units::Verdict::OverLimit => {
                self.open_shared(context, group.content)?;
                self.redact_over_limit(context)?;
                Ok(None)
            }
            units::Verdict::Dropped { rule } => {
                let records = self.count_records(context, group.content)?;
                self.note_drop(rule, records);
                self.segments.rewind(mark);
                Ok(Some(RecordFate::Dropped))
            }
        }
    }

    /// Whether rules changed the open resource, scope or metric, or may still do so.
    fn is_own_written(&self, context: StatementContext) -> bool {
        let object = &self.machine.objects[context.index()];
        self.pass.fields(context).is_written
            && (object.is_changed || object.is_schema_url_changed || self.pass.writes_above())
    }

    /// Opens the resource or scope of a group.
    fn open_shared(&mut self, context: StatementContext, group: Ref) -> Result<(), Stop> {
        let fields = *self.pass.fields(context);
        let machine = &mut self.machine;
        if context == StatementContext::Resource {
            machine.buffers.resource_rules.clear();
        }
        let object = &mut machine.objects[context.index()];
        object.clear(context.attributes(0), 0);
        let bytes = machine.memory.get(group);
        let mut cursor = Cursor::new(bytes);
        while let Some(tag) = cursor.tag()? {
            if tag == u32::from(FIRST) {
                let message = group.locate(bytes, cursor.bytes()?);
                object.read(&machine.memory, message, fields.masks[0])?;
            } else if tag == u32::from(THIRD) {
                object.schema_url = group.locate(bytes, cursor.bytes()?);
            } else {
                cursor.skip(tag)?;
            }
        }
        Ok(())
    }

    /// Writes a resource or scope and the other fields of its group that are neither records nor
    /// groups, at the position that was left for them.
    fn fill_shared(
        &mut self,
        context: StatementContext,
        group: Ref,
        own: Mark,
    ) -> Result<(), Stop> {
        let (mut sealed, received_bytes) = self.seal_shared(context, group)?;
        if !self.verify_shared(context, (sealed.len(), received_bytes), group) {
            self.open_shared(context, group)?;
            self.redact_over_limit(context)?;
            (sealed, _) = self.seal_shared(context, group)?;
        }
        self.segments.fill(own, sealed);
        let object = &self.machine.objects[context.index()];
        self.changes += u64::from(object.is_changed || object.is_schema_url_changed);
        Ok(())
    }

    /// Returns a resource or scope and the other fields of its group that are neither records nor
    /// groups, as one range, and how long they were when they were received.
    fn seal_shared(&mut self, context: StatementContext, group: Ref) -> Result<(Ref, usize), Stop> {
        let object = &self.machine.objects[context.index()];
        let is_changed = object.is_changed;
        let is_url_changed = object.is_schema_url_changed;
        let schema_url = object.schema_url;
        let part = self.segments.open();
        if is_changed {
            let message = self.segments.open();
            object.emit(&mut self.machine.memory, self.segments, 0);
            self.segments.close(&mut self.machine.memory, message, FIRST);
        }
        let mut received_bytes = 0;
        let mut reader = FieldReader::new(group);
        while let Some((tag, message)) = reader.next_field(&self.machine)? {
            if tag == u32::from(SECOND) {
                continue;
            }
            received_bytes += message.full.len();
            let is_replaced = match tag {
                _ if tag == u32::from(FIRST) => is_changed,
                _ if tag == u32::from(THIRD) => is_url_changed,
                _ => false,
            };
            if !is_replaced {
                self.segments.push(message.full);
            }
        }
        if is_url_changed {
            let start = self.machine.memory.mark();
            self.machine.memory.put_byte(THIRD);
            self.machine.memory.put_varint(schema_url.len() as u64);
            let header = self.machine.memory.since(start);
            self.segments.push(header);
            self.segments.push(schema_url);
        }
        Ok((self.segments.seal(&mut self.machine.memory, part), received_bytes))
    }

    /// Checks the limits of an object that rules may have changed at any time since it was opened,
    /// and counts it if it exceeds them. `lengths` are those of the object's own fields with what
    /// surrounds them, now and as received. Its message ends where `message` does.
    fn verify_shared(
        &mut self,
        context: StatementContext,
        lengths: (usize, usize),
        message: Ref,
    ) -> bool {
        let object = &self.machine.objects[context.index()];
        if !object.is_changed && !object.is_schema_url_changed {
            return true;
        }
        let (length, received_bytes) = lengths;
        self.machine.has_new_structure = true;
        let is_within = self.machine.verify(context).is_ok()
            && (length <= received_bytes || self.fits(self.segments.bytes() + length, message));
        self.counts.over_limit += u64::from(!is_within);
        is_within
    }

    /// Whether the output stays within the caller's limit if its first `bytes` bytes end where
    /// `message` does.
    fn fits(&self, bytes: usize, message: Ref) -> bool {
        /// The tags and lengths of the enclosing messages, at most four, which are written later.
        const HEADERS_BYTES: usize = 32;
        let rest = self.input_len.saturating_sub(message.end());
        bytes + self.pending_bytes + rest + HEADERS_BYTES <= self.limit_bytes
    }

    /// Counts a dropped or routed object.
    fn note_drop(&mut self, rule: usize, records: u64) {
        self.changes += 1;
        if let Some(counts) = self.counts.rules.get_mut(rule) {
            if self.pass.route().is_some() {
                counts.routed_records += records;
            } else {
                counts.dropped += 1;
                counts.dropped_records += records;
            }
        }
    }

    /// Returns the number of records in a message.
    fn count_records(&self, context: StatementContext, content: Ref) -> Result<u64, Stop> {
        let inner = match (context, self.signal) {
            (StatementContext::Resource, _) => StatementContext::Scope,
            (StatementContext::Scope, Signal::Logs) => StatementContext::Log,
            (StatementContext::Scope, Signal::Traces) => StatementContext::Span,
            (StatementContext::Scope, Signal::Metrics) => StatementContext::Metric,
            (StatementContext::Metric, _) => StatementContext::Data,
            (StatementContext::Data, _) => StatementContext::DataPoint,
            _ => return Ok(1),
        };
        let mut reader = FieldReader::new(content);
        let mut records = 0;
        while let Some((tag, message)) = reader.next_field(&self.machine)? {
            let is_inner = match context {
                StatementContext::Metric => metrics::shape(tag).is_some(),
                StatementContext::Data => tag == u32::from(FIRST),
                _ => tag == u32::from(SECOND),
            };
            if is_inner {
                records += self.count_records(inner, message.content)?;
            }
        }
        Ok(records)
    }
}
