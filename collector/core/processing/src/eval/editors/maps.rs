//! Editors of maps: each changes a list of members, and returns whether it did.

use std::collections::HashMap;

use regex::Regex;

use crate::edit::encode::{load_map, parse_any, store_any};
use crate::edit::memory::{Memory, Ref};
use crate::edit::object::find_slot;
use crate::edit::slot::Slot;
use crate::error::RuleFailure;
use crate::eval::editors::replace::store_replaced;
use crate::program::{Replace, Strategy};
use crate::value::Value;

/// Maps up to this many members are searched one by one: that takes some 100 ns, as computing a
/// hash does.
const LINEAR_SLOTS: usize = 64;

/// Finds members by key, also in a time that doesn't grow with their number.
#[derive(Debug, Default)]
pub(in crate::eval) struct KeyIndex {
    /// The first position of each key among the first `len` members.
    positions: HashMap<Vec<u8>, usize>,
    len: usize,
}

impl KeyIndex {
    /// Returns the position of the first member with a key. Between two calls members are only
    /// added at the end.
    pub(in crate::eval) fn find(
        &mut self,
        memory: &Memory<'_>,
        slots: &[Slot],
        key: Ref,
    ) -> Option<usize> {
        if slots.len() <= LINEAR_SLOTS {
            return find_slot(memory, slots, key);
        }
        for (position, slot) in slots.iter().enumerate().skip(self.len) {
            self.positions.entry(memory.get(slot.key).to_vec()).or_insert(position);
        }
        self.len = slots.len();
        self.positions.get(memory.get(key)).copied()
    }
}

/// Removes a key. The last member takes its position, as in the Collector.
pub(in crate::eval) fn delete_key(memory: &Memory<'_>, slots: &mut Vec<Slot>, key: Ref) -> bool {
    let position = find_slot(memory, slots, key);
    position.map(|position| slots.swap_remove(position)).is_some()
}

/// Retains the keys for which `is_retained` is true.
pub(in crate::eval) fn retain_keys(
    memory: &Memory<'_>,
    slots: &mut Vec<Slot>,
    is_retained: impl Fn(&str) -> bool,
) -> Result<bool, RuleFailure> {
    let length = slots.len();
    let mut is_text = true;
    slots.retain(|slot| match memory.text(slot.key) {
        Ok(key) => is_retained(key),
        Err(_) => {
            is_text = false;
            true
        }
    });
    if is_text { Ok(slots.len() != length) } else { Err(RuleFailure::Utf8) }
}

/// Retains the given keys.
pub(in crate::eval) fn keep_keys(memory: &Memory<'_>, slots: &mut Vec<Slot>, keys: &[Ref]) -> bool {
    let length = slots.len();
    slots.retain(|slot| {
        let key = memory.get(slot.key);
        keys.iter().any(|retained| retained.len() == key.len() && memory.get(*retained) == key)
    });
    slots.len() != length
}

/// Shortens texts to `limit` bytes with the marker at their end, without cutting characters.
pub(in crate::eval) fn truncate_all(
    memory: &mut Memory<'_>,
    slots: &mut [Slot],
    limit: usize,
    marker: Ref,
) -> Result<bool, RuleFailure> {
    let mut has_changed = false;
    for slot in slots {
        if slot.value.len() <= limit {
            // Its text is shorter still.
            continue;
        }
        let Value::Str(text) = parse_any(memory, slot.value)? else { continue };
        if text.len() <= limit {
            continue;
        }
        let bytes = memory.get(text);
        let is_start = |at: &usize| bytes[*at] & 0xc0 != 0x80;
        let end = (0..=limit - marker.len()).rev().find(is_start).unwrap_or(0);
        let mut shorter = text.part(0, end);
        if !marker.is_empty() {
            memory.reserve(limit)?;
            let mark = memory.mark();
            memory.put_ref(shorter);
            memory.put_ref(marker);
            shorter = memory.since(mark);
        }
        slot.set(store_any(memory, Value::Str(shorter))?);
        has_changed = true;
    }
    Ok(has_changed)
}

/// Retains `limit` members: those of `priority_keys`, then the first others.
pub(in crate::eval) fn limit(
    memory: &Memory<'_>,
    slots: &mut Vec<Slot>,
    limit: usize,
    priority_keys: &[Ref],
) -> bool {
    if slots.len() <= limit {
        return false;
    }
    let is_prior =
        |key: Ref| priority_keys.iter().any(|prior| memory.get(*prior) == memory.get(key));
    let mut count =
        priority_keys.iter().filter(|key| find_slot(memory, slots, **key).is_some()).count();
    let length = slots.len();
    slots.retain(|slot| {
        if is_prior(slot.key) {
            return true;
        }
        let is_retained = count < limit;
        count += usize::from(is_retained);
        is_retained
    });
    slots.len() != length
}

/// Merges the members of another map.
pub(in crate::eval) fn merge(
    memory: &Memory<'_>,
    slots: &mut Vec<Slot>,
    source: Ref,
    strategy: Strategy,
) -> Result<bool, RuleFailure> {
    let mut others = Vec::new();
    load_map(memory, source, &mut others)?;
    let mut index = KeyIndex::default();
    let mut has_changed = false;
    for other in others {
        let known = index.find(memory, slots, other.key);
        match (known, strategy) {
            (Some(position), Strategy::Update | Strategy::Upsert) => {
                slots[position].set(other.value);
            }
            (None, Strategy::Insert | Strategy::Upsert) => slots.push(other),
            _ => continue,
        }
        has_changed = true;
    }
    Ok(has_changed)
}

/// Replaces matches in keys.
pub(in crate::eval) fn replace_keys(
    memory: &mut Memory<'_>,
    slots: &mut Vec<Slot>,
    pattern: &Regex,
    (template, with): (Ref, &Replace),
) -> Result<bool, RuleFailure> {
    let mut out = Vec::new();
    let mut index = KeyIndex::default();
    let mut renamed: Vec<Slot> = Vec::with_capacity(slots.len());
    let mut has_changed = false;
    for slot in slots.iter() {
        let replaced =
            store_replaced(memory, slot.key, pattern, (template, &with.function), &mut out)?;
        has_changed |= replaced.is_some();
        let slot = replaced.map_or(*slot, |key| Slot::new(key, slot.value));
        match index.find(memory, &renamed, slot.key) {
            Some(position) => renamed[position].set(slot.value),
            None => renamed.push(slot),
        }
    }
    if has_changed {
        *slots = renamed;
    }
    Ok(has_changed)
}

/// Replaces matches in values that are text.
pub(in crate::eval) fn replace_values(
    memory: &mut Memory<'_>,
    slots: &mut [Slot],
    pattern: &Regex,
    (template, with): (Ref, &Replace),
) -> Result<bool, RuleFailure> {
    let mut out = Vec::new();
    let mut has_changed = false;
    for slot in slots {
        let Value::Str(text) = parse_any(memory, slot.value)? else { continue };
        let replaced = store_replaced(memory, text, pattern, (template, &with.function), &mut out)?;
        if let Some(replaced) = replaced {
            slot.set(store_any(memory, Value::Str(replaced))?);
            has_changed = true;
        }
    }
    Ok(has_changed)
}

/// Replaces values that are text and match.
pub(in crate::eval) fn replace_matches(
    memory: &mut Memory<'_>,
    slots: &mut [Slot],
    pattern: &Regex,
    replacement: Ref,
) -> Result<bool, RuleFailure> {
    let mut has_changed = false;
    for slot in slots {
        if let Value::Str(text) = parse_any(memory, slot.value)?
            && pattern.is_match(memory.text(text)?)
        {
            slot.set(store_any(memory, Value::Str(replacement))?);
            has_changed = true;
        }
    }
    Ok(has_changed)
}
