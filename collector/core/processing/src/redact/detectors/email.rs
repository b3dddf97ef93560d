//! E-mail addresses.

use std::ops::Range;

/// The longest local part that is read: RFC 5321 permits 64 bytes; addresses that encode others
/// (VERP) exceed it.
const LOCAL_BYTES_MAX: usize = 256;

/// The longest domain, by RFC 1035.
const DOMAIN_BYTES_MAX: usize = 253;

/// The longest top-level domain that exists has 24 characters.
const TOP_LEVEL_BYTES_MAX: usize = 24;

/// Names of files (`logo@2x.png`) and of systemd's units (`getty@tty1.service`). No top-level
/// domain has such a name.
const NOT_TOP_LEVEL: [&[u8]; 36] = [
    b"bak", b"class", b"conf", b"css", b"csv", b"device", b"dll", b"exe", b"gif", b"gz", b"html",
    b"ico", b"ini", b"jar", b"jpeg", b"jpg", b"js", b"json", b"lock", b"log", b"mount", b"pdf",
    b"png", b"scope", b"service", b"slice", b"socket", b"svg", b"timer", b"ts", b"tsx", b"txt",
    b"webp", b"xml", b"yaml", b"yml",
];

/// The address around an at sign, which is `@`, or `%40` and the like.
pub(in crate::redact) fn email_around(text: &[u8], at_sign: Range<usize>) -> Option<Range<usize>> {
    let start = local_start(text, at_sign.start);
    let local = text.get(start..at_sign.start).filter(|local| !local.is_empty())?;
    // `git@github.com:owner/repository` is no address.
    if local == b"git" {
        return None;
    }
    Some(start..domain_end(text, at_sign.end)?)
}

/// Whether two bytes are a letter of Latin, Greek or Cyrillic script (U+00C0 to U+052F). Scripts
/// that don't separate words aren't part of an address: the text around it would be, too.
fn is_letter_pair(text: &[u8], at: usize) -> bool {
    let second = text.get(at + 1).is_some_and(|byte| byte & 0xc0 == 0x80);
    second && text.get(at).is_some_and(|byte| matches!(byte, 0xc3..=0xd4))
}

fn is_local(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'%' | b'+' | b'-')
}

/// The character that `%` and two hexadecimal digits encode.
fn percent_decoded(text: &[u8], at: usize) -> Option<u8> {
    let digit = |at: usize| text.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    Some((digit(at + 1)? * 16 + digit(at + 2)?) as u8)
}

fn local_start(text: &[u8], end: usize) -> usize {
    let floor = end.saturating_sub(LOCAL_BYTES_MAX);
    let mut start = end;
    while start > floor {
        let before = start - 1;
        let is_letter = |at: usize| text.get(at).is_some_and(u8::is_ascii_alphanumeric);
        if text[before] == b'%'
            && percent_decoded(text, before).is_some_and(|byte| byte < 0x80 && !is_local(byte))
        {
            // `email%3Dname%40example.com` begins after the encoded `=`.
            start = (before + 3).min(end);
            break;
        } else if is_local(text[before]) {
            start = before;
        } else if before > floor && is_letter_pair(text, before - 1) {
            start -= 2;
        } else if text[before] == b'\''
            && before > floor
            && is_letter(before - 1)
            && is_letter(start)
        {
            start = before;
        } else {
            break;
        }
    }
    crate::redact::steps::count(end - start);
    while start < end && matches!(text[start], b'.' | b'-' | b'+' | b'%') {
        start += 1;
    }
    start
}

/// The end of the domain: the last label that may be a top-level domain, after another label.
fn domain_end(text: &[u8], start: usize) -> Option<usize> {
    let limit = text.len().min(start + DOMAIN_BYTES_MAX);
    let (mut label_start, mut labels, mut numeric_labels) = (start, 0, 0);
    let mut end = None;
    loop {
        let stop = label_end(text, label_start, limit);
        let label = &text[label_start..stop];
        let trimmed = label.iter().rposition(|&byte| byte != b'-').map_or(0, |last| last + 1);
        if trimmed == 0 || label[0] == b'-' {
            break;
        }
        labels += 1;
        numeric_labels += usize::from(label.iter().all(u8::is_ascii_digit));
        if labels > 1 && is_top_level(&label[..trimmed]) {
            end = Some(label_start + trimmed);
        }
        if trimmed < label.len() || text.get(stop) != Some(&b'.') || stop >= limit {
            break;
        }
        label_start = stop + 1;
    }
    // `package@1.0.0-beta.rc` is a version.
    end.filter(|_| numeric_labels < 2)
}

fn label_end(text: &[u8], start: usize, limit: usize) -> usize {
    let mut at = start;
    while at < limit {
        if text[at].is_ascii_alphanumeric() || text[at] == b'-' {
            at += 1;
        } else if at + 1 < limit && is_letter_pair(text, at) {
            at += 2;
        } else {
            break;
        }
    }
    crate::redact::steps::count(at - start);
    at
}

fn is_top_level(label: &[u8]) -> bool {
    let is_encoded = label.len() > 4 && label[..4].eq_ignore_ascii_case(b"xn--");
    let is_name = (2..=TOP_LEVEL_BYTES_MAX).contains(&label.len())
        && label.iter().all(|byte| byte.is_ascii_alphabetic() || !byte.is_ascii())
        && !NOT_TOP_LEVEL.iter().any(|name| name.eq_ignore_ascii_case(label));
    is_encoded || is_name
}
