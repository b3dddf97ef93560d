//! Tests random files, read in pieces and with restarts, against reading in one piece and against a
//! naive twin that makes trees.

use std::sync::Arc;

use common::{Chance, NOW, decoded, form, read, source, told, tree};
use millrace_lines::{
    Container, FlushReason, LineReader, LogsRequest, MultilineRule, RecordRules, Resume,
};
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use twin::{TIMES, Twin};

use crate::common;
use crate::twin;

/// The number of files in each test: the seeds are 0 to this.
const FILES: u64 = 3000;
/// Pieces of a file after which a restart may happen: a reader that is always lost before a record
/// is complete would never finish.
const RESTARTED_ROUNDS: u32 = 40;

const TEXTS: &[&[u8]] = &[
    b"",
    b"",
    b"E",
    b"E 1",
    b" at x",
    b"\tat y",
    b"plain",
    b"twelve bytes",
    b"\xff",
    b"\xe2\x82",
    b"\r",
    b"x\r",
    "ä€𝄞".as_bytes(),
    b"a line that is longer than every limit of these tests but one",
    b"\0\0\0",
    b"{",
    b"\"log\":",
];

/// Makes a form and a file for it.
fn case(chance: &mut Chance) -> (Arc<RecordRules>, Vec<u8>) {
    let container =
        chance.one(&[Container::None, Container::Cri, Container::DockerJson, Container::Detect]);
    let multiline = match chance.below(3) {
        0 => None,
        1 => Some(MultilineRule::from_pattern("^E|^$").unwrap()),
        _ => Some(MultilineRule::Indented),
    };
    let limit = chance.one(&[4, 7, 20, 20, 40, 400]);
    let of = match container {
        Container::Detect => chance.one(&[Container::Cri, Container::DockerJson]),
        other => other,
    };
    let mut file = Vec::new();
    for _ in 0..chance.below(20) {
        line(chance, of, &mut file);
    }
    if chance.below(3) == 0 {
        file.truncate(file.len().saturating_sub(1 + chance.below(5)));
    }
    (form(container, multiline, limit), file)
}

fn line(chance: &mut Chance, container: Container, file: &mut Vec<u8>) {
    let mut text = chance.one(TEXTS).to_vec();
    if chance.below(20) == 0 {
        text = text.repeat(30);
    }
    let (time, _) = chance.one(TIMES);
    let stream = chance.one(&["stdout", "stdout", "stderr", "stdout", "stderr", "neither"]);
    let is_part = chance.below(3) == 0;
    match container {
        _ if chance.below(25) == 0 => file.extend_from_slice(&text),
        Container::None | Container::Detect => file.extend_from_slice(&text),
        Container::Cri => {
            let tag = if is_part { "P" } else { chance.one(&["F", "F", "F:x"]) };
            file.extend_from_slice(format!("{time} {stream} {tag} ").as_bytes());
            file.extend_from_slice(&text);
        }
        Container::DockerJson => {
            let text = String::from_utf8_lossy(&text).replace('\\', "\\\\").replace('"', "\\\"");
            let text =
                text.replace('\r', "\\r").replace('\0', "\\u0000").replace('𝄞', "\\ud834\\udd1e");
            let end = if is_part { "" } else { "\\n" };
            let line =
                format!("{{\"log\":\"{text}{end}\",\"stream\":\"{stream}\",\"time\":\"{time}\"}}");
            file.extend_from_slice(line.as_bytes());
        }
    }
    file.extend_from_slice(chance.one(&[&b"\n"[..], b"\n", b"\n", b"\r\n"]));
}

/// A caller with a buffer: passes what it has and a little more, and sends full requests.
struct Caller<'a> {
    file: &'a [u8],
    reader: LineReader,
    /// The end of the bytes passed so far.
    given: usize,
    records: Vec<LogRecord>,
}

impl<'a> Caller<'a> {
    fn new(form: &Arc<RecordRules>, file: &'a [u8], from: Option<Resume>) -> Self {
        let reader = match from {
            None => LineReader::new(Arc::clone(form), 0),
            Some(from) => LineReader::resume_from(Arc::clone(form), from),
        };
        Self { file, given: reader.offset() as usize, reader, records: Vec::new() }
    }

    /// Passes up to `more` further bytes. Returns whether these are all.
    fn give(&mut self, more: usize, limit_bytes: usize) -> bool {
        let source = source();
        self.given = (self.given + more).min(self.file.len());
        loop {
            let mut request = LogsRequest::with_limit(limit_bytes);
            let from = self.reader.offset() as usize;
            let taken = self.reader.read_bytes(
                &self.file[from..self.given],
                NOW,
                &mut request.begin_records(&source),
            );
            assert_eq!(self.reader.offset() as usize, from + taken);
            assert!(request.is_empty() || taken > 0);
            self.records.extend(decoded(&request));
            if !request.is_full() {
                return self.given == self.file.len();
            }
        }
    }

    fn end(mut self) -> Vec<LogRecord> {
        let source = source();
        let mut request = LogsRequest::with_limit(1);
        let rest = &self.file[self.reader.offset() as usize..];
        self.reader.flush(
            FlushReason::File { unfinished_line: rest },
            NOW,
            &mut request.begin_records(&source),
        );
        self.records.extend(decoded(&request));
        assert_eq!(self.reader.resume_offset(), self.file.len() as u64);
        self.records
    }
}

/// Scenario: files of each form, with random lines. Guarantee: read in one piece they have the
/// naive twin's records, stream by stream, as the trees that it makes.
#[test]
fn records_are_those_of_a_naive_twin() {
    for seed in 0..FILES {
        let (form, file) = case(&mut Chance(seed));
        let (records, counts) = read(&form, &file);
        let twin = Twin::read(&form, &file);
        assert_eq!(counts, twin.counts, "seed {seed}, {form:?}, {}", file.escape_ascii());
        for (stream, expected) in ["stdout", "stderr", ""].into_iter().zip(twin.records) {
            let names = told(&records);
            let found = records.iter().zip(&names).filter(|(_, (_, of, ..))| of == stream);
            let found: Vec<_> = found.map(|(record, _)| record.clone()).collect();
            let expected = expected.iter().map(|it| tree(it.time, stream, &it.body, it.is_cut));
            let expected: Vec<_> = expected.collect();
            assert_eq!(found, expected, "seed {seed}, {form:?}, {}", file.escape_ascii());
        }
    }
}

/// Scenario: the same files in pieces of any length, into requests of any limit. Guarantee: the
/// same records in the same order; after each piece the resume point is that of one piece up to
/// there; held bytes are bounded; bytes that aren't consumed are at most a line's length.
#[test]
fn any_split_gives_the_same_records_and_places() {
    for seed in 0..FILES {
        let mut chance = Chance(seed);
        let (form, file) = case(&mut chance);
        let (whole, _) = read(&form, &file);
        let mut caller = Caller::new(&form, &file, None);
        loop {
            let (more, limit_bytes) = (1 + chance.below(60), chance.one(&[1, 200, 100_000]));
            let is_all = caller.give(more, limit_bytes);
            let mut once = Caller::new(&form, &file[..caller.given], None);
            once.give(file.len(), usize::MAX);
            assert_eq!(caller.reader.resume_point(), once.reader.resume_point(), "seed {seed}");
            assert_eq!(caller.reader.offset(), once.reader.offset(), "seed {seed}");
            assert_eq!(caller.records, once.records, "seed {seed}");
            assert!(caller.reader.held_bytes() <= 2 * form.max_record_bytes, "seed {seed}");
            let held_by_caller = caller.given - caller.reader.offset() as usize;
            assert!(
                held_by_caller <= form.max_record_bytes + millrace_lines::LINE_OVERHEAD_BYTES + 1
            );
            if is_all {
                break;
            }
        }
        assert_eq!(caller.end(), whole, "seed {seed}, {form:?}, {}", file.escape_ascii());
    }
}

/// Scenario: the reader is lost at any moment, repeatedly, and another one begins at its resume
/// point. Guarantee: no record is lost, altered or repeated.
#[test]
fn restarts_lose_and_repeat_nothing() {
    for seed in 0..FILES {
        let mut chance = Chance(seed);
        let (form, file) = case(&mut chance);
        let (whole, _) = read(&form, &file);
        let mut caller = Caller::new(&form, &file, None);
        let mut records = Vec::new();
        let mut rounds = 0;
        loop {
            let is_all = caller.give(1 + chance.below(90), chance.one(&[1, 200, 100_000]));
            if is_all {
                break;
            }
            rounds += 1;
            if rounds < RESTARTED_ROUNDS && chance.below(2) == 0 {
                let from = caller.reader.resume_point();
                records.append(&mut caller.records);
                caller = Caller::new(&form, &file, Some(from));
            }
        }
        records.append(&mut caller.end());
        assert_eq!(records, whole, "seed {seed}, {form:?}, {}", file.escape_ascii());
    }
}

/// Scenario: the same with forms whose records don't depend on earlier lines, where only the offset
/// was recorded. Guarantee: each record that wasn't written is read, and of a plain file at most
/// the last written record is repeated.
#[test]
fn restarts_by_the_offset_alone_lose_nothing() {
    for seed in 0..FILES {
        let mut chance = Chance(seed);
        let (form, file) = case(&mut chance);
        let is_plain = form.container == Container::None;
        if form.multiline.is_some() && !is_plain {
            continue;
        }
        let (whole, _) = read(&form, &file);
        let mut caller = Caller::new(&form, &file, None);
        caller.give(chance.below(file.len() + 1), chance.one(&[1, 200, 100_000]));
        let offset = caller.reader.resume_offset();
        let from = Resume { offset, written: [offset; 3] };
        let mut again = Caller::new(&form, &file, Some(from));
        again.give(file.len(), usize::MAX);
        let mut rest = again.end();
        let told = format!("seed {seed}, {form:?}, {}", file.escape_ascii());
        let mut missing = whole.clone();
        for record in &caller.records {
            missing.remove(missing.iter().position(|one| one == record).expect(&told));
        }
        if is_plain {
            assert!(rest.ends_with(&missing) && rest.len() <= missing.len() + 1, "{told}");
        }
        for record in missing {
            rest.remove(rest.iter().position(|one| *one == record).expect(&told));
        }
    }
}
