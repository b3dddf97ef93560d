//! Reads string literals: double quotes with the escapes of Go's strings.

/// Returns the content of a string literal with its quotes, or what is wrong with it and where.
pub(crate) fn unquote(literal: &str) -> Result<String, (usize, String)> {
    let content = &literal[1..literal.len() - 1];
    let mut out = Vec::with_capacity(content.len());
    let mut at = 0;
    while let Some(character) = content[at..].chars().next() {
        if character == '\n' {
            return Err((at + 1, "a string has no line breaks; write \\n".to_owned()));
        }
        if character == '\\' {
            let (bytes, length) = escape(&content[at + 1..]).ok_or_else(|| {
                (at + 1, "unknown escape; a backslash itself is written \\\\".to_owned())
            })?;
            out.extend_from_slice(&bytes);
            at += 1 + length;
        } else {
            out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            at += character.len_utf8();
        }
    }
    String::from_utf8(out).map_err(|_| (0, "the string is not valid utf-8".to_owned()))
}

/// Reads an escape behind its backslash: returns its bytes and its length.
fn escape(rest: &str) -> Option<(Vec<u8>, usize)> {
    let first = rest.chars().next()?;
    let single = match first {
        'a' => 0x07,
        'b' => 0x08,
        'f' => 0x0c,
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'v' => 0x0b,
        '\\' => b'\\',
        '"' => b'"',
        'x' => return number(rest, 1, 2, 16).map(|byte| (vec![byte as u8], 3)),
        'u' => return scalar(rest, 4),
        'U' => return scalar(rest, 8),
        '0'..='7' => {
            let byte = u8::try_from(number(rest, 0, 3, 8)?).ok()?;
            return Some((vec![byte], 3));
        }
        _ => return None,
    };
    Some((vec![single], 1))
}

fn scalar(rest: &str, digits: usize) -> Option<(Vec<u8>, usize)> {
    let character = char::from_u32(number(rest, 1, digits, 16)?)?;
    Some((character.to_string().into_bytes(), 1 + digits))
}

fn number(rest: &str, from: usize, digits: usize, radix: u32) -> Option<u32> {
    let text = rest.get(from..from + digits)?;
    if !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    u32::from_str_radix(text, radix).ok()
}
