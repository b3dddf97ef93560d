//! Upper and lower case as in Go: each character maps to one other (Unicode's simple mapping),
//! regardless of its context.

/// Writes a text in lower case to `out`.
pub(super) fn write_lowercase(text: &str, out: &mut String) {
    out.clear();
    out.extend(text.chars().map(lower_char));
}

/// Writes a text in upper case to `out`.
pub(super) fn write_uppercase(text: &str, out: &mut String) {
    out.clear();
    out.extend(text.chars().map(upper_char));
}

fn lower_char(one: char) -> char {
    match one {
        // The only character whose full mapping is longer than its simple one.
        '\u{130}' => 'i',
        _ => single_char(one.to_lowercase()).unwrap_or(one),
    }
}

fn upper_char(one: char) -> char {
    let code = u32::from(one);
    let simple = match code {
        // Greek letters with iota below: the full mapping writes the iota as a letter.
        0x1f80..=0x1faf if code & 8 == 0 => char::from_u32(code + 8),
        0x1fb3 | 0x1fc3 | 0x1ff3 => char::from_u32(code + 9),
        _ => single_char(one.to_uppercase()),
    };
    simple.unwrap_or(one)
}

/// Returns a mapping's character if it has only one.
fn single_char(mut mapped: impl Iterator<Item = char>) -> Option<char> {
    let first = mapped.next();
    first.filter(|_| mapped.next().is_none())
}
