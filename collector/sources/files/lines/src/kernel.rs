//! Converts records of the kernel's log, one per read of `/dev/kmsg`, to OTLP. No clock, no I/O.
//!
//! A record is `PRIORITY,SEQUENCE,MICROSECONDS,FLAGS[,NAME=VALUE...];TEXT`, a line feed, and lines
//! of a space and `KEY=VALUE`. Bytes that aren't printable ASCII, and `\`, are written `\xNN`.
//!
//! # Rules
//! - The text is the body. Its escapes and those of values are undone; any other `\` is unchanged.
//! - The priority becomes the severity, the facility `syslog.facility`, both by name.
//! - `KEY=VALUE` becomes the attribute `kernel.key`, in lower case, if the key has only capital
//!   letters, digits and `_`. Any other line, and a repeated key, is added to the body after a line
//!   feed: nothing is lost.
//! - A record without a readable head is stored unchanged, without time and severity.
//! - Unknown fields of the head are skipped, as the kernel's documentation requires.
//! - U+FFFD replaces bytes that aren't UTF-8.

use millrace_wire::protobuf::{VARINT, field_tag, put_varint};

use crate::container::OutputStream;
use crate::request::{ATTRIBUTE, LineRecord, RecordFields, Records, put_attribute, put_key_value};
use crate::text::is_text;

/// The maximum bytes of a record to read: the kernel writes at most 8 KiB with its escapes.
pub const KERNEL_RECORD_BYTES_MAX: usize = 16 * 1024;

/// The maximum fields of a record that become attributes; the kernel writes two. Others remain in
/// the body, so that the comparison of names is bounded.
const FIELDS_MAX: usize = 16;

/// The maximum bytes of a key: `SUBSYSTEM` has nine characters.
const KEY_BYTES_MAX: usize = 64;

const UID: &str = "log.record.uid";
const FACILITY: &str = "syslog.facility";
const SEQUENCE: &str = "kernel.sequence";
const CALLER: &str = "kernel.caller";
const FRAGMENT: &str = "kernel.fragment";
/// The prefix of attributes made of fields.
const PREFIX: &str = "kernel.";

/// `AnyValue.int_value`.
const INT: u8 = field_tag(3, VARINT) as u8;

/// Syslog's severities from 0: name and OpenTelemetry's number.
const SEVERITIES: [(&str, u8); 8] = [
    ("emerg", 21),
    ("alert", 19),
    ("crit", 18),
    ("err", 17),
    ("warning", 13),
    ("notice", 10),
    ("info", 9),
    ("debug", 5),
];

/// Syslog's facilities from 0. Others are written as numbers.
const FACILITIES: [&str; 24] = [
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv",
    "ftp", "ntp", "audit", "alert", "clock", "local0", "local1", "local2", "local3", "local4",
    "local5", "local6", "local7",
];

/// A record with a parsed head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelRecord<'a> {
    head: Option<KmsgHeader<'a>>,
    /// The bytes after the head; all bytes without one.
    content: &'a [u8],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct KmsgHeader<'a> {
    priority: u32,
    sequence: u64,
    micros: u64,
    /// `-`; in older kernels `c` and `+` for a line in pieces.
    flags: &'a [u8],
    caller: Option<&'a [u8]>,
}

/// The values common to records that are read together.
#[derive(Debug, Clone, Copy)]
pub struct KernelMoment<'a> {
    /// The boot's id. With the sequence number it identifies a record permanently.
    pub boot_id: &'a str,
    /// The time at which the kernel's clock was 0, in nanoseconds since 1970.
    pub zero_unix_nano: u64,
    /// The time of the read, in nanoseconds since 1970.
    pub now_unix_nano: u64,
}

impl<'a> KernelRecord<'a> {
    /// Parses a record's head.
    #[must_use]
    pub fn read(record: &'a [u8]) -> Self {
        let record = record.strip_suffix(b"\n").unwrap_or(record);
        let headless = Self { head: None, content: record };
        let Some(end) = memchr::memchr(b';', record) else { return headless };
        match KmsgHeader::read(&record[..end]) {
            Some(head) => Self { head: Some(head), content: &record[end + 1..] },
            None => headless,
        }
    }

    /// The sequence number in this boot. None if the head can't be parsed.
    #[must_use]
    pub fn sequence(&self) -> Option<u64> {
        self.head.map(|head| head.sequence)
    }
}

impl<'a> KmsgHeader<'a> {
    fn read(head: &'a [u8]) -> Option<Self> {
        let mut fields = head.split(|byte| *byte == b',');
        let priority = u32::try_from(parse_decimal(fields.next()?)?).ok()?;
        let (sequence, micros) = (parse_decimal(fields.next()?)?, parse_decimal(fields.next()?)?);
        // Linux 3.5 has no flags.
        let flags = fields.next().unwrap_or_default();
        let caller = fields.find_map(|field| field.strip_prefix(b"caller="));
        Some(Self { priority, sequence, micros, flags, caller })
    }

    /// Nanoseconds since 1970, or 0 (unknown) above the range of tables.
    fn time_unix_nano(&self, zero_unix_nano: u64) -> u64 {
        let nanos = self.micros.checked_mul(1000);
        let time = nanos.and_then(|nanos| nanos.checked_add(zero_unix_nano));
        time.filter(|time| i64::try_from(*time).is_ok()).unwrap_or(0)
    }
}

/// Parses a number that consists only of decimal digits.
fn parse_decimal(text: &[u8]) -> Option<u64> {
    if !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Writes records, with reused buffers.
#[derive(Debug, Default)]
pub struct KernelWriter {
    body: Vec<u8>,
    value: Vec<u8>,
    attributes: Vec<u8>,
    /// The attribute names written for this record.
    names: Vec<String>,
}

impl KernelWriter {
    /// Writes a record. Returns false if U+FFFD replaced some of its bytes.
    pub fn write(
        &mut self,
        record: &KernelRecord<'_>,
        moment: &KernelMoment<'_>,
        records: &mut Records<'_>,
    ) -> bool {
        self.body.clear();
        self.attributes.clear();
        self.names.clear();
        let mut more = RecordFields::default();
        let mut is_all_text = true;
        match &record.head {
            None => append_unescaped(record.content, &mut self.body),
            Some(head) => {
                let (severity, number) = SEVERITIES[(head.priority & 7) as usize];
                more.severity = (number, severity.as_bytes());
                more.time_unix_nano = head.time_unix_nano(moment.zero_unix_nano);
                self.put_head(head, moment.boot_id);
                let mut lines = record.content.split(|byte| *byte == b'\n');
                append_unescaped(lines.next().unwrap_or_default(), &mut self.body);
                for line in lines {
                    is_all_text &= self.put_line(line);
                }
            }
        }
        more.attributes = &self.attributes;
        let record = LineRecord {
            stream: OutputStream::Unknown,
            time_unix_nano: more.time_unix_nano,
            observed_time_unix_nano: moment.now_unix_nano,
            body: &self.body,
            is_cut: false,
        };
        records.write_plain(&record, &more) && is_all_text
    }

    fn put_head(&mut self, head: &KmsgHeader<'_>, boot_id: &str) {
        let out = &mut self.attributes;
        let facility = head.priority >> 3;
        match FACILITIES.get(facility as usize) {
            Some(name) => put_attribute(out, ATTRIBUTE, FACILITY, name),
            None => put_attribute(out, ATTRIBUTE, FACILITY, &facility.to_string()),
        }
        let mut value = vec![INT];
        put_varint(&mut value, head.sequence);
        put_key_value(out, ATTRIBUTE, SEQUENCE, &value);
        put_attribute(out, ATTRIBUTE, UID, &format!("{boot_id}:{}", head.sequence));
        if let Some(caller) = head.caller {
            put_attribute(out, ATTRIBUTE, CALLER, &String::from_utf8_lossy(caller));
        }
        if !matches!(head.flags, b"" | b"-") {
            put_attribute(out, ATTRIBUTE, FRAGMENT, &String::from_utf8_lossy(head.flags));
        }
    }

    /// Writes a line after the text: as a field, or to the body. Returns false if a value isn't
    /// UTF-8.
    fn put_line(&mut self, line: &[u8]) -> bool {
        let Some((name, value)) = parse_field(line).filter(|(name, _)| self.is_free(name)) else {
            self.body.push(b'\n');
            append_unescaped(line, &mut self.body);
            return true;
        };
        self.value.clear();
        append_unescaped(value, &mut self.value);
        put_attribute(
            &mut self.attributes,
            ATTRIBUTE,
            &name,
            &String::from_utf8_lossy(&self.value),
        );
        self.names.push(name);
        is_text(&self.value)
    }

    fn is_free(&self, name: &str) -> bool {
        ![SEQUENCE, CALLER, FRAGMENT].contains(&name)
            && self.names.len() < FIELDS_MAX
            && !self.names.iter().any(|known| known == name)
    }
}

/// Returns the attribute name and value, if the line is a field.
fn parse_field(line: &[u8]) -> Option<(String, &[u8])> {
    let line = line.strip_prefix(b" ")?;
    let end = memchr::memchr(b'=', line)?;
    let (key, value) = (&line[..end], &line[end + 1..]);
    let is_of_key = |byte: &u8| matches!(byte, b'A'..=b'Z' | b'0'..=b'9' | b'_');
    if key.is_empty() || key.len() > KEY_BYTES_MAX || !key.iter().all(is_of_key) {
        return None;
    }
    let key = std::str::from_utf8(key).ok()?.to_ascii_lowercase();
    Some((format!("{PREFIX}{key}"), value))
}

/// Appends `text` unescaped.
fn append_unescaped(mut text: &[u8], out: &mut Vec<u8>) {
    while let Some(at) = memchr::memchr(b'\\', text) {
        out.extend_from_slice(&text[..at]);
        let rest = &text[at + 1..];
        let byte = match rest {
            [b'x', high, low, ..] => {
                hex_digit(*high).zip(hex_digit(*low)).map(|(high, low)| high << 4 | low)
            }
            _ => None,
        };
        out.push(byte.unwrap_or(b'\\'));
        text = if byte.is_some() { &rest[3..] } else { rest };
    }
    out.extend_from_slice(text);
}

fn hex_digit(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}
