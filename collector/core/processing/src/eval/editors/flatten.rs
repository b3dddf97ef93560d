//! Flattens maps: members of inner maps and lists become members with longer keys.

use std::collections::HashMap;

use crate::edit::encode::{Members, load_map, parse_any};
use crate::edit::memory::{Memory, Ref};
use crate::edit::slot::Slot;
use crate::error::RuleFailure;
use crate::eval::editors::maps::KeyIndex;
use crate::value::Value;

/// A map while it is flattened.
pub(in crate::eval) struct Flatten<'m, 'a> {
    memory: &'m mut Memory<'a>,
    out: Vec<Slot>,
    index: KeyIndex,
    /// How often a key was found again.
    conflicts: HashMap<Vec<u8>, u64>,
    resolves_conflicts: bool,
    max_depth: i64,
    has_changed: bool,
}

/// Replaces `slots` by their flattened form. Returns whether that differs.
pub(in crate::eval) fn flatten(
    memory: &mut Memory<'_>,
    slots: &mut Vec<Slot>,
    prefix: &[u8],
    max_depth: i64,
    resolves_conflicts: bool,
) -> Result<bool, RuleFailure> {
    let mut flatten = Flatten {
        memory,
        out: Vec::with_capacity(slots.len()),
        index: KeyIndex::default(),
        conflicts: HashMap::new(),
        resolves_conflicts,
        max_depth,
        has_changed: !prefix.is_empty(),
    };
    let mut start = prefix.to_vec();
    if !prefix.is_empty() {
        start.push(b'.');
    }
    for slot in slots.iter() {
        flatten.value(&start, slot, 0)?;
    }
    let has_changed = flatten.has_changed;
    if has_changed {
        *slots = flatten.out;
    }
    Ok(has_changed)
}

impl Flatten<'_, '_> {
    /// Adds a member whose key follows `prefix`.
    fn value(&mut self, prefix: &[u8], slot: &Slot, depth: i64) -> Result<(), RuleFailure> {
        match parse_any(self.memory, slot.value)? {
            Value::Map(map) if depth < self.max_depth => {
                let key = self.key(prefix, slot.key, b".");
                self.map(&key, map, depth + 1)
            }
            Value::List(list) if depth < self.max_depth => {
                let key = self.key(prefix, slot.key, b"");
                self.list(&key, list, depth)
            }
            _ if prefix.is_empty() => self.put(slot.key, slot.value, slot.raw),
            _ => {
                let key = self.key(prefix, slot.key, b"");
                let key = self.memory.store(&key)?;
                self.put(key, slot.value, Ref::EMPTY)
            }
        }
    }

    fn key(&mut self, prefix: &[u8], key: Ref, end: &[u8]) -> Vec<u8> {
        [prefix, self.memory.get(key), end].concat()
    }

    fn map(&mut self, prefix: &[u8], map: Ref, depth: i64) -> Result<(), RuleFailure> {
        self.has_changed = true;
        let mut members = Vec::new();
        load_map(self.memory, map, &mut members)?;
        for member in &members {
            self.value(prefix, member, depth)?;
        }
        Ok(())
    }

    /// Adds the elements of a member that is a list.
    fn list(&mut self, key: &[u8], list: Ref, depth: i64) -> Result<(), RuleFailure> {
        self.has_changed = true;
        for (position, any) in self.elements(list)?.into_iter().enumerate() {
            let numbered = [key, b".", position.to_string().as_bytes()].concat();
            match parse_any(self.memory, any)? {
                Value::Map(map) if depth + 1 < self.max_depth => {
                    self.map(&[&numbered[..], b"."].concat(), map, depth + 2)?;
                }
                Value::List(inner) if depth + 1 < self.max_depth => {
                    self.inner_list(&numbered, inner, depth + 2)?;
                }
                _ => {
                    let key = if self.resolves_conflicts { key } else { &numbered };
                    let key = self.memory.store(key)?;
                    self.put(key, any, Ref::EMPTY)?;
                }
            }
        }
        Ok(())
    }

    /// Adds the elements of a list inside of a list. The Collector adds no point before their
    /// positions.
    fn inner_list(&mut self, prefix: &[u8], list: Ref, depth: i64) -> Result<(), RuleFailure> {
        for (position, any) in self.elements(list)?.into_iter().enumerate() {
            let key = self.memory.store(position.to_string().as_bytes())?;
            self.value(prefix, &Slot::new(key, any), depth + 1)?;
        }
        Ok(())
    }

    fn elements(&self, list: Ref) -> Result<Vec<Ref>, RuleFailure> {
        let mut elements = Vec::new();
        let mut members = Members::new(self.memory, list);
        while let Some(any) = members.next_member()? {
            elements.push(any);
        }
        Ok(elements)
    }

    fn put(&mut self, key: Ref, value: Ref, raw: Ref) -> Result<(), RuleFailure> {
        let known = self.index.find(self.memory, &self.out, key);
        self.has_changed |= known.is_some();
        if !self.resolves_conflicts {
            match known {
                Some(position) => self.out[position].set(value),
                None => self.out.push(Slot { key, value, raw }),
            }
            return Ok(());
        }
        if known.is_none() {
            self.conflicts.insert(self.memory.get(key).to_vec(), 0);
            self.out.push(Slot { key, value, raw });
            return Ok(());
        }
        let count = self.conflicts.entry(self.memory.get(key).to_vec()).or_default();
        let suffix = format!(".{count}");
        *count += 1;
        let numbered = [self.memory.get(key), suffix.as_bytes()].concat();
        let numbered = self.memory.store(&numbered)?;
        match self.index.find(self.memory, &self.out, numbered) {
            Some(position) => self.out[position].set(value),
            None => self.out.push(Slot::new(numbered, value)),
        }
        Ok(())
    }
}
