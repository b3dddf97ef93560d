//! Characters of Go's regular expressions, as escapes denote them.

use std::iter::Peekable;
use std::str::Chars;

/// The rest of a pattern.
pub(in crate::ottl) type PatternChars<'p> = Peekable<Chars<'p>>;

/// Returns the character that an escape denotes; `first` follows its backslash.
pub(in crate::ottl) fn escaped_char(
    first: char,
    rest: &mut PatternChars<'_>,
) -> Result<char, String> {
    Ok(match first {
        'a' => '\u{7}',
        'f' => '\u{c}',
        't' => '\t',
        'n' => '\n',
        'r' => '\r',
        'v' => '\u{b}',
        'x' => return hexadecimal(rest),
        '0' => return octal(0, rest),
        '1'..='7' if rest.peek().is_some_and(|next| ('0'..='7').contains(next)) => {
            return octal(first.to_digit(8).unwrap_or_default(), rest);
        }
        '1'..='9' => return Err("references to groups are not supported in patterns".to_owned()),
        other if other.is_ascii_alphanumeric() => {
            return Err(format!("unknown escape \\{other}"));
        }
        other => other,
    })
}

fn octal(first: u32, rest: &mut PatternChars<'_>) -> Result<char, String> {
    let mut code = first;
    for _ in 0..2 {
        match rest.next_if(|next| ('0'..='7').contains(next)) {
            Some(digit) => code = code * 8 + digit.to_digit(8).unwrap_or_default(),
            None => break,
        }
    }
    char::from_u32(code).ok_or_else(|| "invalid octal number".to_owned())
}

fn hexadecimal(rest: &mut PatternChars<'_>) -> Result<char, String> {
    let mut digits = String::new();
    if rest.next_if_eq(&'{').is_some() {
        for digit in rest.by_ref() {
            if digit == '}' {
                break;
            }
            digits.push(digit);
        }
    } else {
        digits.extend(rest.next());
        digits.extend(rest.next());
    }
    let code = u32::from_str_radix(&digits, 16).ok();
    code.and_then(char::from_u32).ok_or_else(|| format!("invalid number \\x{digits}"))
}
