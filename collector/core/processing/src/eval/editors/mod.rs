//! Runs editors.

pub(in crate::eval) mod flatten;
pub(in crate::eval) mod maps;
pub(in crate::eval) mod replace;

use crate::edit::encode::{Members, load_map, put_element, store_any, store_map};
use crate::edit::memory::{Memory, Ref};
use crate::edit::slot::Slot;
use crate::error::RuleFailure;
use crate::eval::Machine;
use crate::eval::editors::flatten::flatten;
use crate::program::{Editor, Expr, Kind, Path};
use crate::value::Value;

impl Machine<'_> {
    /// Runs an editor. Returns whether it changed something.
    pub(in crate::eval) fn edit(&mut self, editor: &Editor) -> Result<bool, RuleFailure> {
        match editor {
            Editor::Set { target, value } => self.set(target, value),
            Editor::DeleteKey { target, key } => {
                let key = self.text(key)?;
                self.edit_map(target, |memory, slots| Ok(maps::delete_key(memory, slots, key)))
            }
            Editor::MatchKeys { target, pattern, retains_matches } => {
                self.edit_map(target, |memory, slots| {
                    maps::retain_keys(memory, slots, |key| {
                        pattern.is_match(key) == *retains_matches
                    })
                })
            }
            Editor::KeepKeys { target, keys } => {
                let first = self.buffers.refs.len();
                for key in keys {
                    let key = self.text(key)?;
                    self.buffers.refs.push(key);
                }
                let keys = self.buffers.refs.split_off(first);
                self.edit_map(target, |memory, slots| Ok(maps::keep_keys(memory, slots, &keys)))
            }
            Editor::TruncateAll { target, limit, marker } => self
                .edit_map(target, |memory, slots| {
                    maps::truncate_all(memory, slots, *limit, *marker)
                }),
            Editor::Limit { target, limit, priority_keys } => self
                .edit_map(target, |memory, slots| {
                    Ok(maps::limit(memory, slots, *limit, priority_keys))
                }),
            Editor::MergeMaps { target, source, strategy } => {
                let source = self.map_value(source)?;
                self.has_new_structure = true;
                self.edit_map(target, |memory, slots| maps::merge(memory, slots, source, *strategy))
            }
            Editor::Flatten { target, prefix, depth, resolves_conflicts } => self
                .edit_map(target, |memory, slots| {
                    flatten(memory, slots, prefix, *depth, *resolves_conflicts)
                }),
            Editor::Append { target, values } => self.append(target, values),
            _ => self.replace(editor),
        }
    }

    fn set(&mut self, target: &Path, value: &Expr) -> Result<bool, RuleFailure> {
        let takes_any = target.kind == Kind::Body || !target.keys.is_empty();
        if !takes_any {
            let value = self.eval(value)?;
            return self.write(target, value).map(|()| true);
        }
        match self.eval_any(value) {
            // An attribute or body without a value is nil.
            Ok(any) => self.write_any(target, any.unwrap_or_default()).map(|()| true),
            // The Collector adds the key before it checks the value's type.
            Err(error @ RuleFailure::Unstorable { .. }) => {
                let is_absent = match self.read(target) {
                    Ok(value) => matches!(value, Value::Nil),
                    // It makes a map or list of a nil that the path indexes.
                    Err(failure) => failure == RuleFailure::NotIndexable { found: "nil" },
                };
                if target.kind == Kind::Map && is_absent {
                    self.write_any(target, Ref::EMPTY)?;
                }
                Err(error)
            }
            Err(error) => Err(error),
        }
    }

    /// Changes the members of a map: attributes in place, an inner map as a copy.
    fn edit_map(
        &mut self,
        target: &Path,
        edit: impl FnOnce(&mut Memory<'_>, &mut Vec<Slot>) -> Result<bool, RuleFailure>,
    ) -> Result<bool, RuleFailure> {
        if target.kind == Kind::Map && target.keys.is_empty() {
            let object = &mut self.objects[target.context.index()];
            let has_changed = edit(&mut self.memory, &mut object.slots)?;
            object.is_changed |= has_changed;
            return Ok(has_changed);
        }
        let map = match self.read(target)? {
            Value::Map(map) => map,
            other => return Err(RuleFailure::Type { expected: "map", found: other.type_name() }),
        };
        let mut slots = Vec::new();
        load_map(&self.memory, map, &mut slots)?;
        let has_changed = edit(&mut self.memory, &mut slots)?;
        if has_changed {
            let map = store_map(&mut self.memory, &slots)?;
            let any = store_any(&mut self.memory, Value::Map(map))?;
            self.write_any(target, any)?;
        }
        Ok(has_changed)
    }

    fn append(&mut self, target: &Path, values: &[Expr]) -> Result<bool, RuleFailure> {
        let known = self.read(target)?;
        let first = self.buffers.refs.len();
        match known {
            Value::Nil => {}
            Value::List(list) => {
                let mut members = Members::new(&self.memory, list);
                while let Some(any) = members.next_member()? {
                    self.buffers.refs.push(any);
                }
            }
            other => {
                let any = self.store_appended(other, false)?;
                self.buffers.refs.push(any);
            }
        }
        for value in values {
            let is_literal = matches!(value, Expr::List(_) | Expr::Const(Value::List(_), _));
            let value = self.eval(value)?;
            let any = self.store_appended(value, is_literal)?;
            self.buffers.refs.push(any);
        }
        let mark = self.memory.mark();
        for any in self.buffers.refs.drain(first..) {
            put_element(&mut self.memory, any)?;
        }
        let list = Value::List(self.memory.since(mark));
        self.write(target, list).map(|()| true)
    }

    /// Writes a value that becomes an element of a list. The Collector appends no maps, and lists
    /// only from a statement's text.
    fn store_appended(&mut self, value: Value, is_literal: bool) -> Result<Ref, RuleFailure> {
        match value {
            Value::Map(_) => Err(RuleFailure::Unstorable { found: value.type_name() }),
            Value::List(_) if !is_literal => {
                Err(RuleFailure::Unstorable { found: value.type_name() })
            }
            other => store_any(&mut self.memory, other),
        }
    }

    fn replace(&mut self, editor: &Editor) -> Result<bool, RuleFailure> {
        match editor {
            Editor::ReplacePattern { target, pattern, with } => {
                let Some(text) = self.target_text(target)? else { return Ok(false) };
                let template = self.text(&with.replacement)?;
                match self.replace_all(text, pattern, template, &with.function)? {
                    Some(replaced) => self.write(target, Value::Str(replaced)).map(|()| true),
                    None => Ok(false),
                }
            }
            Editor::ReplaceMatch { target, pattern, with } => {
                let text = self.target_text(target)?;
                let replacement = self.replacement(with)?;
                match text {
                    Some(text) if pattern.is_match(self.memory.text(text)?) => {
                        self.write(target, Value::Str(replacement)).map(|()| true)
                    }
                    _ => Ok(false),
                }
            }
            Editor::ReplaceAllPatterns { target, is_keys, pattern, with } => {
                let template = self.text(&with.replacement)?;
                let replace = (template, with);
                self.edit_map(target, |memory, slots| {
                    if *is_keys {
                        maps::replace_keys(memory, slots, pattern, replace)
                    } else {
                        maps::replace_values(memory, slots, pattern, replace)
                    }
                })
            }
            Editor::ReplaceAllMatches { target, pattern, with } => {
                let replacement = self.replacement(with)?;
                self.edit_map(target, |memory, slots| {
                    maps::replace_matches(memory, slots, pattern, replacement)
                })
            }
            _ => Ok(false),
        }
    }

    /// Reads a path's text; `None` if it is of another type.
    fn target_text(&mut self, target: &Path) -> Result<Option<Ref>, RuleFailure> {
        match self.read(target)? {
            Value::Str(text) => Ok(Some(text)),
            _ => Ok(None),
        }
    }
}
