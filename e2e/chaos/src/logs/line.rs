//! Lines of log files: each is told by its round, its file and its number, and its whole text
//! follows from these, so that a row can be held against what was written. Pure.

use millrace_stack::random::Random;

/// Digits of a line's number.
const DIGITS: usize = 10;
/// What comes after the number: as short and as long as in most logs.
const TEXT_CHARS: (u64, u64) = (20, 400);
/// One line in this many is as long as a trace in one line.
const LONG_EVERY: u64 = 400;
/// Its length: more than the 16 KiB at which container runtimes cut a line in parts.
const LONG_CHARS: u64 = 20_000;
/// One letter of this many ends a line of the record, in a file whose records have several.
const BREAK_EVERY: u64 = 60;
/// How a record's further lines begin.
const FURTHER: &str = "\n at ";
/// Letters of one, two, three and four bytes, so that a cut within one shows.
const LETTERS: [char; 16] =
    ['a', 'b', 'c', 'd', 'e', 'f', 'g', ' ', '=', '"', '\\', '{', '7', 'é', '語', '𐌰'];

/// What a file's bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// UTF-8, a record each line.
    Plain,
    /// Records of several lines, all but the first indented.
    Several,
    /// UTF-16, low bytes first.
    Wide,
}

/// What a file's bytes are: one is wide and one has several lines, each rotated in another manner.
pub fn form(file: usize) -> Form {
    match file {
        4 => Form::Several,
        6 => Form::Wide,
        _ => Form::Plain,
    }
}

/// A text and the end of its line, as its file has them.
pub fn bytes(file: usize, text: &str) -> Vec<u8> {
    let whole = format!("{text}\n");
    match form(file) {
        Form::Plain | Form::Several => whole.into_bytes(),
        Form::Wide => whole.encode_utf16().flat_map(u16::to_le_bytes).collect(),
    }
}

/// How every line of a round begins.
pub fn round_mark(round: u64) -> String {
    format!("{:08x}/", round as u32)
}

/// How every line of a file begins. All marks of a round are as long as each other.
pub fn file_mark(round: u64, file: usize) -> String {
    format!("{}{file:02}/", round_mark(round))
}

/// Line `number` of a file, without its end.
pub fn text(round: u64, file: usize, number: u64) -> String {
    let mut random = Random::new(round ^ ((file as u64) << 56) ^ number);
    random.number();
    let length = match random.below(LONG_EVERY) {
        0 => LONG_CHARS,
        _ => TEXT_CHARS.0 + random.below(TEXT_CHARS.1 - TEXT_CHARS.0),
    };
    let mut text = format!("{}{number:0DIGITS$} ", file_mark(round, file));
    for _ in 0..length {
        if form(file) == Form::Several && random.below(BREAK_EVERY) == 0 {
            text.push_str(FURTHER);
        }
        text.push(LETTERS[random.below(LETTERS.len() as u64) as usize]);
    }
    text.push('.');
    text
}

/// Where in a line its number is, counted from 1 as in SQL, and its length.
pub fn number_place(round: u64, file: usize) -> (usize, usize) {
    (file_mark(round, file).len() + 1, DIGITS)
}

/// A text's checksum, by the rule of ClickHouse's `CRC32`: that of zlib.
pub fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| match crc & 1 {
            0 => crc >> 1,
            _ => (crc >> 1) ^ 0xedb8_8320,
        })
    };
    !bytes.iter().fold(u32::MAX, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: the check value of the checksum's specification; one line twice, its neighbours in
    /// number, file and round. Guarantee: rows can be compared with ClickHouse's checksum, and a
    /// line's text is its own.
    #[test]
    fn a_lines_text_follows_from_its_name_and_is_its_own() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        let line = text(7, 3, 12);
        assert_eq!(line, text(7, 3, 12));
        for other in [text(7, 3, 13), text(7, 4, 12), text(8, 3, 12)] {
            assert_ne!(crc32(line.as_bytes()), crc32(other.as_bytes()));
        }
        let (from, length) = number_place(7, 3);
        assert_eq!(&line[from - 1..from - 1 + length], "0000000012");
        assert!(line.starts_with(&file_mark(7, 3)) && line.starts_with(&round_mark(7)), "{line}");
        assert!(!line.contains('\n'));
    }

    /// Scenario: many records of a file with several lines each, and of one in UTF-16. Guarantee: a
    /// record's further lines are indented, so that it can be told where the next one begins, and
    /// some have further lines; the wide file's bytes are its text, with an end of line at its end
    /// alone.
    #[test]
    fn each_form_says_where_a_record_ends() {
        let mut further = 0;
        for number in 0..500 {
            let record = text(7, 4, number);
            let mut lines = record.split('\n');
            assert!(lines.next().is_some_and(|first| first.starts_with(&file_mark(7, 4))));
            further += lines.map(|line| assert!(line.starts_with(' '), "{line:?}")).count();
            let wide = text(7, 6, number);
            let units: Vec<u16> = bytes(6, &wide)
                .chunks(2)
                .map(|unit| u16::from_le_bytes([unit[0], unit[1]]))
                .collect();
            assert_eq!(String::from_utf16(&units).unwrap(), format!("{wide}\n"));
        }
        assert!(further > 500, "{further} further lines of 500 records");
        assert_eq!([form(4), form(6), form(0)], [Form::Several, Form::Wide, Form::Plain]);
    }
}
