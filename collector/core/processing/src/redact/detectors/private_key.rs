//! Private keys in PEM.

use memchr::memmem;

use super::credentials::run_length;

/// The longest label between `BEGIN ` and the hyphens: `PGP PRIVATE KEY BLOCK` has 21 bytes.
const LABEL_BYTES_MAX: usize = 40;

/// The shortest piece of base64 that makes a key: mentions of the header alone have none.
const BASE64_BYTES_MIN: usize = 16;

/// The end of the private key whose `-----BEGIN ` ends at `label_start`.
///
/// The body has base64, white space, escaped line ends (`\n`), quotes of its lines, and the header
/// lines of encrypted keys. A key without an end was truncated: all that its body may consist of
/// belongs to it.
pub(in crate::redact) fn private_key_end(text: &[u8], label_start: usize) -> Option<usize> {
    let label_bytes = run_length(text, label_start, |byte| {
        byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b' '
    })
    .min(LABEL_BYTES_MAX);
    let label_end = label_start + label_bytes;
    let label = &text[label_start..label_end];
    if !label.ends_with(b"PRIVATE KEY") && !label.ends_with(b"PRIVATE KEY BLOCK") {
        return None;
    }
    let body_start = label_end + run_length(text, label_end, |byte| byte == b'-').min(5);
    let (mut at, mut base64_run, mut longest_run) = (body_start, 0, 0);
    while let Some(&byte) = text.get(at) {
        if byte == b'-' && text[at..].starts_with(b"-----") {
            break;
        }
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/' => base64_run += 1,
            b' ' | b'\t' | b'\r' | b'\n' | b'\\' | b'=' | b':' | b',' | b'-' | b'.' | b'"' => {
                base64_run = 0;
            }
            _ => break,
        }
        longest_run = longest_run.max(base64_run);
        at += 1;
    }
    crate::redact::steps::count(at - body_start);
    if longest_run < BASE64_BYTES_MIN {
        return None;
    }
    Some(footer_end(text, at).unwrap_or(at))
}

/// The end of `-----END ... PRIVATE KEY-----` at a position.
fn footer_end(text: &[u8], at: usize) -> Option<usize> {
    let footer = text[at..].strip_prefix(b"-----END ")?;
    let label = memmem::find(&footer[..footer.len().min(LABEL_BYTES_MAX)], b"-----")?;
    Some(text.len() - footer.len() + label + 5)
}
