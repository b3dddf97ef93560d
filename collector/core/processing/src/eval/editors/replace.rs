//! Replaces matches of patterns in text.

use regex::{Captures, Regex};

use crate::edit::memory::{Memory, Ref};
use crate::error::RuleFailure;
use crate::eval::Machine;
use crate::program::{Replace, TextFn};

/// A function on replacements, and the text around its result.
type Function = Option<(TextFn, String, String)>;

impl Machine<'_> {
    /// Returns a text with all matches of a pattern replaced; `None` if it has none.
    pub(in crate::eval) fn replace_all(
        &mut self,
        text: Ref,
        pattern: &Regex,
        template: Ref,
        function: &Function,
    ) -> Result<Option<Ref>, RuleFailure> {
        let mut out = std::mem::take(&mut self.buffers.text);
        let stored =
            store_replaced(&mut self.memory, text, pattern, (template, function), &mut out);
        self.buffers.text = out;
        stored
    }

    /// Computes the text that replaces a complete value.
    pub(in crate::eval) fn replacement(&mut self, with: &Replace) -> Result<Ref, RuleFailure> {
        let text = self.text(&with.replacement)?;
        let Some((function, before, after)) = &with.function else { return Ok(text) };
        let mut out = std::mem::take(&mut self.buffers.text);
        out.clear();
        out.extend_from_slice(before.as_bytes());
        let done = self.memory.text(text).map(|text| function.apply(text, &mut out));
        out.extend_from_slice(after.as_bytes());
        let stored = done.and_then(|()| self.memory.store(&out));
        self.buffers.text = out;
        stored
    }
}

/// Writes a text with all matches replaced; `None` if it has none.
pub(in crate::eval) fn store_replaced(
    memory: &mut Memory<'_>,
    text: Ref,
    pattern: &Regex,
    (template, function): (Ref, &Function),
    out: &mut Vec<u8>,
) -> Result<Option<Ref>, RuleFailure> {
    out.clear();
    let limit = memory.free_bytes();
    let (all, template) = (memory.text(text)?, memory.text(template)?);
    let mut copied = 0;
    let mut has_match = false;
    if function.is_none() && !template.contains('$') {
        for found in pattern.find_iter(all) {
            has_match = true;
            out.extend_from_slice(&all.as_bytes()[copied..found.start()]);
            out.extend_from_slice(template.as_bytes());
            copied = found.end();
            if out.len() > limit {
                return Err(RuleFailure::TooLong);
            }
        }
    } else {
        let mut expanded = Vec::new();
        for groups in pattern.captures_iter(all) {
            let Some(found) = groups.get(0) else { continue };
            has_match = true;
            out.extend_from_slice(&all.as_bytes()[copied..found.start()]);
            copied = found.end();
            let Some((function, before, after)) = function else {
                expand(template, &groups, out);
                continue;
            };
            expanded.clear();
            expand(template, &groups, &mut expanded);
            out.extend_from_slice(before.as_bytes());
            let expanded = std::str::from_utf8(&expanded).map_err(|_| RuleFailure::Utf8)?;
            function.apply(expanded, out);
            out.extend_from_slice(after.as_bytes());
            if out.len() > limit {
                return Err(RuleFailure::TooLong);
            }
        }
    }
    if !has_match {
        return Ok(None);
    }
    out.extend_from_slice(&all.as_bytes()[copied..]);
    memory.store(out).map(Some)
}

/// Writes a template with its groups: `$1`, `${1}`, `$name`, `$$`, as Go has it. A group that
/// doesn't exist is empty; a dollar that begins none of these is literal.
fn expand(template: &str, groups: &Captures<'_>, out: &mut Vec<u8>) {
    let mut rest = template;
    while let Some(position) = rest.find('$') {
        out.extend_from_slice(&rest.as_bytes()[..position]);
        let after = &rest[position + 1..];
        if let Some(after) = after.strip_prefix('$') {
            out.push(b'$');
            rest = after;
            continue;
        }
        match reference(after) {
            Some((name, length)) => {
                let group = match name.parse::<usize>() {
                    Ok(number) if name.bytes().all(|byte| byte.is_ascii_digit()) => {
                        groups.get(number)
                    }
                    _ => groups.name(name),
                };
                out.extend_from_slice(group.map_or(&[][..], |group| group.as_str().as_bytes()));
                rest = &after[length..];
            }
            None => {
                out.push(b'$');
                rest = after;
            }
        }
    }
    out.extend_from_slice(rest.as_bytes());
}

/// Reads a group's name behind its dollar: returns the name and its length with braces.
fn reference(text: &str) -> Option<(&str, usize)> {
    let (text, has_brace) = match text.strip_prefix('{') {
        Some(text) => (text, true),
        None => (text, false),
    };
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    let length = text.find(|character| !is_part(character)).unwrap_or(text.len());
    if length == 0 {
        return None;
    }
    if !has_brace {
        return Some((&text[..length], length));
    }
    text[length..].starts_with('}').then_some((&text[..length], length + 2))
}
