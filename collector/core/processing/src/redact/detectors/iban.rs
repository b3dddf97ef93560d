//! International bank account numbers (ISO 13616).

/// The longest IBAN that the registry permits.
const IBAN_BYTES_MAX: usize = 34;

/// The country, and the check digits after it.
const HEAD_BYTES: usize = 4;

/// The most bytes that are read at a candidate: the number with a space after every fourth
/// character.
const STEPS_MAX: usize = IBAN_BYTES_MAX + IBAN_BYTES_MAX / 4;

/// The end of the IBAN that begins at `start`: in either case, in one piece or in groups of
/// four with a space, hyphen or dot between them. The caller checks that no letter or digit
/// precedes it.
pub(in crate::redact) fn iban_end(text: &[u8], start: usize) -> Option<usize> {
    let country =
        [text.get(start)?.to_ascii_uppercase(), text.get(start + 1)?.to_ascii_uppercase()];
    let length = country_length(country)?;
    crate::redact::steps::count(STEPS_MAX);
    let mut characters = [0; IBAN_BYTES_MAX];
    let mut at = start;
    for (index, character) in characters[..length].iter_mut().enumerate() {
        let has_gap = index > 0 && index % 4 == 0;
        if has_gap && matches!(text.get(at), Some(b' ' | b'-' | b'.')) {
            at += 1;
        }
        let byte = *text.get(at)?;
        if !byte.is_ascii_alphanumeric() {
            return None;
        }
        *character = byte;
        at += 1;
    }
    if text.get(at).is_some_and(u8::is_ascii_alphanumeric) {
        return None;
    }
    characters[..length].rotate_left(HEAD_BYTES);
    let remainder = characters[..length].iter().fold(0_u32, |remainder, byte| {
        match byte.to_ascii_uppercase() {
            digit @ b'0'..=b'9' => (remainder * 10 + u32::from(digit - b'0')) % 97,
            letter => (remainder * 100 + u32::from(letter - b'A') + 10) % 97,
        }
    });
    (remainder == 1).then_some(at)
}

/// The length of a country's IBANs, by SWIFT's registry.
fn country_length(country: [u8; 2]) -> Option<usize> {
    Some(match &country {
        b"NO" => 15,
        b"BE" => 16,
        b"DK" | b"FI" | b"FK" | b"FO" | b"GL" | b"NL" | b"SD" => 18,
        b"MK" | b"SI" => 19,
        b"AT" | b"BA" | b"EE" | b"KZ" | b"LT" | b"LU" | b"MN" | b"XK" => 20,
        b"CH" | b"HR" | b"LI" | b"LV" => 21,
        b"BG" | b"BH" | b"CR" | b"DE" | b"GB" | b"GE" | b"IE" | b"ME" | b"RS" | b"VA" | b"VG" => 22,
        b"AE" | b"GI" | b"IL" | b"IQ" | b"OM" | b"SO" | b"TL" => 23,
        b"AD" | b"CZ" | b"ES" | b"MD" | b"PK" | b"RO" | b"SA" | b"SE" | b"SK" | b"TN" => 24,
        b"LY" | b"PT" | b"ST" => 25,
        b"IS" | b"TR" => 26,
        b"BI" | b"DJ" | b"FR" | b"GR" | b"IT" | b"MC" | b"MR" | b"SM" => 27,
        b"AL" | b"AZ" | b"BY" | b"CY" | b"DO" | b"GT" | b"HN" | b"HU" | b"LB" | b"NI" | b"PL"
        | b"SV" => 28,
        b"BR" | b"EG" | b"PS" | b"QA" | b"UA" => 29,
        b"JO" | b"KW" | b"MU" | b"YE" => 30,
        b"MT" | b"SC" => 31,
        b"LC" => 32,
        b"RU" => 33,
        _ => return None,
    })
}
