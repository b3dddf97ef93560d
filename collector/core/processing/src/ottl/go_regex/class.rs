//! Character classes of Go's patterns.

use crate::ottl::go_regex::char::{PatternChars, escaped_char};

/// Writes a character so that it matches itself, in a class and outside.
pub(in crate::ottl) fn put_literal(character: char, out: &mut String) {
    if character.is_ascii_alphanumeric() || !character.is_ascii() {
        out.push(character);
    } else {
        out.push_str(&format!("\\x{{{:x}}}", u32::from(character)));
    }
}

/// Copies `\pN`, `\p{Greek}` or `\p{^Greek}` behind the `p`.
pub(in crate::ottl) fn put_unicode_class(
    rest: &mut PatternChars<'_>,
    is_negated: bool,
    out: &mut String,
) -> Result<(), String> {
    let mut name = String::new();
    match rest.next() {
        Some('{') => {
            for character in rest.by_ref() {
                if character == '}' {
                    break;
                }
                name.push(character);
            }
        }
        Some(letter) => name.push(letter),
        None => return Err("the pattern ends inside of \\p".to_owned()),
    }
    let (name, is_inverted) = match name.strip_prefix('^') {
        Some(name) => (name, true),
        None => (name.as_str(), false),
    };
    let letter = if is_negated == is_inverted { 'p' } else { 'P' };
    out.push_str(&format!("\\{letter}{{{name}}}"));
    Ok(())
}

/// Copies a class behind its bracket.
pub(in crate::ottl) fn put_class(
    rest: &mut PatternChars<'_>,
    out: &mut String,
) -> Result<(), String> {
    out.push('[');
    if rest.next_if_eq(&'^').is_some() {
        out.push('^');
    }
    let mut is_first = true;
    loop {
        match rest.next() {
            None => return Err("a class isn't closed".to_owned()),
            Some(']') if !is_first => {
                out.push(']');
                return Ok(());
            }
            Some('[') if rest.peek() == Some(&':') => put_named(rest, out)?,
            Some('\\') => put_escape(rest, out)?,
            Some(character) => put_range(character, rest, out)?,
        }
        is_first = false;
    }
}

/// Copies `[:alpha:]` behind its bracket.
fn put_named(rest: &mut PatternChars<'_>, out: &mut String) -> Result<(), String> {
    let name: String = rest.clone().skip(1).take_while(|next| *next != ':').collect();
    let length = name.chars().count();
    if rest.clone().nth(length + 2) != Some(']') {
        return put_range('[', rest, out);
    }
    for _ in 0..length + 3 {
        rest.next();
    }
    out.push_str(&format!("[:{name}:]"));
    Ok(())
}

fn put_escape(rest: &mut PatternChars<'_>, out: &mut String) -> Result<(), String> {
    let Some(character) = rest.next() else {
        return Err("the pattern ends with a backslash".to_owned());
    };
    match character {
        'd' => out.push_str("0-9"),
        'D' => out.push_str("[^0-9]"),
        's' => out.push_str("\\t\\n\\f\\r\\x20"),
        'S' => out.push_str("[^\\t\\n\\f\\r\\x20]"),
        'w' => out.push_str("0-9A-Za-z_"),
        'W' => out.push_str("[^0-9A-Za-z_]"),
        'p' | 'P' => put_unicode_class(rest, character == 'P', out)?,
        other => {
            let low = escaped_char(other, rest)?;
            put_range(low, rest, out)?;
        }
    }
    Ok(())
}

/// Writes a character, or the range that it begins.
fn put_range(low: char, rest: &mut PatternChars<'_>, out: &mut String) -> Result<(), String> {
    put_literal(low, out);
    let mut ahead = rest.clone();
    if ahead.next() != Some('-') || matches!(ahead.peek(), None | Some(']')) {
        return Ok(());
    }
    rest.next();
    let high = match rest.next() {
        Some('\\') => match rest.next() {
            Some(character) => escaped_char(character, rest)?,
            None => return Err("the pattern ends with a backslash".to_owned()),
        },
        Some(character) => character,
        None => return Err("a class isn't closed".to_owned()),
    };
    if high < low {
        return Err(format!("invalid range {low}-{high}"));
    }
    out.push('-');
    put_literal(high, out);
    Ok(())
}
