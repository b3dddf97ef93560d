//! One line of a body: a sample, metadata, or neither. It names places in the line and copies
//! nothing.

use crate::limits::{FaultKind, LABELS_MAX};
use crate::native::exemplar;
use crate::number::{float, millis, seconds};

/// How a body is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Prometheus' text format 0.0.4, also with quoted names (1.0.0).
    Prometheus,
    /// OpenMetrics' text format, 1.0.
    OpenMetrics,
    /// Prometheus' protobuf format: metric families behind their lengths.
    Protobuf,
}

impl Format {
    /// The format of a body by its content type: OpenMetrics where it says so; the text format
    /// where it says that, or nothing; protobuf where it says which messages. None for others
    /// (HTML).
    #[must_use]
    pub fn of_content_type(content_type: &str) -> Option<Self> {
        let name = content_type.split(';').next().unwrap_or_default().trim();
        if name.eq_ignore_ascii_case("application/openmetrics-text") {
            return Some(Self::OpenMetrics);
        }
        if name.eq_ignore_ascii_case("application/vnd.google.protobuf") {
            let has = |wanted: &str| {
                content_type.split(';').any(|part| part.trim().eq_ignore_ascii_case(wanted))
            };
            let is_ours =
                has("proto=io.prometheus.client.MetricFamily") && has("encoding=delimited");
            return is_ours.then_some(Self::Protobuf);
        }
        (name.is_empty() || name.eq_ignore_ascii_case("text/plain")).then_some(Self::Prometheus)
    }
}

/// A part of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Span {
    start: u32,
    end: u32,
}

impl Span {
    fn new(start: usize, end: usize) -> Self {
        Self { start: start as u32, end: end as u32 }
    }

    #[inline]
    pub(crate) fn start(self) -> usize {
        self.start as usize
    }

    #[inline]
    pub(crate) fn end(self) -> usize {
        self.end as usize
    }

    #[inline]
    pub(crate) fn of<'a>(&self, line: &'a [u8]) -> &'a [u8] {
        &line[self.start as usize..self.end as usize]
    }
}

/// A text, and whether it has escapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Text {
    pub(crate) span: Span,
    pub(crate) is_escaped: bool,
}

/// A label of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Label {
    pub(crate) name: Text,
    pub(crate) value: Text,
}

/// What a line is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Line {
    Nothing,
    End,
    Help {
        name: Span,
        text: Span,
    },
    Unit {
        name: Span,
        text: Span,
    },
    Type {
        name: Span,
        kind: Span,
    },
    /// It is in the [`Parser`]: a large value that is handed back is copied, which takes longer
    /// than reading it.
    Sample,
}

/// A sample. Its labels are in the [`Parser`].
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Sample {
    pub(crate) name: Text,
    /// Whether the sample before had the same name.
    pub(crate) is_name_again: bool,
    /// Name and labels.
    pub(crate) identity: Span,
    pub(crate) value: f64,
    pub(crate) value_text: Span,
    /// Nanoseconds since 1970, as far as they fit.
    pub(crate) time: Option<i64>,
    pub(crate) exemplar: Option<Exemplar>,
}

/// An exemplar. Its labels are in the [`Parser`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Exemplar {
    pub(crate) value: f64,
    pub(crate) time: Option<i64>,
}

/// Reads lines. It keeps the labels of the last one, and its names: the next line nearly always has
/// the same ones, which are compared then instead of being read.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    pub(crate) sample: Sample,
    pub(crate) labels: Vec<Label>,
    pub(crate) exemplar_labels: Vec<Label>,
    name: Vec<u8>,
    expected: Expected,
    /// Whether commas between labels may be missing: Prometheus' own parser of its text format asks
    /// for none.
    may_lack_commas: bool,
}

/// Names of labels in order, each as `name="`. No two are the same.
#[derive(Debug, Default)]
struct Expected {
    text: Vec<u8>,
    ends: Vec<usize>,
}

impl Expected {
    #[inline]
    fn get(&self, place: usize) -> Option<&[u8]> {
        let end = *self.ends.get(place)?;
        let start = if place == 0 { 0 } else { self.ends[place - 1] };
        Some(&self.text[start..end])
    }

    /// Expects the names of these labels, up to the first one that is quoted.
    fn learn(&mut self, line: &[u8], labels: &[Label]) {
        self.text.clear();
        self.ends.clear();
        for label in labels {
            let start = label.name.span.start as usize;
            if line[start - 1] == b'"' {
                return;
            }
            self.text.extend_from_slice(label.name.span.of(line));
            self.text.extend_from_slice(b"=\"");
            self.ends.push(self.text.len());
        }
    }
}

const START: u8 = 1;
const INNER: u8 = 2;
const COLON: u8 = 4;

/// Which characters names have: labels' without colons.
const CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        classes[byte] = match byte as u8 {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => START | INNER,
            b'0'..=b'9' => INNER,
            b':' => COLON,
            _ => 0,
        };
        byte += 1;
    }
    classes
};

#[inline]
pub(crate) fn skip_blanks(line: &[u8], mut at: usize) -> usize {
    while matches!(line.get(at), Some(b' ' | b'\t')) {
        at += 1;
    }
    at
}

fn field_end(line: &[u8], mut at: usize) -> usize {
    while line.get(at).is_some_and(|byte| !matches!(byte, b' ' | b'\t')) {
        at += 1;
    }
    at
}

/// The end of a bare name; none if there is none.
#[inline]
fn name_end(line: &[u8], start: usize, first: u8, further: u8) -> Option<usize> {
    let class = |at: usize| line.get(at).map_or(0, |byte| CLASSES[usize::from(*byte)]);
    if class(start) & first == 0 {
        return None;
    }
    let mut at = start + 1;
    while class(at) & further != 0 {
        at += 1;
    }
    Some(at)
}

/// Whether a metric's name needs no quotes.
pub(crate) fn is_metric_name(name: &[u8]) -> bool {
    name_end(name, 0, START | COLON, INNER | COLON) == Some(name.len())
}

/// Whether a label's name needs no quotes.
pub(crate) fn is_label_name(name: &[u8]) -> bool {
    name_end(name, 0, START, INNER) == Some(name.len())
}

/// Passes over eight bytes at a time that are neither a quote nor a backslash.
#[inline]
fn skip_plain(line: &[u8], mut at: usize) -> usize {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    // The lowest of the marked bytes is zero; those above it may be marked without being so.
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word & (ONES << 7);
    while let Some(chunk) = line.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let word = u64::from_le_bytes(*chunk);
        let found = zeros(word ^ (ONES * b'"' as u64)) | zeros(word ^ (ONES * b'\\' as u64));
        if found != 0 {
            return at + found.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    at
}

/// A quoted text that begins behind `start`, and where the line goes on behind its closing quote.
#[inline]
fn quoted(line: &[u8], start: usize) -> Result<(Text, usize), FaultKind> {
    let (mut at, mut is_escaped) = (start, false);
    loop {
        at = skip_plain(line, at);
        match line.get(at) {
            Some(b'"') => {
                return Ok((Text { span: Span::new(start, at), is_escaped }, at + 1));
            }
            Some(b'\\') => {
                is_escaped = true;
                at += 2;
            }
            Some(_) => at += 1,
            None => return Err(FaultKind::Quote),
        }
    }
}

impl Parser {
    /// Reads a line without its end.
    #[inline]
    pub(crate) fn read(&mut self, line: &[u8], format: Format) -> Result<Line, FaultKind> {
        let start = skip_blanks(line, 0);
        if std::str::from_utf8(line).is_err() {
            // Nobody reads a comment: it may be in another encoding.
            let is_comment =
                line.get(start) == Some(&b'#') && comment(line, start, format) == Ok(Line::Nothing);
            return if is_comment { Ok(Line::Nothing) } else { Err(FaultKind::NotText) };
        }
        match line.get(start) {
            Some(b'#') => comment(line, start, format),
            None if format == Format::OpenMetrics => Err(FaultKind::NoSample),
            None => Ok(Line::Nothing),
            Some(_) => self.sample(line, start, format),
        }
    }

    /// Reads what names a series: a name and labels alone.
    pub(crate) fn identity(&mut self, text: &[u8]) -> Result<Text, FaultKind> {
        self.may_lack_commas = true;
        Ok(self.named(text, 0)?.0)
    }

    /// A name and labels. Where they end, and whether the name is that of the line before.
    #[inline]
    fn named(&mut self, line: &[u8], start: usize) -> Result<(Text, usize, bool), FaultKind> {
        self.labels.clear();
        let rest = &line[start..];
        if rest.first() == Some(&b'{') {
            self.name.clear();
            let (name, end) =
                labels(line, start + 1, (true, self.may_lack_commas), &mut self.labels, None)?;
            return Ok((name.ok_or(FaultKind::Name)?, end, false));
        }
        let length = self.name.len();
        let is_again = matches!(rest.get(length), Some(b'{' | b' '))
            && length > 0
            && rest[..length] == self.name[..];
        let end = match is_again {
            true => start + length,
            false => self.new_name(line, start)?,
        };
        let name = Text { span: Span::new(start, end), is_escaped: false };
        let at = skip_blanks(line, end);
        if line.get(at) != Some(&b'{') {
            let is_over = at > end || at == line.len();
            return if is_over { Ok((name, end, is_again)) } else { Err(FaultKind::Name) };
        }
        let expected = Some(&mut self.expected);
        let (_, end) =
            labels(line, at + 1, (false, self.may_lack_commas), &mut self.labels, expected)?;
        Ok((name, end, is_again))
    }

    /// Where the name ends, if it is that of the line before.
    #[inline]
    pub(crate) fn same_name(&self, identity: &[u8]) -> Option<usize> {
        let length = self.name.len();
        let is_again = matches!(identity.get(length), Some(b'{') | None)
            && length > 0
            && identity.len() >= length
            && identity[..length] == self.name[..];
        is_again.then_some(length)
    }

    /// Takes a line's name that wasn't read here.
    #[inline]
    pub(crate) fn set_name(&mut self, name: &[u8]) {
        self.name.clear();
        self.name.extend_from_slice(name);
    }

    /// Reads what follows a value. False if that can't be read.
    pub(crate) fn rest_of_text(&mut self, line: &[u8], start: usize, format: Format) -> bool {
        std::str::from_utf8(&line[start..]).is_ok() && self.rest(line, start, format).is_ok()
    }

    /// Takes a sample's name and labels that were written as a line's, and its time.
    pub(crate) fn take_identity(
        &mut self,
        line: &[u8],
        time: Option<i64>,
    ) -> Result<(), FaultKind> {
        let (name, end, is_name_again) = self.named(line, 0)?;
        let identity = Span::new(0, end);
        self.sample = Sample { name, is_name_again, identity, time, ..Sample::default() };
        Ok(())
    }

    /// Takes an exemplar whose labels were written at a place of a line.
    pub(crate) fn take_exemplar(
        &mut self,
        line: &[u8],
        start: usize,
        message: &[u8],
    ) -> Result<(), FaultKind> {
        self.exemplar_labels.clear();
        labels(line, start + 1, (false, false), &mut self.exemplar_labels, None)?;
        let (value, time) = exemplar(message)?;
        self.sample.exemplar = Some(Exemplar { value, time });
        Ok(())
    }

    /// Whether a metric's name needs no quotes.
    pub(crate) fn is_bare_name(name: &[u8]) -> bool {
        name_end(name, 0, START | COLON, INNER | COLON) == Some(name.len())
    }

    /// Whether a label's name needs none.
    pub(crate) fn is_bare_label(name: &[u8]) -> bool {
        name_end(name, 0, START, INNER) == Some(name.len())
    }

    fn new_name(&mut self, line: &[u8], start: usize) -> Result<usize, FaultKind> {
        let end = name_end(line, start, START | COLON, INNER | COLON).ok_or(FaultKind::Name)?;
        self.set_name(&line[start..end]);
        Ok(end)
    }

    #[inline]
    fn sample(&mut self, line: &[u8], start: usize, format: Format) -> Result<Line, FaultKind> {
        self.may_lack_commas = format == Format::Prometheus;
        let (name, end, is_name_again) = self.named(line, start)?;
        let identity = Span::new(start, end);
        let from = skip_blanks(line, end);
        let to = field_end(line, from);
        let value = float(&line[from..to]).ok_or(FaultKind::Value)?;
        self.sample = Sample {
            name,
            is_name_again,
            identity,
            value,
            value_text: Span::new(from, to),
            time: None,
            exemplar: None,
        };
        let at = skip_blanks(line, to);
        if at < line.len() {
            self.rest(line, at, format)?;
        }
        Ok(Line::Sample)
    }

    /// What may follow the value: a time, and in OpenMetrics an exemplar.
    fn rest(&mut self, line: &[u8], start: usize, format: Format) -> Result<(), FaultKind> {
        let mut at = start;
        if line[at] != b'#' {
            let to = field_end(line, at);
            let time = match format {
                Format::Prometheus | Format::Protobuf => millis(&line[at..to]),
                Format::OpenMetrics => seconds(&line[at..to]),
            };
            self.sample.time = Some(time.ok_or(FaultKind::Timestamp)?);
            at = skip_blanks(line, to);
        }
        if at == line.len() {
            return Ok(());
        }
        if format != Format::OpenMetrics || line[at] != b'#' {
            return Err(FaultKind::Trailing);
        }
        self.sample.exemplar = Some(self.exemplar(line, skip_blanks(line, at + 1))?);
        Ok(())
    }

    fn exemplar(&mut self, line: &[u8], start: usize) -> Result<Exemplar, FaultKind> {
        self.exemplar_labels.clear();
        if line.get(start) != Some(&b'{') {
            return Err(FaultKind::Exemplar);
        }
        let (_, end) = labels(line, start + 1, (false, false), &mut self.exemplar_labels, None)?;
        let from = skip_blanks(line, end);
        let to = field_end(line, from);
        let value = float(&line[from..to]).ok_or(FaultKind::Exemplar)?;
        let from = skip_blanks(line, to);
        let to = field_end(line, from);
        if skip_blanks(line, to) != line.len() {
            return Err(FaultKind::Trailing);
        }
        let time = match from == to {
            true => None,
            false => Some(seconds(&line[from..to]).ok_or(FaultKind::Timestamp)?),
        };
        Ok(Exemplar { value, time })
    }
}

/// Reads labels up to and with the closing brace: a quoted metric's name among them, if it may be
/// there, and where the line goes on.
#[inline]
fn labels(
    line: &[u8],
    start: usize,
    (may_name, may_lack_commas): (bool, bool),
    found: &mut Vec<Label>,
    mut expected: Option<&mut Expected>,
) -> Result<(Option<Text>, usize), FaultKind> {
    let (mut at, mut metric) = (start, None);
    // Whether all labels so far are those that were expected: then no two are the same.
    let mut is_expected = expected.is_some();
    loop {
        let name = expected.as_ref().filter(|_| is_expected).and_then(|it| it.get(found.len()));
        let (name, from) = match name {
            Some(text) if line[at..].starts_with(text) => {
                let span = Span::new(at, at + text.len() - 2);
                (Text { span, is_escaped: false }, at + text.len())
            }
            _ => match other_name(line, at, may_name && metric.is_none())? {
                Next::End(end) => {
                    if let Some(expected) = expected.take_if(|_| !is_expected) {
                        expected.learn(line, found);
                    }
                    return Ok((metric, end));
                }
                Next::Metric(name, end) => {
                    metric = Some(name);
                    at = end;
                    continue;
                }
                Next::Label(name, from) => {
                    let text = name.span.of(line);
                    if found.iter().any(|known| known.name.span.of(line) == text) {
                        return Err(FaultKind::LabelTwice);
                    }
                    is_expected = false;
                    (name, from)
                }
            },
        };
        let (value, end) = quoted(line, from)?;
        if found.len() == LABELS_MAX {
            return Err(FaultKind::Labels(LABELS_MAX));
        }
        found.push(Label { name, value });
        at = behind_label(line, end, may_lack_commas)?;
    }
}

/// What stands where a label may begin.
enum Next {
    /// The closing brace, and where the line goes on.
    End(usize),
    /// A metric's quoted name, likewise.
    Metric(Text, usize),
    /// A label's name, and where its value begins.
    Label(Text, usize),
}

fn other_name(line: &[u8], start: usize, may_name: bool) -> Result<Next, FaultKind> {
    let start = skip_blanks(line, start);
    let (name, end) = match line.get(start) {
        Some(b'}') => return Ok(Next::End(start + 1)),
        Some(b'"') => quoted(line, start + 1)?,
        _ => {
            let end = name_end(line, start, START, INNER).ok_or(FaultKind::LabelName)?;
            (Text { span: Span::new(start, end), is_escaped: false }, end)
        }
    };
    let at = skip_blanks(line, end);
    if line.get(at) == Some(&b'=') {
        let at = skip_blanks(line, at + 1);
        let is_quoted = line.get(at) == Some(&b'"');
        return if is_quoted { Ok(Next::Label(name, at + 1)) } else { Err(FaultKind::LabelValue) };
    }
    if may_name && line[start] == b'"' {
        return Ok(Next::Metric(name, behind_label(line, at, false)?));
    }
    Err(FaultKind::LabelValue)
}

/// Where the next label, or the closing brace, may be.
#[inline]
fn behind_label(line: &[u8], end: usize, may_lack: bool) -> Result<usize, FaultKind> {
    let at = skip_blanks(line, end);
    match line.get(at) {
        Some(b',') => Ok(at + 1),
        Some(b'}') => Ok(at),
        Some(byte) if may_lack && (CLASSES[usize::from(*byte)] & START != 0 || *byte == b'"') => {
            Ok(at)
        }
        _ => Err(FaultKind::Brace),
    }
}

fn comment(line: &[u8], start: usize, format: Format) -> Result<Line, FaultKind> {
    if format == Format::OpenMetrics {
        if line == b"# EOF" {
            return Ok(Line::End);
        }
        if line.get(start + 1) != Some(&b' ') {
            return Err(FaultKind::NoSample);
        }
    }
    let from = skip_blanks(line, start + 1);
    let to = field_end(line, from);
    let word = &line[from..to];
    if to == line.len() && format == Format::Prometheus {
        // Nothing behind the word: it is a comment, as Prometheus has it.
        return Ok(Line::Nothing);
    }
    let is_known =
        matches!(word, b"HELP" | b"TYPE") || (word == b"UNIT" && format == Format::OpenMetrics);
    if !is_known {
        let is_free = format == Format::Prometheus;
        return if is_free { Ok(Line::Nothing) } else { Err(FaultKind::NoSample) };
    }
    let from = skip_blanks(line, to);
    let (name, end) = match line.get(from) {
        Some(b'"') => quoted(line, from + 1).map(|(text, end)| (text.span, end))?,
        _ => {
            let end = name_end(line, from, START | COLON, INNER | COLON);
            let end = end.ok_or(FaultKind::Name)?;
            (Span::new(from, end), end)
        }
    };
    let from = skip_blanks(line, end);
    if from == end && end < line.len() {
        return Err(FaultKind::Name);
    }
    let text = Span::new(from, line.len());
    Ok(match word {
        b"HELP" => Line::Help { name, text },
        b"UNIT" => Line::Unit { name, text },
        _ => Line::Type { name, kind: Span::new(from, field_end(line, from)) },
    })
}

#[cfg(test)]
#[path = "../tests/unit/line.rs"]
mod tests;
