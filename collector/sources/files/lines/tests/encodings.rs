//! Tests plain files in UTF-16 and Latin-1: random ones against the standard library, and written
//! ones.

use std::sync::Arc;

use common::{Chance, NOW, decoded, form, read, source, told};
use millrace_lines::{
    Container, FlushReason, LineReader, LogsRequest, MultilineRule, RecordRules, Resume,
    TextEncoding,
};

use crate::common;

/// The number of files in each test: the seeds are 0 to this.
const FILES: u64 = 3000;
/// Pieces of a file after which a restart may happen.
const RESTARTED_ROUNDS: u32 = 40;

/// Relevant units: ends of lines, units with a byte of one, halves of pairs, a byte order mark.
const UNITS: &[u16] = &[
    0x0a, 0x0a, 0x0a, 0x0d, 0x0a0a, 0x0a00, 0x0d0a, 0x0a0d, 0x000d, 0x61, 0x20, 0x09, 0xe4, 0x20ac,
    0xd834, 0xdd1e, 0xd834, 0xdd1e, 0xfeff, 0xfffe, 0x0000, 0x45,
];

fn encoded(form: &RecordRules, encoding: TextEncoding) -> Arc<RecordRules> {
    Arc::new(RecordRules { encoding, ..form.clone() })
}

fn bytes_of(units: &[u16], encoding: TextEncoding) -> Vec<u8> {
    let bytes = |unit: &u16| match encoding {
        TextEncoding::Utf16Le => unit.to_le_bytes(),
        _ => unit.to_be_bytes(),
    };
    units.iter().flat_map(bytes).collect()
}

/// Makes a file in UTF-16: its form, its bytes, and its units without a byte order mark.
fn case(chance: &mut Chance, limits: &[usize]) -> (Arc<RecordRules>, Vec<u8>, Vec<u16>) {
    let multiline = match chance.below(3) {
        0 => None,
        1 => Some(MultilineRule::from_pattern("^E|^$").unwrap()),
        _ => Some(MultilineRule::Indented),
    };
    let [said, actual] =
        [0, 1].map(|_| chance.one(&[TextEncoding::Utf16Le, TextEncoding::Utf16Be]));
    let form = form(Container::None, multiline, chance.one(limits));
    let mut units: Vec<u16> = (0..chance.below(60)).map(|_| chance.one(UNITS)).collect();
    if units.first().is_some_and(|first| [0xfeff, 0xfffe].contains(first)) {
        units[0] = 0x61;
    }
    // A mark states the order that the settings may not.
    let has_mark = said != actual || chance.below(2) == 0;
    let mark = if has_mark { bytes_of(&[0xfeff], actual) } else { Vec::new() };
    let mut file = [mark, bytes_of(&units, actual)].concat();
    if chance.below(3) == 0 {
        file.push(0x0a);
    }
    (encoded(&form, said), file, units)
}

/// A caller with a buffer: passes what it has and a little more, and sends full requests.
struct Caller<'a> {
    form: &'a Arc<RecordRules>,
    file: &'a [u8],
    reader: LineReader,
    given: usize,
    records: Vec<(String, bool)>,
}

impl<'a> Caller<'a> {
    fn new(form: &'a Arc<RecordRules>, file: &'a [u8]) -> Self {
        let reader = LineReader::new(Arc::clone(form), 0);
        Self { form, file, reader, given: 0, records: Vec::new() }
    }

    fn keep(&mut self, request: &LogsRequest) {
        let records = decoded(request);
        self.records.extend(told(&records).into_iter().map(|(_, _, body, cut)| (body, cut)));
    }

    /// Passes up to `more` further bytes. Returns whether these are all.
    fn give(&mut self, more: usize, limit_bytes: usize) -> bool {
        self.given = (self.given + more).min(self.file.len());
        loop {
            let source = source();
            let mut request = LogsRequest::with_limit(limit_bytes);
            let from = self.reader.offset() as usize;
            let bytes = &self.file[from..self.given];
            self.reader.read_bytes(bytes, NOW, &mut request.begin_records(&source));
            self.keep(&request);
            if !request.is_full() {
                let left = &self.file[self.reader.offset() as usize..self.given];
                assert!(!self.reader.has_line(left));
                assert!(left.len() <= self.form.max_record_bytes + 8);
                return self.given == self.file.len();
            }
        }
    }

    fn restart(&mut self, from: Resume) {
        self.reader = LineReader::resume_from(Arc::clone(self.form), from).of_file(self.file);
        self.given = self.reader.offset() as usize;
    }

    fn end(mut self) -> Vec<(String, bool)> {
        let source = source();
        let mut request = LogsRequest::with_limit(1);
        let rest = &self.file[self.reader.offset() as usize..];
        self.reader.flush(
            FlushReason::File { unfinished_line: rest },
            NOW,
            &mut request.begin_records(&source),
        );
        self.keep(&request);
        assert_eq!(self.reader.resume_offset(), self.file.len() as u64);
        self.records
    }
}

/// Scenario: random files in UTF-16, in either order of bytes, with and without a byte order mark,
/// with units that contain a line feed's byte, and halves of pairs. Guarantee: each line is what
/// the standard library decodes; lines with half of a pair are counted.
#[test]
fn each_line_is_what_the_standard_library_reads() {
    for seed in 0..FILES {
        let (form, file, units) = case(&mut Chance(seed), &[1000]);
        let form = Arc::new(RecordRules { multiline: None, ..RecordRules::clone(&form) });
        let (mut expected, mut lossy) = (Vec::new(), 0);
        let mut lines: Vec<&[u16]> = units.split(|unit| *unit == 0x0a).collect();
        let last = lines.pop().unwrap();
        for line in lines {
            let line = line.strip_suffix(&[0x0d]).unwrap_or(line);
            expected.push(String::from_utf16_lossy(line));
            lossy += u64::from(String::from_utf16(line).is_err());
        }
        // An odd byte at the end is half of a unit.
        if file.len() % 2 == 1 {
            expected.push(String::from_utf16_lossy(last) + "\u{fffd}");
            lossy += 1;
        } else {
            let last = last.strip_suffix(&[0x0d]).unwrap_or(last);
            expected.push(String::from_utf16_lossy(last));
            lossy += u64::from(String::from_utf16(last).is_err());
        }
        expected.retain(|line| !line.is_empty());
        let (records, counts) = read(&form, &file);
        let found: Vec<_> = told(&records).into_iter().map(|(_, _, body, _)| body).collect();
        assert_eq!(found, expected, "seed {seed}, {form:?}, {}", file.escape_ascii());
        assert_eq!((counts.invalid_utf8, counts.cut), (lossy, 0), "seed {seed}");
    }
}

/// Scenario: the same files, also in Latin-1, multiline and with short limits, in pieces of any
/// length, with restarts at any moment. Guarantee: the same records in the same order.
#[test]
fn any_split_and_any_restart_give_the_same_records() {
    for seed in 0..FILES {
        let mut chance = Chance(seed);
        let (mut form, file, _) = case(&mut chance, &[4, 5, 7, 20, 400]);
        if chance.below(4) == 0 {
            form = encoded(&form, TextEncoding::Latin1);
        }
        let mut whole = Caller::new(&form, &file);
        whole.give(file.len(), usize::MAX);
        let whole = whole.end();
        let mut caller = Caller::new(&form, &file);
        let mut rounds = 0;
        while !caller.give(1 + chance.below(9), chance.one(&[1, 200, 100_000])) {
            rounds += 1;
            if rounds < RESTARTED_ROUNDS && chance.below(4) == 0 {
                let from = caller.reader.resume_point();
                caller.restart(from);
            }
        }
        assert_eq!(caller.end(), whole, "seed {seed}, {form:?}, {}", file.escape_ascii());
    }
}

/// Scenario: a file of every byte except ends of lines, in Latin-1. Guarantee: each byte is the
/// character with its number.
#[test]
fn each_byte_of_latin_1_is_the_character_with_its_number() {
    let bytes: Vec<u8> = (0..=255).filter(|byte| *byte != b'\n').collect();
    let file = [&bytes[..], b"\r\n\xe4\n"].concat();
    let form = encoded(&form(Container::None, None, 1000), TextEncoding::Latin1);
    let (records, counts) = read(&form, &file);
    let found: Vec<_> = told(&records).into_iter().map(|(_, _, body, _)| body).collect();
    let expected: String = bytes.iter().map(|byte| char::from(*byte)).collect();
    assert_eq!(found, [expected, "ä".to_owned()]);
    assert_eq!(counts.invalid_utf8, 0);
}

/// Scenario: lines at the limit and over it, in the file's bytes and in the text's. Guarantee: the
/// limit applies to both; longer lines are cut after a complete character, marked and counted; the
/// next line is complete.
#[test]
fn the_limit_holds_for_the_files_bytes_and_for_the_text() {
    let of = |encoding, file: &[u8]| {
        let form = encoded(&form(Container::None, None, 8), encoding);
        let (records, counts) = read(&form, file);
        let found = told(&records).into_iter().map(|(_, _, body, cut)| (body, cut));
        let found: Vec<_> = found.collect();
        assert_eq!(counts.cut, found.iter().filter(|(_, cut)| *cut).count() as u64);
        found
    };
    let wide = |text: &str| {
        let units: Vec<u16> = text.encode_utf16().collect();
        bytes_of(&units, TextEncoding::Utf16Le)
    };
    for (line, expected) in [
        ("abcd", ("abcd", false)),
        ("abcd\r", ("abcd", false)),
        ("abcde", ("abcd", true)),
        ("abc𝄞", ("abc", true)),
        // Nine bytes of text in six of the file.
        ("€€€", ("€€", true)),
    ] {
        let found = of(TextEncoding::Utf16Le, &wide(&format!("{line}\nnext\n")));
        assert_eq!(found, [(expected.0.to_owned(), expected.1), ("next".to_owned(), false)]);
    }
    let found = of(TextEncoding::Latin1, b"\xe4\xe4\xe4\xe4\xe4\nnext\n");
    assert_eq!(found, [("ääää".to_owned(), true), ("next".to_owned(), false)]);
}

/// Scenario: a file that was read as UTF-8 before is read on as UTF-16, from the middle of a line
/// feed; and one from its end, within a line. Guarantee: units stay complete; the next line is
/// read.
#[test]
fn an_odd_offset_is_in_the_middle_of_a_unit() {
    let units: Vec<u16> = "one\ntwo\nthree\n".encode_utf16().collect();
    let file = bytes_of(&units, TextEncoding::Utf16Le);
    let form = encoded(&form(Container::None, None, 100), TextEncoding::Utf16Le);
    // After the first byte of the first line feed; within the second line.
    for (from, expected) in [
        (Resume { offset: 7, written: [7; 3] }, &["two", "three"][..]),
        (Resume { offset: 11, written: [12; 3] }, &["three"]),
    ] {
        let mut caller = Caller::new(&form, &file);
        caller.restart(from);
        caller.give(file.len(), usize::MAX);
        let found: Vec<_> = caller.end().into_iter().map(|(body, _)| body).collect();
        assert_eq!(found, expected);
    }
}

/// Scenario: offsets after line feeds, within and after units, and after a byte order mark.
/// Guarantee: a line begins where the previous one has ended.
#[test]
fn a_line_begins_behind_a_whole_line_feed() {
    use TextEncoding::{Latin1, Utf8, Utf16Be, Utf16Le};
    for (encoding, offset, before, begins) in [
        (Utf8, 0, &b""[..], true),
        (Utf8, 3, b"a\n", true),
        (Latin1, 3, b"\na", false),
        (Utf16Le, 0, b"", true),
        (Utf16Le, 4, b"\n\0", true),
        (Utf16Be, 4, b"\n\0", false),
        (Utf16Be, 4, b"\0\n", true),
        (Utf16Le, 3, b"\n\0", false),
        (Utf16Le, 2, b"\xff\xfe", true),
        (Utf16Le, 4, b"\xff\xfe", false),
        (Utf16Le, 1, b"\n", false),
    ] {
        assert_eq!(
            encoding.begins_line(offset, before),
            begins,
            "{encoding:?} {offset} {before:?}"
        );
    }
}
