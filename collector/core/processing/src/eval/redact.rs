//! Redacts the open object of a context.

use crate::counts::RuleCounts;
use crate::edit::encode::{MemberReader, parse_any, put_element, store_any, store_map};
use crate::edit::memory::Ref;
use crate::edit::slot::Slot;
use crate::error::RuleFailure;
use crate::eval::Machine;
use crate::eval::fields::Status;
use crate::eval::json::write::Style;
use crate::ottl::context::StatementContext;
use crate::program::RedactStep;
use crate::redact::{Growth, KeyDecision, Redaction};
use crate::value::Value;
use millrace_wire::limits::NESTING_DEPTH;

/// What becomes of a text or value.
#[derive(Clone, Copy, Debug)]
enum ValueFate {
    Unchanged,
    Changed(Ref),
    Removed,
}

/// Redaction of one object.
pub(crate) struct ObjectRedaction<'a, 'r> {
    machine: &'a mut Machine<'r>,
    step: &'a RedactStep,
    /// The counters of the step's rules.
    counts: &'a mut [RuleCounts],
    /// The rules that changed the object, as bits.
    changed_rules: u128,
    growth: Growth,
}

impl<'a, 'r> ObjectRedaction<'a, 'r> {
    pub(crate) fn new(
        machine: &'a mut Machine<'r>,
        step: &'a RedactStep,
        counts: &'a mut [RuleCounts],
    ) -> Self {
        let growth = if machine.is_over_limit { Growth::Refused } else { Growth::Permitted };
        Self { machine, step, counts, changed_rules: 0, growth }
    }

    /// Redacts the open object of a context.
    ///
    /// # Errors
    /// If the object is malformed or exceeds a limit; never the latter if growth is refused.
    pub(crate) fn run(mut self, context: StatementContext) -> Result<(), RuleFailure> {
        self.machine.buffers.slots.clear();
        self.slots(context)?;
        match context {
            StatementContext::Log => {
                self.fields(context, 5, |this, body| this.value(body, 0))?;
                self.fields(context, 12, Self::text)?;
            }
            StatementContext::Span => {
                self.fields(context, 5, Self::text)?;
                self.fields(context, 13, |this, link| this.part(StatementContext::Link, link))?;
                self.fields(context, 15, Self::status)?;
            }
            StatementContext::SpanEvent => self.fields(context, 2, Self::text)?,
            StatementContext::DataPoint => {
                let shape = self.machine.objects[context.index()].shape;
                let number = [5, 8, 11, 0][shape];
                self.fields(context, number, |this, exemplar| {
                    this.part(StatementContext::Exemplar, exemplar)
                })?;
            }
            _ => {}
        }
        while self.changed_rules != 0 {
            let rule = self.changed_rules.trailing_zeros() as usize;
            self.changed_rules &= self.changed_rules - 1;
            if let Some(counts) = self.counts.get_mut(rule) {
                counts.changed += 1;
            }
        }
        Ok(())
    }

    fn count(&mut self, rule: usize) {
        self.changed_rules |= 1 << rule;
        if let Some(counts) = self.counts.get_mut(rule) {
            counts.matched += 1;
        }
    }

    /// A value for whose replacement there is no memory is removed if the object has to be redacted
    /// nevertheless.
    fn settle(&self, fate: Result<ValueFate, RuleFailure>) -> Result<ValueFate, RuleFailure> {
        match fate {
            Err(error) if error.is_limit() && self.growth == Growth::Refused => {
                Ok(ValueFate::Removed)
            }
            fate => fate,
        }
    }

    /// Redacts an object's attributes.
    fn slots(&mut self, context: StatementContext) -> Result<(), RuleFailure> {
        let index = context.index();
        let count = self.machine.objects[index].slots.len();
        let mut retained = 0;
        for position in 0..count {
            let mut slot = self.machine.objects[index].slots[position];
            let fate = match self.step.redactor.decide_key(self.machine.memory.get(slot.key)) {
                KeyDecision::Scan => self.value(slot.value, 0),
                KeyDecision::Ignore => Ok(ValueFate::Unchanged),
                KeyDecision::Block => self.blocked(slot.value),
                KeyDecision::Remove => {
                    self.count(self.step.removed_rule);
                    Ok(ValueFate::Removed)
                }
            };
            match self.settle(fate)? {
                ValueFate::Unchanged if retained == position => {
                    retained += 1;
                    continue;
                }
                ValueFate::Unchanged => {}
                ValueFate::Changed(value) => {
                    slot.set(value);
                    self.machine.objects[index].is_changed = true;
                }
                ValueFate::Removed => {
                    self.machine.objects[index].is_changed = true;
                    continue;
                }
            }
            self.machine.objects[index].slots[retained] = slot;
            retained += 1;
        }
        self.machine.objects[index].slots.truncate(retained);
        Ok(())
    }

    /// Redacts all occurrences of a field: readers differ in which one counts.
    fn fields(
        &mut self,
        context: StatementContext,
        number: u32,
        redact: impl Fn(&mut Self, Ref) -> Result<ValueFate, RuleFailure>,
    ) -> Result<(), RuleFailure> {
        let index = context.index();
        let mut position = 0;
        while let Some(field) = self.machine.objects[index].fields.get(position).copied() {
            if number > 0 && field.number == number {
                let fate = redact(self, field.value);
                let fate = self.settle(fate)?;
                self.replace_field(index, position, number, fate)?;
            }
            position += 1;
        }
        Ok(())
    }

    fn replace_field(
        &mut self,
        index: usize,
        position: usize,
        number: u32,
        fate: ValueFate,
    ) -> Result<(), RuleFailure> {
        let (full, value) = match fate {
            ValueFate::Unchanged => return Ok(()),
            ValueFate::Removed => (Ref::EMPTY, Ref::EMPTY),
            ValueFate::Changed(value) => {
                let full = self.machine.store_field(number, value);
                match self.settle(full.map(ValueFate::Changed))? {
                    ValueFate::Changed(full) => {
                        (full, full.part(full.len() - value.len(), value.len()))
                    }
                    _ => (Ref::EMPTY, Ref::EMPTY),
                }
            }
        };
        self.machine.objects[index].replace_field(position, full, value);
        Ok(())
    }

    /// Redacts a text.
    fn text(&mut self, text: Ref) -> Result<ValueFate, RuleFailure> {
        let redactor = &self.step.redactor;
        let buffers = &mut *self.machine.buffers;
        buffers.text.clear();
        let bytes = self.machine.memory.get(text);
        let redaction =
            redactor.rewrite(bytes, self.growth, &mut buffers.redact, &mut buffers.text);
        if redaction == Redaction::Unchanged {
            return Ok(ValueFate::Unchanged);
        }
        for position in 0..self.machine.buffers.redact.hits().len() {
            self.count(self.machine.buffers.redact.hits()[position].detector());
        }
        self.stored(redaction)
    }

    /// Stores a redacted text.
    fn stored(&mut self, redaction: Redaction) -> Result<ValueFate, RuleFailure> {
        match redaction {
            Redaction::Unchanged => Ok(ValueFate::Unchanged),
            Redaction::Changed => {
                self.machine.memory.store(&self.machine.buffers.text).map(ValueFate::Changed)
            }
            Redaction::Drop => Ok(ValueFate::Removed),
        }
    }

    /// Redacts the texts in an `AnyValue` message.
    fn value(&mut self, any: Ref, depth: u32) -> Result<ValueFate, RuleFailure> {
        if depth > NESTING_DEPTH {
            return Err(RuleFailure::TooDeep);
        }
        let value = parse_any(&self.machine.memory, any)?;
        let fate = match value {
            Value::Str(text) | Value::Bytes(text) => self.text(text)?,
            Value::List(list) => self.members(list, depth, false)?,
            Value::Map(map) => self.members(map, depth, true)?,
            _ => ValueFate::Unchanged,
        };
        let ValueFate::Changed(content) = fate else { return Ok(fate) };
        let changed = match value {
            Value::Bytes(_) => Value::Bytes(content),
            Value::List(_) => Value::List(content),
            Value::Map(_) => Value::Map(content),
            _ => Value::Str(content),
        };
        store_any(&mut self.machine.memory, changed).map(ValueFate::Changed)
    }

    /// Redacts the members of a list or map.
    fn members(
        &mut self,
        container: Ref,
        depth: u32,
        is_map: bool,
    ) -> Result<ValueFate, RuleFailure> {
        let first = self.machine.buffers.slots.len();
        let mut is_changed = false;
        let mut reader = MemberReader::new(container);
        while let Some(member) = reader.next_member(&self.machine.memory)? {
            let mut slot = if is_map {
                Slot::parse(self.machine.memory.get(member), member, Ref::EMPTY)?
            } else {
                Slot::new(Ref::EMPTY, member)
            };
            let key = self.machine.memory.get(slot.key);
            let fate = match self.step.redactor.decide_member(key) {
                KeyDecision::Ignore if is_map => Ok(ValueFate::Unchanged),
                KeyDecision::Block if is_map => self.blocked(slot.value),
                _ => self.value(slot.value, depth + 1),
            };
            match self.settle(fate)? {
                ValueFate::Unchanged => {}
                ValueFate::Changed(value) => {
                    slot.value = value;
                    is_changed = true;
                }
                ValueFate::Removed => {
                    is_changed = true;
                    continue;
                }
            }
            self.machine.buffers.slots.push(slot);
        }
        let stored = if is_changed { Some(self.store_members(first, is_map)) } else { None };
        self.machine.buffers.slots.truncate(first);
        Ok(stored.transpose()?.map_or(ValueFate::Unchanged, ValueFate::Changed))
    }

    fn store_members(&mut self, first: usize, is_map: bool) -> Result<Ref, RuleFailure> {
        let slots = &self.machine.buffers.slots[first..];
        let memory = &mut self.machine.memory;
        if is_map {
            return store_map(memory, slots);
        }
        let mark = memory.mark();
        for slot in slots {
            put_element(memory, slot.value)?;
        }
        Ok(memory.since(mark))
    }

    /// Redacts an entire value. A value that is no text becomes one.
    fn blocked(&mut self, any: Ref) -> Result<ValueFate, RuleFailure> {
        let value = parse_any(&self.machine.memory, any)?;
        let text = match value {
            Value::Nil => return Ok(ValueFate::Unchanged),
            Value::Str(text) | Value::Bytes(text) => text,
            // Another type may take more bytes as text.
            _ if self.growth == Growth::Refused => Ref::EMPTY,
            other => match self.machine.text_of(other, Style::ATTRIBUTES) {
                // Infinite numbers have no text.
                Err(RuleFailure::Text(_)) => any,
                text => text?,
            },
        };
        self.count(self.step.blocked_rule);
        let is_text = matches!(value, Value::Str(_) | Value::Bytes(_));
        if self.growth == Growth::Refused && !is_text {
            return Ok(ValueFate::Removed);
        }
        let out = &mut self.machine.buffers.text;
        out.clear();
        let bytes = self.machine.memory.get(text);
        let redaction = self.step.redactor.rewrite_blocked(bytes, self.growth, out);
        let ValueFate::Changed(content) = self.stored(redaction)? else {
            return Ok(ValueFate::Removed);
        };
        let changed = match value {
            Value::Bytes(_) => Value::Bytes(content),
            _ => Value::Str(content),
        };
        store_any(&mut self.machine.memory, changed).map(ValueFate::Changed)
    }

    /// Redacts the attributes of a link or exemplar.
    fn part(&mut self, part: StatementContext, message: Ref) -> Result<ValueFate, RuleFailure> {
        let number = part.attributes(0);
        let object = &mut self.machine.objects[part.index()];
        object.clear(number, 0);
        object.read(&self.machine.memory, message, 1 << number)?;
        self.slots(part)?;
        let object = &self.machine.objects[part.index()];
        if object.is_changed {
            object.store(&mut self.machine.memory).map(ValueFate::Changed)
        } else {
            Ok(ValueFate::Unchanged)
        }
    }

    /// Redacts a span status' message.
    fn status(&mut self, status: Ref) -> Result<ValueFate, RuleFailure> {
        let mut status = Status::read(&self.machine.memory, Some(status))?;
        let fate = self.text(status.message);
        status.message = match self.settle(fate)? {
            ValueFate::Unchanged => return Ok(ValueFate::Unchanged),
            ValueFate::Changed(message) => message,
            ValueFate::Removed => Ref::EMPTY,
        };
        self.machine.store_status(status).map(ValueFate::Changed)
    }
}
