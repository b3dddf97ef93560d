//! Reads and changes members inside of lists and maps.

use crate::edit::encode::{
    Members, find_member, load_map, parse_any, put_element, put_member, store_any, store_map,
};
use crate::edit::memory::{Memory, Ref};
use crate::edit::object::put_slot;
use crate::edit::slot::Slot;
use crate::error::RuleFailure;
use crate::eval::Machine;
use crate::limits::LIST_LEN;
use crate::program::Key;
use crate::value::Value;

impl Machine<'_> {
    /// Returns the member that `keys` name in a value; `None` if a map doesn't have a key.
    pub(in crate::eval) fn nested(
        &mut self,
        any: Ref,
        keys: &[Key],
    ) -> Result<Option<Ref>, RuleFailure> {
        let mut any = any;
        for key in keys {
            any = match parse_any(&self.memory, any)? {
                Value::Map(map) => {
                    let key = self.text_key(key)?;
                    match find_member(&self.memory, map, key)? {
                        Some(member) => member,
                        None => return Ok(None),
                    }
                }
                Value::List(list) => {
                    let index = self.index_key(key)?;
                    element(&self.memory, list, index)?
                }
                other => return Err(RuleFailure::NotIndexable { found: other.type_name() }),
            };
        }
        Ok(Some(any))
    }

    /// Returns the member that `keys` name in a converter's result.
    pub(in crate::eval) fn member(
        &mut self,
        value: Value,
        keys: &[Key],
    ) -> Result<Value, RuleFailure> {
        let mut value = value;
        for key in keys {
            let any = match (self.key(key)?, value) {
                (Value::Str(key), Value::Map(map)) => {
                    find_member(&self.memory, map, key)?.ok_or(RuleFailure::Key)?
                }
                (Value::Int(index), Value::List(list)) => element(&self.memory, list, index)?,
                (Value::Str(_) | Value::Int(_), other) => {
                    return Err(RuleFailure::NotIndexable { found: other.type_name() });
                }
                _ => return Err(RuleFailure::KeyType),
            };
            value = parse_any(&self.memory, any)?;
        }
        Ok(value)
    }

    fn key(&mut self, key: &Key) -> Result<Value, RuleFailure> {
        match key {
            Key::Text(text) => Ok(Value::Str(*text)),
            Key::Index(index) => Ok(Value::Int(*index)),
            Key::Computed(expr) => self.eval(expr),
        }
    }

    fn index_key(&mut self, key: &Key) -> Result<i64, RuleFailure> {
        match self.key(key)? {
            Value::Int(index) => Ok(index),
            _ => Err(RuleFailure::KeyType),
        }
    }

    /// Returns a copy of a value in which the member that `keys` name is `new`.
    pub(in crate::eval) fn with_nested(
        &mut self,
        any: Ref,
        keys: &[Key],
        new: Ref,
    ) -> Result<Ref, RuleFailure> {
        let Some((key, keys)) = keys.split_first() else { return Ok(new) };
        let changed = match parse_any(&self.memory, any)? {
            Value::Map(map) => {
                let key = self.text_key(key)?;
                let member = find_member(&self.memory, map, key)?.unwrap_or_default();
                let member = self.with_nested(member, keys, new)?;
                Value::Map(self.with_member(map, key, member)?)
            }
            Value::List(list) => {
                let index = self.index_key(key)?;
                let member = element(&self.memory, list, index)?;
                let member = self.with_nested(member, keys, new)?;
                Value::List(self.with_element(list, index, member)?)
            }
            Value::Nil => match self.key(key)? {
                Value::Str(key) => {
                    let member = self.with_nested(Ref::EMPTY, keys, new)?;
                    let mark = self.memory.mark();
                    put_member(&mut self.memory, &Slot::new(key, member))?;
                    Value::Map(self.memory.since(mark))
                }
                Value::Int(index) if index < LIST_LEN => {
                    let member = self.with_nested(Ref::EMPTY, keys, new)?;
                    let mark = self.memory.mark();
                    for _ in 0..index {
                        put_element(&mut self.memory, Ref::EMPTY)?;
                    }
                    put_element(&mut self.memory, member)?;
                    Value::List(self.memory.since(mark))
                }
                Value::Int(_) => return Err(RuleFailure::Index),
                _ => return Err(RuleFailure::KeyType),
            },
            other => return Err(RuleFailure::NotIndexable { found: other.type_name() }),
        };
        store_any(&mut self.memory, changed)
    }

    fn with_member(&mut self, map: Ref, key: Ref, member: Ref) -> Result<Ref, RuleFailure> {
        let mut slots = std::mem::take(&mut self.buffers.slots);
        slots.clear();
        let stored =
            load_map(&self.memory, map, &mut slots).map_err(RuleFailure::from).and_then(|()| {
                put_slot(&self.memory, &mut slots, key, member);
                store_map(&mut self.memory, &slots)
            });
        self.buffers.slots = slots;
        stored
    }

    fn with_element(&mut self, list: Ref, index: i64, member: Ref) -> Result<Ref, RuleFailure> {
        let first = self.buffers.refs.len();
        let mut members = Members::new(&self.memory, list);
        while let Some(any) = members.next_member()? {
            self.buffers.refs.push(any);
        }
        if let Ok(index) = usize::try_from(index)
            && let Some(changed) = self.buffers.refs.get_mut(first + index)
        {
            *changed = member;
        }
        self.store_list(first)
    }
}

/// Returns an element of a list.
fn element(memory: &Memory<'_>, list: Ref, index: i64) -> Result<Ref, RuleFailure> {
    let mut members = Members::new(memory, list);
    let mut position = 0;
    while let Some(any) = members.next_member()? {
        if position == index {
            return Ok(any);
        }
        position += 1;
    }
    Err(RuleFailure::Index)
}
