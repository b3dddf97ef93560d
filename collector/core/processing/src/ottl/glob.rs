//! The patterns of `replace_match` and `replace_all_matches`: `*` for any text, `?` for one
//! character, `[a-z]`, `[!abc]`, `{one,other}`, and a backslash before a literal
//! character. They match complete values.

use regex::{Regex, RegexBuilder};

use crate::limits::PATTERN_BYTES;
use crate::ottl::go_regex::class::put_literal;

/// Compiles such a pattern.
pub(crate) fn compile(pattern: &str) -> Result<Regex, String> {
    let mut out = String::from("^(?s:");
    let mut rest = pattern.chars();
    let mut depth = 0_u32;
    while let Some(character) = rest.next() {
        match character {
            '*' => out.push_str(".*"),
            '?' => out.push('.'),
            '[' => put_class(&mut rest, &mut out)?,
            '{' => {
                depth += 1;
                out.push_str("(?:");
            }
            '}' if depth > 0 => {
                depth -= 1;
                out.push(')');
            }
            ',' if depth > 0 => out.push('|'),
            '\\' => {
                if let Some(escaped) = rest.next() {
                    put_literal(escaped, &mut out);
                }
            }
            other => put_literal(other, &mut out),
        }
    }
    // Braces may stay open.
    for _ in 0..depth {
        out.push(')');
    }
    out.push_str(")$");
    RegexBuilder::new(&out)
        .size_limit(PATTERN_BYTES)
        .build()
        .map_err(|_| format!("the pattern takes more than {PATTERN_BYTES} bytes"))
}

/// Copies a class: characters or one range.
fn put_class(rest: &mut std::str::Chars<'_>, out: &mut String) -> Result<(), String> {
    let Some(end) = rest.as_str().find(']') else {
        return Err("a class isn't closed".to_owned());
    };
    let content = &rest.as_str()[..end];
    *rest = rest.as_str()[end + 1..].chars();
    out.push('[');
    let content = match content.strip_prefix('!') {
        Some(content) => {
            out.push('^');
            content
        }
        None => content,
    };
    let mut characters = content.chars();
    match (characters.next(), characters.next(), characters.next(), characters.next()) {
        (None, ..) => return Err("a class is empty".to_owned()),
        (Some(low), Some('-'), Some(high), None) => {
            if high < low {
                return Err(format!("invalid range {low}-{high}"));
            }
            put_literal(low, out);
            out.push('-');
            put_literal(high, out);
        }
        _ => content.chars().filter(|next| *next != '\\').for_each(|next| put_literal(next, out)),
    }
    out.push(']');
    Ok(())
}
