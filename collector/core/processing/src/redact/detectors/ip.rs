//! IP addresses.

use core::net::Ipv6Addr;
use std::ops::Range;

/// The most bytes that are read at a run of digits.
const IPV4_STEPS_MAX: usize = 16;

/// The longest text of an IPv6 address: one with an IPv4 address at its end.
const IPV6_BYTES_MAX: usize = 45;

/// The colons of an address without `::`: six, if its end is an IPv4 address.
const IPV6_COLONS_MIN: usize = 6;

/// The IPv4 address whose third dot is at `dot`: four decimal numbers to 255 without leading zeros,
/// not preceded by a letter (`v1.2.3.4`), with no fifth number.
pub(in crate::redact) fn ipv4_before(text: &[u8], dot: usize) -> Option<Range<usize>> {
    let mut start = dot;
    for octet in 0..3 {
        let digits = text[..start].iter().rev().take(4).take_while(|byte| byte.is_ascii_digit());
        start -= digits.count();
        if octet < 2 {
            start = start.checked_sub(1).filter(|&at| text[at] == b'.')?;
        }
    }
    let before = |back: usize| start.checked_sub(back).and_then(|at| text.get(at)).copied();
    match before(1) {
        Some(byte) if byte.is_ascii_alphanumeric() => return None,
        Some(b'.') if before(2).is_some_and(|byte| byte.is_ascii_alphanumeric()) => return None,
        _ => {}
    }
    crate::redact::steps::count(IPV4_STEPS_MAX);
    let mut at = start;
    let mut octets = [0; 4];
    for (index, octet) in octets.iter_mut().enumerate() {
        if index > 0 {
            if *text.get(at)? != b'.' {
                return None;
            }
            at += 1;
        }
        let digits = text[at..].iter().take(4).take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 || digits > 3 || (digits > 1 && text[at] == b'0') {
            return None;
        }
        for digit in &text[at..at + digits] {
            *octet = *octet * 10 + u32::from(digit - b'0');
        }
        if *octet > 255 {
            return None;
        }
        at += digits;
    }
    match text.get(at) {
        Some(byte) if byte.is_ascii_alphanumeric() => return None,
        Some(b'.') if text.get(at + 1).is_some_and(u8::is_ascii_digit) => return None,
        _ => {}
    }
    // Browsers call themselves `Chrome/126.0.0.0`.
    let is_product = before(1) == Some(b'/') && before(2).is_some_and(|b| b.is_ascii_alphabetic());
    (!is_product || octets[1..] != [0; 3]).then_some(start..at)
}

/// What was read around a colon.
pub(in crate::redact) struct Ipv6Outcome {
    /// The address.
    pub(in crate::redact) hit: Option<Range<usize>>,
    /// Colons before this position are part of what was read.
    pub(in crate::redact) end: usize,
}

/// The IPv6 address around the colon at `colon`: the second of `::`, or the sixth of all.
///
/// `::` occurs in names of programs too. So an address needs a decimal digit or three groups, and
/// no letter, digit or underscore next to it.
pub(in crate::redact) fn ipv6_around(text: &[u8], colon: usize) -> Ipv6Outcome {
    let is_member = |byte: &&u8| byte.is_ascii_hexdigit() || **byte == b':';
    let back = text[..colon].iter().rev().take(IPV6_BYTES_MAX).take_while(is_member).count();
    let start = colon - back;
    let run = text[colon..]
        .iter()
        .take_while(|byte| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.'))
        .count();
    crate::redact::steps::count(run + IPV6_BYTES_MAX);
    let end = colon + run;
    let mut last = end;
    while last > start && text[last - 1] == b'.' {
        last -= 1;
    }
    if last - start > 2 && text[last - 1] == b':' && text[last - 2] != b':' {
        last -= 1;
    }
    // `source:fe80::1`: what precedes the first colon is the end of a word, and no group.
    let follows_letter = start > 0 && is_word(text[start - 1]);
    let label = text[start..=colon].iter().take_while(|&&byte| byte != b':').count() + 1;
    let start = if follows_letter { start + label } else { start };
    let is_address = start <= colon && is_ipv6(text, start..last);
    Ipv6Outcome { hit: is_address.then_some(start..last), end }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn is_ipv6(text: &[u8], range: Range<usize>) -> bool {
    let Some(address) = text.get(range.clone()).filter(|text| text.len() <= IPV6_BYTES_MAX) else {
        return false;
    };
    if text.get(range.end).is_some_and(|&byte| is_word(byte)) {
        return false;
    }
    let colons = address.iter().filter(|&&byte| byte == b':').count();
    let is_compressed = address.windows(2).any(|pair| pair == b"::");
    if !is_compressed && colons < IPV6_COLONS_MIN {
        return false;
    }
    let has_digit = address.iter().any(u8::is_ascii_digit);
    let groups = || address.split(|&byte| byte == b':').filter(|group| !group.is_empty());
    // `00:1a:2b:3c:4d:5e:6f:70` is a hardware address.
    let is_hardware = !is_compressed && groups().all(|group| group.len() == 2);
    (has_digit || groups().count() > 2)
        && !is_hardware
        && std::str::from_utf8(address).is_ok_and(|text| text.parse::<Ipv6Addr>().is_ok())
}
