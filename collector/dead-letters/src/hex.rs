//! Dumps bytes around a position, in hexadecimal digits.

use std::fmt::Write as _;

/// Bytes per line.
const WIDTH: usize = 16;
/// Lines before and after the one with the position.
const LINES_AROUND: usize = 3;

/// Returns the lines around `position`, each with its offset, digits and text; the byte at
/// `position` is in brackets.
pub(crate) fn dump_around(bytes: &[u8], position: usize) -> String {
    let line = position.min(bytes.len()) / WIDTH;
    let first = line.saturating_sub(LINES_AROUND);
    let mut out = String::new();
    let lines = bytes.chunks(WIDTH).enumerate().skip(first).take(line - first + LINES_AROUND + 1);
    for (number, chunk) in lines {
        let start = number * WIDTH;
        let _ = write!(out, "{start:08x} ");
        for index in 0..WIDTH {
            let (open, close) = if start + index == position { ('[', ']') } else { (' ', ' ') };
            let _ = match chunk.get(index) {
                Some(byte) => write!(out, "{open}{byte:02x}{close}"),
                None => write!(out, "    "),
            };
        }
        let text = chunk.iter().map(|byte| match byte {
            0x20..=0x7e => char::from(*byte),
            _ => '.',
        });
        let _ = writeln!(out, " |{}|", text.collect::<String>());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::dump_around;

    /// Scenario: positions at the start, inside, at and past the end. Guarantee: the byte is marked
    /// if it exists, and few lines are written however long the bytes are.
    #[test]
    fn the_place_is_marked_among_few_lines() {
        let bytes: Vec<u8> = (0..200).collect();
        let text = dump_around(&bytes, 100);
        assert!(text.contains("[64]") && text.contains("00000060 "), "{text}");
        assert_eq!(text.lines().count(), 7);
        assert!(dump_around(&bytes, 0).starts_with("00000000 [00] 01 "));
        assert!(!dump_around(&bytes, 200).contains('['));
        assert!(!dump_around(&bytes, usize::MAX).is_empty());
        assert_eq!(dump_around(&[], 0), "");
    }
}
