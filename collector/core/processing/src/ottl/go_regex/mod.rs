//! Patterns in Go's syntax (RE2), as OTTL has them, in the syntax of this program's library.
//!
//! Both find the same leftmost-first matches in linear time. They differ in a few characters: in Go
//! `\d`, `\s`, `\w` and `\b` know ASCII only, brackets and `&` inside a class are literal, a brace
//! that isn't a repetition is literal, and there are `\Q...\E` and octal numbers.

pub(crate) mod char;
pub(crate) mod class;

use regex::{Regex, RegexBuilder};

use crate::limits::PATTERN_BYTES;
use crate::ottl::go_regex::char::{PatternChars, escaped_char};
use crate::ottl::go_regex::class::{put_class, put_literal, put_unicode_class};

/// The largest number of repetitions that Go accepts.
const REPETITIONS: u32 = 1_000;

/// Compiles a pattern in Go's syntax.
pub(crate) fn compile(pattern: &str) -> Result<Regex, String> {
    let translated = translate(pattern)?;
    RegexBuilder::new(&translated)
        .size_limit(PATTERN_BYTES)
        .build()
        .map_err(|error| describe(&error))
}

fn describe(error: &regex::Error) -> String {
    match error {
        regex::Error::CompiledTooBig(_) => {
            format!("the pattern takes more than {PATTERN_BYTES} bytes")
        }
        // The last line of several has the reason; those before show the pattern.
        other => {
            let text = other.to_string();
            let reason = text.lines().last().unwrap_or(&text);
            format!("invalid pattern: {}", reason.trim_start_matches("error: "))
        }
    }
}

/// Returns the pattern in the library's syntax.
fn translate(pattern: &str) -> Result<String, String> {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut rest = pattern.chars().peekable();
    while let Some(character) = rest.next() {
        match character {
            '\\' => escape(&mut rest, &mut out)?,
            '[' => put_class(&mut rest, &mut out)?,
            '{' => match repetition(rest.clone()) {
                Some((least, most)) => {
                    if least > REPETITIONS || most.is_some_and(|most| most > REPETITIONS) {
                        return Err(format!("more than {REPETITIONS} repetitions"));
                    }
                    out.push('{');
                    for part in rest.by_ref() {
                        out.push(part);
                        if part == '}' {
                            break;
                        }
                    }
                }
                None => out.push_str("\\{"),
            },
            '}' | ']' => {
                out.push('\\');
                out.push(character);
            }
            '(' => group(&mut rest, &mut out)?,
            other => out.push(other),
        }
    }
    Ok(out)
}

/// Reads a repetition behind its brace: `2}`, `2,}` or `2,3}`.
fn repetition(mut rest: PatternChars<'_>) -> Option<(u32, Option<u32>)> {
    let least = number(&mut rest)?;
    match rest.next()? {
        '}' => Some((least, None)),
        ',' if rest.peek() == Some(&'}') => Some((least, None)),
        ',' => {
            let most = number(&mut rest)?;
            (rest.next()? == '}').then_some((least, Some(most)))
        }
        _ => None,
    }
}

fn number(rest: &mut PatternChars<'_>) -> Option<u32> {
    let mut digits = String::new();
    while let Some(digit) = rest.next_if(char::is_ascii_digit) {
        digits.push(digit);
    }
    if digits.is_empty() { None } else { Some(digits.parse().unwrap_or(u32::MAX)) }
}

/// Copies the begin of a group, and refuses flags that Go doesn't know.
fn group(rest: &mut PatternChars<'_>, out: &mut String) -> Result<(), String> {
    out.push('(');
    if rest.next_if_eq(&'?').is_none() {
        return Ok(());
    }
    out.push('?');
    while let Some(flag) = rest.peek().copied() {
        match flag {
            'P' | '<' | ':' | ')' => return Ok(()),
            'i' | 'm' | 's' | 'U' | '-' => {
                out.push(flag);
                rest.next();
            }
            other => return Err(format!("unknown group flag {other:?}")),
        }
    }
    Ok(())
}

fn escape(rest: &mut PatternChars<'_>, out: &mut String) -> Result<(), String> {
    let Some(character) = rest.next() else {
        return Err("the pattern ends with a backslash".to_owned());
    };
    match character {
        'd' => out.push_str("[0-9]"),
        'D' => out.push_str("[^0-9]"),
        's' => out.push_str("[\\t\\n\\f\\r ]"),
        'S' => out.push_str("[^\\t\\n\\f\\r ]"),
        'w' => out.push_str("[0-9A-Za-z_]"),
        'W' => out.push_str("[^0-9A-Za-z_]"),
        'b' => out.push_str("(?-u:\\b)"),
        'B' => out.push_str("(?-u:\\B)"),
        'A' | 'z' => {
            out.push('\\');
            out.push(character);
        }
        'p' | 'P' => put_unicode_class(rest, character == 'P', out)?,
        'Q' => put_quoted(rest, out),
        other => put_literal(escaped_char(other, rest)?, out),
    }
    Ok(())
}

/// Copies the text up to `\E`.
fn put_quoted(rest: &mut PatternChars<'_>, out: &mut String) {
    while let Some(character) = rest.next() {
        if character == '\\' && rest.next_if_eq(&'E').is_some() {
            return;
        }
        put_literal(character, out);
    }
}
