//! Checks that a changed record stays within what readers accept.

use millrace_wire::limits::{ATTRIBUTES, NESTING_DEPTH, RECORD_MEMBERS};
use millrace_wire::protobuf::Cursor;

use crate::edit::encode::{Members, parse_any};
use crate::edit::memory::Ref;
use crate::edit::object::Object;
use crate::edit::slot::Slot;
use crate::error::RuleFailure;
use crate::eval::Machine;
use crate::ottl::context::StatementContext;
use crate::value::Value;

impl Machine<'_> {
    /// Checks the number of attributes of an object, and the depth of its values if rules stored
    /// lists or maps.
    pub(crate) fn verify(&self, context: StatementContext) -> Result<(), RuleFailure> {
        let object: &Object = &self.objects[context.index()];
        let mut members = object.slots.len() as u32;
        if self.has_new_structure {
            for slot in &object.slots {
                members += self.members(slot.value, 0)?;
            }
            if context == StatementContext::Log
                && let Some(body) = object.field(5)
            {
                self.members(body, 0)?;
            }
        }
        if members > ATTRIBUTES
            || (context == StatementContext::Span
                && self.event_attributes(object)? > RECORD_MEMBERS)
        {
            return Err(RuleFailure::TooDeep);
        }
        Ok(())
    }

    /// Returns the number of attributes of the open span's events and links.
    fn event_attributes(&self, span: &Object) -> Result<u32, RuleFailure> {
        /// The numbers of events, links and their attributes, with the tag of the latter.
        const PARTS: [(u32, u32); 2] = [(11, 0x1a), (13, 0x22)];
        if !self.has_new_structure {
            return Ok(0);
        }
        let mut count = 0;
        for field in &span.fields {
            let part = PARTS.iter().find(|(number, _)| *number == field.number);
            let Some((_, attribute_tag)) = part else { continue };
            // The field's own tag takes one byte.
            let mut full = Cursor::new(self.memory.get(field.full));
            full.tag()?;
            let mut cursor = Cursor::new(full.bytes()?);
            while let Some(tag) = cursor.tag()? {
                cursor.skip(tag)?;
                count += u32::from(tag == *attribute_tag);
            }
        }
        Ok(count)
    }

    /// Returns the number of members of maps in a value.
    fn members(&self, any: Ref, depth: u32) -> Result<u32, RuleFailure> {
        let (container, is_map) = match parse_any(&self.memory, any)? {
            Value::List(list) => (list, false),
            Value::Map(map) => (map, true),
            _ => return Ok(0),
        };
        if depth >= NESTING_DEPTH {
            return Err(RuleFailure::TooDeep);
        }
        let mut count = 0;
        let mut members = Members::new(&self.memory, container);
        while let Some(member) = members.next_member()? {
            let value = if is_map {
                count += 1;
                Slot::parse(self.memory.get(member), member, Ref::EMPTY)?.value
            } else {
                member
            };
            count += self.members(value, depth + 1)?;
            if count > ATTRIBUTES {
                return Err(RuleFailure::TooDeep);
            }
        }
        Ok(count)
    }
}
