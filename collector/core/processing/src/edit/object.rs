//! A message that rules read and change: a resource, scope, record, metric, point or event.

use millrace_wire::protobuf::{FieldSpan, LENGTH, WireFault, field_tag};

use crate::edit::encode::{field_len, key_value_len, put_attribute};
use crate::edit::memory::{Memory, Ref};
use crate::edit::segments::Segments;
use crate::edit::slot::Slot;
use crate::error::RuleFailure;

/// A field of a message, or several consecutive ones that no rule reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    /// The field's number; 0 for fields that no rule reads.
    pub(crate) number: u32,
    /// The field with its tag.
    pub(crate) full: Ref,
    /// The content of a length-prefixed field, or a number's bytes.
    pub(crate) value: Ref,
}

/// Returns the position of the first attribute with a key.
#[inline]
pub(crate) fn find_slot(memory: &Memory<'_>, slots: &[Slot], key: Ref) -> Option<usize> {
    let key_bytes = memory.get(key);
    slots.iter().position(|slot| {
        slot.key.len() == key_bytes.len() && same_bytes(memory.get(slot.key), key_bytes)
    })
}

/// Whether two texts are equal. Short ones, as keys are, are compared without a call.
#[inline]
pub(crate) fn same_bytes(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    // The first and last bytes overlap in texts that are no multiple.
    match one.len() {
        8..=16 => {
            one.first_chunk::<8>() == other.first_chunk()
                && one.last_chunk::<8>() == other.last_chunk()
        }
        4..=7 => {
            one.first_chunk::<4>() == other.first_chunk()
                && one.last_chunk::<4>() == other.last_chunk()
        }
        0..=3 => one.iter().eq(other),
        _ => one == other,
    }
}

/// Sets an attribute: the first one with this key, or a new one at the end.
#[inline]
pub(crate) fn put_slot(memory: &Memory<'_>, slots: &mut Vec<Slot>, key: Ref, value: Ref) {
    match find_slot(memory, slots, key) {
        Some(position) => slots[position].set(value),
        None => slots.push(Slot::new(key, value)),
    }
}

/// A message under its rules.
#[derive(Debug, Default)]
pub(crate) struct Object {
    /// Fields in the order of the message, without attributes.
    pub(crate) fields: Vec<Field>,
    /// The attributes, if a rule reads them; otherwise they are fields that no rule reads.
    pub(crate) slots: Vec<Slot>,
    /// The number of fields before the first attribute.
    slots_position: Option<usize>,
    /// The tag of attributes.
    attributes_tag: u8,
    /// The kind of a data point; 0 for all other objects.
    pub(crate) shape: usize,
    /// The schema URL of a resource's or scope's group, if a rule reads it.
    pub(crate) schema_url: Ref,
    pub(crate) is_schema_url_changed: bool,
    /// Whether a rule changed the message.
    pub(crate) is_changed: bool,
}

impl Object {
    /// Removes everything. Retains the allocations.
    pub(crate) fn clear(&mut self, attributes_number: u32, shape: usize) {
        self.fields.clear();
        self.slots.clear();
        self.slots_position = None;
        self.attributes_tag = field_tag(attributes_number, LENGTH) as u8;
        self.shape = shape;
        self.schema_url = Ref::EMPTY;
        self.is_schema_url_changed = false;
        self.is_changed = false;
    }

    /// Reads a message's fields: those whose bit in `needed` is set, by number, one by one, all
    /// others as ranges. Several messages in sequence count as merged.
    pub(crate) fn read(
        &mut self,
        memory: &Memory<'_>,
        message: Ref,
        needed: u64,
    ) -> Result<(), WireFault> {
        let bytes = memory.get(message);
        let attributes_tag = u32::from(self.attributes_tag);
        let reads_attributes = is_needed(needed, attributes_tag >> 3);
        let (mut start, mut unread_start) = (0, 0);
        while start < bytes.len() {
            if reads_attributes
                && let Some(slot) = Slot::read_short(bytes, message, start, self.attributes_tag)
            {
                if start > unread_start {
                    self.put_unread(message.part(unread_start, start - unread_start));
                }
                self.slots_position.get_or_insert(self.fields.len());
                self.slots.push(slot);
                start += slot.raw.len();
                unread_start = start;
                continue;
            }
            let FieldSpan { tag, value_start, end } = FieldSpan::read(bytes, start)?;
            if !is_needed(needed, tag >> 3) {
                start = end;
                continue;
            }
            if start > unread_start {
                self.put_unread(message.part(unread_start, start - unread_start));
            }
            let full = message.part(start, end - start);
            let value = message.part(value_start, end - value_start);
            if tag == attributes_tag {
                self.slots_position.get_or_insert(self.fields.len());
                let content = bytes.get(value_start..end).unwrap_or_default();
                match Slot::parse_common(content, value, full) {
                    Some(slot) => self.slots.push(slot),
                    None => self.slots.push(Slot::parse_any(content, value, full)?),
                }
            } else {
                self.fields.push(Field { number: tag >> 3, full, value });
            }
            (start, unread_start) = (end, end);
        }
        if start > unread_start {
            self.put_unread(message.part(unread_start, start - unread_start));
        }
        Ok(())
    }

    /// Adds fields that no rule reads.
    #[inline]
    fn put_unread(&mut self, full: Ref) {
        self.fields.push(Field { number: 0, full, value: Ref::EMPTY });
    }

    /// Returns the length of the message's content.
    pub(crate) fn content_len(&self) -> usize {
        let slots: usize = self.slots.iter().map(|slot| field_len(key_value_len(slot))).sum();
        let fields: usize = self.fields.iter().map(|field| field.full.len()).sum();
        fields + slots
    }

    /// Returns the value of the last field with a number.
    #[inline]
    pub(crate) fn field(&self, number: u32) -> Option<Ref> {
        self.fields.iter().rev().find(|field| field.number == number).map(|field| field.value)
    }

    /// Returns the number of fields with a number.
    pub(crate) fn count(&self, number: u32) -> usize {
        self.fields.iter().filter(|field| field.number == number).count()
    }

    /// Replaces the last field with a number, or adds one.
    pub(crate) fn put_field(&mut self, number: u32, full: Ref, value: Ref) {
        let field = Field { number, full, value };
        match self.fields.iter_mut().rev().find(|field| field.number == number) {
            Some(known) => *known = field,
            None => self.fields.push(field),
        }
        self.is_changed = true;
    }

    /// Removes all fields with a number.
    pub(crate) fn remove_fields(&mut self, number: u32) {
        for field in self.fields.iter_mut().filter(|field| field.number == number) {
            *field = Field { number: 0, full: Ref::EMPTY, value: Ref::EMPTY };
            self.is_changed = true;
        }
    }

    /// Replaces one field, or removes it if `full` is empty.
    pub(crate) fn replace_field(&mut self, position: usize, full: Ref, value: Ref) {
        if let Some(field) = self.fields.get_mut(position) {
            let number = if full.is_empty() { 0 } else { field.number };
            *field = Field { number, full, value };
            self.is_changed = true;
        }
    }

    /// Returns the message's content as new bytes.
    pub(crate) fn store(&self, memory: &mut Memory<'_>) -> Result<Ref, RuleFailure> {
        memory.reserve(self.content_len())?;
        let mark = memory.mark();
        let slots_position = self.slots_position.unwrap_or(self.fields.len());
        let (before, after) = self.fields.split_at(slots_position.min(self.fields.len()));
        before.iter().for_each(|field| memory.put_ref(field.full));
        for slot in &self.slots {
            if slot.raw.is_empty() {
                let value = put_attribute(memory, self.attributes_tag, slot);
                memory.put_ref(value);
            } else {
                memory.put_ref(slot.raw);
            }
        }
        after.iter().for_each(|field| memory.put_ref(field.full));
        Ok(memory.since(mark))
    }

    /// Adds the message's content to the output, without the fields whose bit in `skipped` is set.
    pub(crate) fn emit(&self, memory: &mut Memory<'_>, out: &mut Segments, skipped: u64) {
        let slots_position = self.slots_position.unwrap_or(self.fields.len());
        for (position, field) in self.fields.iter().enumerate() {
            if position == slots_position {
                self.emit_slots(memory, out);
            }
            if field.number == 0 || !is_needed(skipped, field.number) {
                out.push(field.full);
            }
        }
        if slots_position >= self.fields.len() {
            self.emit_slots(memory, out);
        }
    }

    fn emit_slots(&self, memory: &mut Memory<'_>, out: &mut Segments) {
        // Adjacent attributes that were received as they are.
        let mut run = Ref::EMPTY;
        for slot in &self.slots {
            if slot.raw.is_empty() {
                out.push(run);
                run = Ref::EMPTY;
                let mark = memory.mark();
                let value = put_attribute(memory, self.attributes_tag, slot);
                out.push(memory.since(mark));
                out.push(value);
            } else if let Some(joined) = run.join(slot.raw) {
                run = joined;
            } else {
                out.push(run);
                run = slot.raw;
            }
        }
        out.push(run);
    }
}

#[inline]
fn is_needed(mask: u64, number: u32) -> bool {
    number < u64::BITS && mask >> number & 1 == 1
}
