//! A naive reference implementation: complete files, strings, only lists as state between lines.

use millrace_lines::{Container, LINE_OVERHEAD_BYTES, RecordCounts, RecordRules};

/// Times as text, and in nanoseconds.
pub(crate) const TIMES: &[(&str, u64)] = &[
    ("2016-10-06T00:17:09Z", 1_475_713_029_000_000_000),
    ("2016-10-06T02:17:09.669794202+02:00", 1_475_713_029_669_794_202),
    ("2024-02-29T12:00:00.5Z", 1_709_208_000_500_000_000),
    ("2024-02-29T12:00:00.1234567891Z", 0),
    ("yesterday", 0),
];

/// A record of a stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    pub(crate) time: u64,
    pub(crate) body: String,
    pub(crate) is_cut: bool,
}

/// The records of a file, by stream: standard output, standard error, neither.
#[derive(Debug, Default)]
pub(crate) struct Twin {
    pub(crate) records: [Vec<Told>; 3],
    pub(crate) counts: RecordCounts,
}

/// A joined line of a stream.
#[derive(Clone, Debug, Default)]
struct Joined {
    time: u64,
    first: Vec<u8>,
    text: Vec<u8>,
    parts: usize,
    is_cut: bool,
}

struct Part {
    stream: usize,
    time: u64,
    text: Vec<u8>,
    is_last: bool,
}

impl Twin {
    pub(crate) fn read(form: &RecordRules, file: &[u8]) -> Self {
        let mut twin = Self::default();
        let mut lines: [Vec<Joined>; 3] = Default::default();
        let mut going: [Option<Joined>; 3] = Default::default();
        // Bytes after the last line feed are a line unless there are none.
        let file = file.strip_suffix(b"\n").unwrap_or(file);
        for raw in file.split(|byte| *byte == b'\n') {
            if form.container == Container::None {
                let raw = raw.strip_suffix(b"\r").unwrap_or(raw);
                let (text, is_cut) = cut(raw, form.max_record_bytes);
                lines[2].push(Joined { first: text.clone(), text, parts: 1, is_cut, time: 0 });
                continue;
            }
            let (raw, is_cut) = cut(raw, form.max_record_bytes + LINE_OVERHEAD_BYTES);
            let Some(part) = part(form, &raw, is_cut) else {
                let raw = raw.strip_suffix(b"\r").unwrap_or(&raw);
                if !raw.is_empty() {
                    let (text, more) = cut(raw, form.max_record_bytes);
                    let is_docker_text = is_cut && raw.starts_with(b"{\"log\":\"");
                    let text = if is_docker_text { docker_text(form, raw) } else { text };
                    twin.counts.unparsed += u64::from(!is_docker_text);
                    twin.put(2, 0, &text, is_cut || more);
                }
                continue;
            };
            let line = going[part.stream].get_or_insert_with(|| Joined {
                time: part.time,
                first: part.text.clone(),
                ..Joined::default()
            });
            line.parts += 1;
            if !line.is_cut {
                line.text.extend_from_slice(&part.text);
            }
            line.is_cut |= is_cut;
            if part.is_last {
                lines[part.stream].extend(going[part.stream].take());
            }
        }
        for (stream, line) in going.into_iter().enumerate() {
            lines[stream].extend(line);
        }
        for (stream, lines) in lines.into_iter().enumerate() {
            twin.group(form, stream, lines);
        }
        twin
    }

    fn group(&mut self, form: &RecordRules, stream: usize, lines: Vec<Joined>) {
        let limit = form.max_record_bytes;
        let Some(rule) = &form.multiline else {
            for line in lines {
                let (text, more) = cut(&line.text, limit);
                if stream != 2 || !text.is_empty() || line.is_cut {
                    self.put(stream, line.time, &text, line.is_cut || more);
                }
            }
            return;
        };
        let mut open: Option<Joined> = None;
        for line in lines {
            let begins = match rule {
                millrace_lines::MultilineRule::Start(pattern) => pattern.is_match(&line.first),
                millrace_lines::MultilineRule::ForeignStart(_) => line.first.starts_with(b"E"),
                millrace_lines::MultilineRule::Indented => {
                    !line.first.is_empty()
                        && !line.first.starts_with(b" ")
                        && !line.first.starts_with(b"\t")
                }
                millrace_lines::MultilineRule::Traces(_) => {
                    panic!("traces have tests of their own")
                }
            };
            if let Some(before) = &mut open {
                let gap = usize::from(!before.text.is_empty());
                let has_room = before.text.len() + gap + line.text.len() <= limit;
                if !begins && !before.is_cut && has_room {
                    if gap == 0 {
                        before.time = line.time;
                    }
                    before.text.extend(&b"\n"[..gap]);
                    before.text.extend(&line.text);
                    before.is_cut |= line.is_cut;
                    continue;
                }
                let before = open.take().unwrap();
                self.put_lines(stream, &before, before.is_cut || !begins);
            } else if line.text.is_empty() && line.parts == 1 && !begins {
                continue;
            }
            let (text, more) = cut(&line.text, limit);
            open = Some(Joined { text, is_cut: line.is_cut || more, ..line });
        }
        if let Some(open) = open {
            self.put_lines(stream, &open, open.is_cut);
        }
    }

    fn put_lines(&mut self, stream: usize, lines: &Joined, is_cut: bool) {
        let end = lines.text.iter().rposition(|byte| *byte != b'\n').map_or(0, |last| last + 1);
        if end > 0 {
            self.put(stream, lines.time, &lines.text[..end], is_cut);
        }
    }

    fn put(&mut self, stream: usize, time: u64, body: &[u8], is_cut: bool) {
        self.counts.records += 1;
        self.counts.cut += u64::from(is_cut);
        self.counts.invalid_utf8 += u64::from(std::str::from_utf8(body).is_err());
        let body = String::from_utf8_lossy(body).into_owned();
        self.records[stream].push(Told { time, body, is_cut });
    }
}

fn cut(text: &[u8], limit: usize) -> (Vec<u8>, bool) {
    if text.len() <= limit {
        (text.to_vec(), false)
    } else {
        (whole(&text[..limit]).to_vec(), true)
    }
}

/// Strips a character at the end that may be incomplete.
fn whole(text: &[u8]) -> &[u8] {
    let from = text.len().saturating_sub(3);
    for at in from..text.len() {
        let needed = match text[at] {
            0xc0..0xe0 => 2,
            0xe0..0xf0 => 3,
            0xf0..0xf8 => 4,
            _ => 0,
        };
        let goes_on = text[at + 1..].iter().all(|byte| (0x80..0xc0).contains(byte));
        if goes_on && at + needed > text.len() {
            return &text[..at];
        }
    }
    text
}

fn part(form: &RecordRules, line: &[u8], is_cut: bool) -> Option<Part> {
    let is_docker = match form.container {
        Container::DockerJson => true,
        _ => form.container == Container::Detect && line.starts_with(b"{"),
    };
    if is_docker {
        return if is_cut { None } else { docker(line) };
    }
    let mut words = line.splitn(4, |byte| *byte == b' ');
    let time = words.next()?;
    let stream = stream(words.next()?)?;
    let tags = words.next()?;
    let text = words.next().unwrap_or_default();
    let is_last = tags.split(|byte| *byte == b':').next() == Some(b"F");
    if !is_last && tags != b"P" {
        return None;
    }
    let text = if is_last { text.strip_suffix(b"\r").unwrap_or(text) } else { text };
    Some(Part { stream, time: known(time)?, text: text.to_vec(), is_last })
}

fn known(time: &[u8]) -> Option<u64> {
    TIMES
        .iter()
        .find(|(text, nanos)| text.as_bytes() == time && *nanos > 0)
        .map(|(_, nanos)| *nanos)
}

fn stream(name: &[u8]) -> Option<usize> {
    [&b"stdout"[..], b"stderr"].iter().position(|known| *known == name)
}

/// Parses only the tests' own lines: three members in this order.
fn docker(line: &[u8]) -> Option<Part> {
    let line = String::from_utf8(line.to_vec()).ok()?;
    let line = line.trim_end().strip_prefix("{\"log\":\"")?.strip_suffix("\"}")?;
    let (line, time) = line.rsplit_once("\",\"time\":\"")?;
    let (text, name) = line.rsplit_once("\",\"stream\":\"")?;
    let (text, is_last) = text.strip_suffix("\\n").map_or((text, false), |text| (text, true));
    let mut text = unescaped(text);
    if is_last && text.ends_with('\r') {
        text.pop();
    }
    let (stream, time) = (stream(name.as_bytes())?, known(time.as_bytes())?);
    Some(Part { stream, time, text: text.into_bytes(), is_last })
}

fn unescaped(text: &str) -> String {
    let text = text.replace("\\ud834\\udd1e", "𝄞").replace("\\u0000", "\0").replace("\\r", "\r");
    text.replace("\\\"", "\"").replace("\\\\", "\\")
}

/// The text of a cut Docker line: complete escapes up to the cut, or to the text's end.
fn docker_text(form: &RecordRules, line: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(&line[8..]).into_owned();
    let mut end = 0;
    let bytes = text.as_bytes();
    while end < bytes.len() && bytes[end] != b'"' {
        let length = match &bytes[end..] {
            [b'\\', b'u', b'd', ..] => 12,
            [b'\\', b'u', ..] => 6,
            [b'\\', ..] => 2,
            _ => 1,
        };
        if end + length > bytes.len() {
            break;
        }
        end += length;
    }
    let text = &text[..end];
    let text = text.strip_suffix("\\n").unwrap_or(text);
    cut(unescaped(text).as_bytes(), form.max_record_bytes).0
}
