//! Walks log records, spans and their events.

use millrace_wire::Signal;

use crate::edit::memory::Ref;
use crate::edit::segments::Mark;
use crate::ottl::context::StatementContext;
use crate::walk::units::Verdict;
use crate::walk::{MessageFrame, RecordFate, Stop, Walk};

/// The number of a span's events.
const EVENTS: u32 = 11;

impl Walk<'_> {
    /// Walks a log record, span or metric.
    #[inline]
    pub(super) fn record(&mut self, record: MessageFrame) -> Result<RecordFate, Stop> {
        match self.signal {
            Signal::Logs => self.leaf(StatementContext::Log, record, 0),
            Signal::Traces => self.span(record),
            Signal::Metrics => self.metric(record),
        }
    }

    /// Walks a log record or data point.
    #[inline]
    pub(super) fn leaf(
        &mut self,
        context: StatementContext,
        record: MessageFrame,
        shape: usize,
    ) -> Result<RecordFate, Stop> {
        let mark = self.machine.memory.mark();
        self.open(context, record.content, shape, 0)?;
        self.machine.record = record.content;
        let is_within = match self.run_units(context)? {
            Verdict::Retained => self.emit(context, record, mark),
            Verdict::Dropped { rule } => {
                self.note_drop(rule, 1);
                self.free(mark);
                return Ok(RecordFate::Dropped);
            }
            Verdict::OverLimit => false,
        };
        if !is_within {
            self.emit_over_limit(context, record, shape, mark)?;
        }
        Ok(RecordFate::Retained)
    }

    /// Opens an object: reads the fields that rules use, and those in `more`.
    #[inline]
    pub(super) fn open(
        &mut self,
        context: StatementContext,
        content: Ref,
        shape: usize,
        more: u64,
    ) -> Result<(), Stop> {
        let machine = &mut self.machine;
        machine.has_new_structure = false;
        let object = &mut machine.objects[context.index()];
        object.clear(context.attributes(shape), shape);
        let needed = self.pass.fields(context).masks[shape] | more;
        Ok(object.read(&machine.memory, content, needed)?)
    }

    /// Adds a record to the output: as it was received if rules didn't change it. Returns false if
    /// it exceeds a limit, and adds nothing then. Its new values are in the memory from `mark` on.
    #[inline]
    fn emit(&mut self, context: StatementContext, record: MessageFrame, mark: usize) -> bool {
        if !self.machine.objects[context.index()].is_changed {
            self.emit_unchanged(record, mark);
            return true;
        }
        if self.machine.verify(context).is_err() {
            self.counts.over_limit += 1;
            return false;
        }
        let message = self.emit_changed(context, record);
        let length = self.segments.bytes() - message.bytes();
        if length > record.full.len() && !self.fits(self.segments.bytes(), record.full) {
            self.segments.rewind(message);
            self.counts.over_limit += 1;
            return false;
        }
        self.changes += 1;
        true
    }

    fn emit_changed(&mut self, context: StatementContext, record: MessageFrame) -> Mark {
        let message = self.segments.open();
        let object = &self.machine.objects[context.index()];
        object.emit(&mut self.machine.memory, self.segments, 0);
        self.segments.close(&mut self.machine.memory, message, record.tag);
        message
    }

    /// Adds a record that exceeds a limit after its rules: as it was received, but redacted.
    #[cold]
    fn emit_over_limit(
        &mut self,
        context: StatementContext,
        record: MessageFrame,
        shape: usize,
        mark: usize,
    ) -> Result<(), Stop> {
        if self.pass.redacts() {
            self.free(mark);
            self.machine.is_over_limit = true;
            self.open(context, record.content, shape, self.more(context))?;
            self.redact_over_limit(context)?;
            if context == StatementContext::Span {
                self.events()?;
            }
            self.machine.is_over_limit = false;
        }
        if self.pass.redacts() && self.machine.objects[context.index()].is_changed {
            self.emit_changed(context, record);
            self.changes += 1;
        } else {
            self.emit_unchanged(record, mark);
        }
        Ok(())
    }

    #[inline]
    fn emit_unchanged(&mut self, record: MessageFrame, mark: usize) {
        self.segments.push(record.full);
        self.free(mark);
    }

    /// Frees the new values of a record that isn't part of the output, unless outer objects may
    /// refer to them.
    #[inline]
    fn free(&mut self, mark: usize) {
        if !self.pass.writes_above() {
            self.machine.memory.truncate(mark);
        }
    }

    /// Returns the fields that are read besides those that rules on a context's objects use.
    fn more(&self, context: StatementContext) -> u64 {
        let has_events = context == StatementContext::Span
            && !self.pass.units(StatementContext::SpanEvent).is_empty();
        if has_events { 1 << EVENTS } else { 0 }
    }

    fn span(&mut self, span: MessageFrame) -> Result<RecordFate, Stop> {
        let context = StatementContext::Span;
        let more = self.more(context);
        let mark = self.machine.memory.mark();
        self.open(context, span.content, 0, more)?;
        let is_within = match self.run_units(context)? {
            Verdict::Retained => {
                if more > 0 {
                    self.events()?;
                }
                self.emit(context, span, mark)
            }
            Verdict::Dropped { rule } => {
                self.note_drop(rule, 1);
                self.free(mark);
                return Ok(RecordFate::Dropped);
            }
            Verdict::OverLimit => false,
        };
        if !is_within {
            self.emit_over_limit(context, span, 0, mark)?;
        }
        Ok(RecordFate::Retained)
    }

    /// Walks the events of the open span.
    fn events(&mut self) -> Result<(), Stop> {
        let mut position = 0;
        self.machine.event_index = 0;
        while let Some(field) =
            self.machine.objects[StatementContext::Span.index()].fields.get(position).copied()
        {
            position += 1;
            if field.number != EVENTS {
                continue;
            }
            let changed = self.event(field.value)?;
            self.machine.event_index += 1;
            if let Some(event) = changed {
                let span = &mut self.machine.objects[StatementContext::Span.index()];
                span.replace_field(position - 1, event, event);
            }
        }
        // Events, and rules on them that change the span, add to the span's attributes.
        self.machine.has_new_structure = true;
        Ok(())
    }

    /// Runs the rules on an event. Returns what replaces it, with its tag: nothing if it is
    /// dropped. Absent: it is unchanged.
    fn event(&mut self, event: Ref) -> Result<Option<Ref>, Stop> {
        const TAG: u8 = (EVENTS << 3 | 2) as u8;
        let context = StatementContext::SpanEvent;
        self.open(context, event, 0, 0)?;
        let is_within = match self.run_units(context)? {
            Verdict::Dropped { rule } => {
                self.note_drop(rule, 0);
                return Ok(Some(Ref::EMPTY));
            }
            Verdict::OverLimit => false,
            Verdict::Retained => {
                let is_changed = self.machine.objects[context.index()].is_changed;
                let is_within = !is_changed || self.machine.verify(context).is_ok();
                self.counts.over_limit += u64::from(!is_within);
                is_within
            }
        };
        if !is_within {
            self.open(context, event, 0, 0)?;
            self.redact_over_limit(context)?;
        }
        let is_changed = self.machine.objects[context.index()].is_changed;
        Ok(if is_changed { Some(self.seal_object(context, TAG)) } else { None })
    }

    /// Returns the open object of a context as one range, with a tag.
    pub(super) fn seal_object(&mut self, context: StatementContext, tag: u8) -> Ref {
        let part = self.segments.open();
        let message = self.segments.open();
        let object = &self.machine.objects[context.index()];
        object.emit(&mut self.machine.memory, self.segments, 0);
        self.segments.close(&mut self.machine.memory, message, tag);
        self.segments.seal(&mut self.machine.memory, part)
    }
}
