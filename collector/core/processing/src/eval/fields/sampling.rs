//! Reads and writes what the open span or log record carries about sampling.

use crate::edit::encode::{parse_any, store_any};
use crate::edit::memory::Ref;
use crate::edit::object::{find_slot, put_slot};
use crate::error::RuleFailure;
use crate::eval::Machine;
use crate::ottl::context::StatementContext;
use crate::program::SampleStep;
use crate::sample::{Randomness, SamplingItem, Threshold, TraceState};
use crate::value::Value;

/// The numbers of a span's trace id and trace state, and of a log record's trace id.
const SPAN_TRACE_ID: u32 = 1;
const TRACE_STATE: u32 = 3;
const LOG_TRACE_ID: u32 = 9;

/// Randomness that is written with the threshold, as nothing else in the record has it.
type HashedRandomness = Option<Randomness>;

impl Machine<'_> {
    /// Returns what the open span or log record carries.
    pub(crate) fn sampling_item(
        &self,
        context: StatementContext,
        step: &SampleStep,
    ) -> (SamplingItem, HashedRandomness) {
        if context == StatementContext::Span {
            return (self.span_item(), None);
        }
        let incoming = self.attribute_text(step.keys.threshold).and_then(Threshold::parse);
        let explicit = self.attribute_text(step.keys.randomness).and_then(Randomness::parse);
        let object = &self.objects[context.index()];
        let own = explicit.or_else(|| {
            let trace_id = object.field(LOG_TRACE_ID)?;
            Randomness::from_trace_id(self.memory.get(trace_id))
        });
        let hashed = if own.is_none() { Some(self.hashed_randomness(step)) } else { None };
        (SamplingItem { randomness: own.or(hashed), incoming }, hashed)
    }

    fn span_item(&self) -> SamplingItem {
        let span = &self.objects[StatementContext::Span.index()];
        let state = self.trace_state();
        let randomness = state.randomness().or_else(|| {
            let trace_id = span.field(SPAN_TRACE_ID)?;
            Randomness::from_trace_id(self.memory.get(trace_id))
        });
        SamplingItem { randomness, incoming: state.threshold() }
    }

    /// Returns the open span's trace state. As W3C says, a malformed one is discarded.
    fn trace_state(&self) -> TraceState<'_> {
        let span = &self.objects[StatementContext::Span.index()];
        let state = span.field(TRACE_STATE).unwrap_or_default();
        TraceState::parse(self.memory.get(state)).unwrap_or_default()
    }

    /// Returns the text of the open log record's attribute.
    fn attribute_text(&self, key: Ref) -> Option<&[u8]> {
        self.text_attribute(StatementContext::Log, key)
    }

    /// Returns the text of an attribute; absent if it is of another type.
    pub(crate) fn text_attribute(&self, context: StatementContext, key: Ref) -> Option<&[u8]> {
        let slots = &self.objects[context.index()].slots;
        let position = find_slot(&self.memory, slots, key)?;
        match parse_any(&self.memory, slots[position].value) {
            Ok(Value::Str(text)) => Some(self.memory.get(text)),
            _ => None,
        }
    }

    /// Returns the randomness of a log record that states none: of the attribute that the
    /// step names, else of the record as this walk received it.
    fn hashed_randomness(&self, step: &SampleStep) -> Randomness {
        let slots = &self.objects[StatementContext::Log.index()].slots;
        let position = step.hashed_attribute.and_then(|key| find_slot(&self.memory, slots, key));
        let hashed = match position.map(|position| slots[position].value) {
            Some(any) if !any.is_empty() => match parse_any(&self.memory, any) {
                Ok(Value::Str(text)) => text,
                _ => any,
            },
            _ => self.record,
        };
        Randomness::from_bytes(step.seed, self.memory.get(hashed))
    }

    /// Writes the threshold at which the open span or log record was sampled, or removes it.
    pub(crate) fn write_threshold(
        &mut self,
        context: StatementContext,
        step: &SampleStep,
        threshold: Option<Threshold>,
        hashed: HashedRandomness,
    ) -> Result<(), RuleFailure> {
        let index = context.index();
        if context == StatementContext::Span {
            let mut out = std::mem::take(&mut self.buffers.text);
            out.clear();
            self.trace_state().write(threshold, &mut out);
            let stored = self.memory.store(&out);
            self.buffers.text = out;
            return self.put_bytes(index, TRACE_STATE, stored?);
        }
        let Some(threshold) = threshold else {
            let slots = &mut self.objects[index].slots;
            while let Some(position) = find_slot(&self.memory, slots, step.keys.threshold) {
                slots.remove(position);
            }
            self.objects[index].is_changed = true;
            return Ok(());
        };
        if let Some(randomness) = hashed {
            self.put_text(index, step.keys.randomness, randomness.to_digits().as_bytes())?;
        }
        self.put_text(index, step.keys.threshold, threshold.to_digits().as_bytes())
    }

    fn put_text(&mut self, index: usize, key: Ref, text: &[u8]) -> Result<(), RuleFailure> {
        let text = self.memory.store(text)?;
        let any = store_any(&mut self.memory, Value::Str(text))?;
        let object = &mut self.objects[index];
        put_slot(&self.memory, &mut object.slots, key, any);
        object.is_changed = true;
        Ok(())
    }
}
