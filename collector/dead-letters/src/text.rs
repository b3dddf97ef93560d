//! Makes untrusted text safe for a terminal, and times readable.

use jiff::Timestamp;

/// Maximum characters shown of an untrusted text.
const MAX_CHARS: usize = 300;

/// Removes control characters, and truncates.
pub(crate) fn sanitize_text(text: &str) -> String {
    let mut chars = text.chars();
    let replace = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    let mut clean: String = chars.by_ref().take(MAX_CHARS).map(replace).collect();
    if chars.next().is_some() {
        clean.push('…');
    }
    clean
}

/// Returns bytes as text if they are text, otherwise in hexadecimal digits.
pub(crate) fn sanitize_bytes(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.chars().any(char::is_control) => sanitize_text(text),
        _ => {
            let digits: String =
                bytes.iter().take(MAX_CHARS / 2).map(|byte| format!("{byte:02x}")).collect();
            let more = if bytes.len() > MAX_CHARS / 2 { "…" } else { "" };
            format!("0x{digits}{more}")
        }
    }
}

/// Returns a time in UTC with milliseconds; `-` for none, or for one outside the calendar.
pub(crate) fn render_time(millis: Option<i64>) -> String {
    let time = millis.and_then(|millis| Timestamp::from_millisecond(millis).ok());
    time.map_or_else(|| "-".to_owned(), |time| format!("{time:.3}"))
}

#[cfg(test)]
mod tests {
    use super::{render_time, sanitize_bytes, sanitize_text};

    /// Scenario: escape sequences, endless text, bytes. Guarantee: only plain text reaches a
    /// terminal.
    #[test]
    fn text_of_strangers_is_harmless() {
        assert_eq!(sanitize_text("a\u{1b}[2Jb\n"), "a\u{fffd}[2Jb\u{fffd}");
        assert_eq!(sanitize_text(&"ä".repeat(1000)).chars().count(), 301);
        assert_eq!(sanitize_bytes(b"key-1"), "key-1");
        assert_eq!(sanitize_bytes(&[0, 0xff]), "0x00ff");
        assert!(sanitize_bytes(&[0; 1000]).len() < 310);
    }

    /// Scenario: times inside and outside the calendar. Guarantee: UTC with milliseconds, or a
    /// dash.
    #[test]
    fn times_are_in_utc() {
        assert_eq!(render_time(Some(1_767_225_600_123)), "2026-01-01T00:00:00.123Z");
        assert_eq!(
            (render_time(None), render_time(Some(i64::MAX))),
            ("-".to_owned(), "-".to_owned())
        );
    }
}
