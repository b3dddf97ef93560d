//! Parses one line of a body: a sample, metadata, or neither. The result refers to positions in the
//! line and copies nothing.

use crate::limits::{FaultKind, LABELS_MAX};
use crate::parse::number::{parse_float, parse_millis, parse_seconds};

/// The format of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyFormat {
    /// Prometheus' text format 0.0.4, also with quoted names (1.0.0).
    Prometheus,
    /// OpenMetrics' text format 1.0.
    OpenMetrics,
    /// Prometheus' protobuf format: length-delimited metric families.
    Protobuf,
}

impl BodyFormat {
    /// Returns the format of a content type: OpenMetrics; the text format, which is also the
    /// default without a type; protobuf if the type names its messages. Returns `None` for others
    /// (HTML).
    #[must_use]
    pub fn of_content_type(content_type: &str) -> Option<Self> {
        let name = content_type.split(';').next().unwrap_or_default().trim();
        if name.eq_ignore_ascii_case("application/openmetrics-text") {
            return Some(Self::OpenMetrics);
        }
        if name.eq_ignore_ascii_case("application/vnd.google.protobuf") {
            let has = |expected: &str| {
                content_type.split(';').any(|part| part.trim().eq_ignore_ascii_case(expected))
            };
            let is_ours =
                has("proto=io.prometheus.client.MetricFamily") && has("encoding=delimited");
            return is_ours.then_some(Self::Protobuf);
        }
        (name.is_empty() || name.eq_ignore_ascii_case("text/plain")).then_some(Self::Prometheus)
    }
}

/// A range of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LineSpan {
    start: u32,
    end: u32,
}

impl LineSpan {
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
    pub(crate) fn slice_of<'a>(&self, line: &'a [u8]) -> &'a [u8] {
        &line[self.start as usize..self.end as usize]
    }
}

/// A text, and whether it has escapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LineText {
    pub(crate) span: LineSpan,
    pub(crate) is_escaped: bool,
}

/// A label of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Label {
    pub(crate) name: LineText,
    pub(crate) value: LineText,
}

/// The kind of a line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum LineKind {
    Nothing,
    End,
    Help {
        name: LineSpan,
        text: LineSpan,
    },
    Unit {
        name: LineSpan,
        text: LineSpan,
    },
    Type {
        name: LineSpan,
        kind: LineSpan,
    },
    /// The sample is stored in the [`LineParser`]: copying a large return value takes longer than
    /// parsing it.
    Sample,
}

/// A sample. The [`LineParser`] has its labels.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct ParsedSample {
    pub(crate) name: LineText,
    /// Whether the sample before had the same name.
    pub(crate) is_same_name: bool,
    /// Its name and labels.
    pub(crate) identity: LineSpan,
    pub(crate) value: f64,
    pub(crate) value_text: LineSpan,
    /// Nanoseconds since 1970, clamped to the range.
    pub(crate) time: Option<i64>,
    pub(crate) exemplar: Option<SampleExemplar>,
}

/// An exemplar. The [`LineParser`] has its labels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SampleExemplar {
    pub(crate) value: f64,
    pub(crate) time: Option<i64>,
}

/// Parses lines. It stores the last line's name and label names: the next line nearly always has
/// the same ones, which are compared instead of parsed.
#[derive(Debug, Default)]
pub(crate) struct LineParser {
    pub(crate) sample: ParsedSample,
    pub(crate) labels: Vec<Label>,
    pub(crate) exemplar_labels: Vec<Label>,
    name: Vec<u8>,
    expected: Expected,
    /// Whether commas between labels are optional, as in Prometheus' own parser of its text format.
    may_lack_commas: bool,
}

/// Distinct names of labels in order, each as `name="`.
#[derive(Debug, Default)]
struct Expected {
    text: Vec<u8>,
    ends: Vec<usize>,
}

impl Expected {
    #[inline]
    fn get(&self, index: usize) -> Option<&[u8]> {
        let end = *self.ends.get(index)?;
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        Some(&self.text[start..end])
    }

    /// Stores the names of these labels, up to the first one that is quoted.
    fn learn_names(&mut self, line: &[u8], labels: &[Label]) {
        self.text.clear();
        self.ends.clear();
        for label in labels {
            let start = label.name.span.start as usize;
            if line[start - 1] == b'"' {
                return;
            }
            self.text.extend_from_slice(label.name.span.slice_of(line));
            self.text.extend_from_slice(b"=\"");
            self.ends.push(self.text.len());
        }
    }
}

const START: u8 = 1;
const INNER: u8 = 2;
const COLON: u8 = 4;

/// The characters of names; label names have no colons.
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

/// Returns the end of a bare name; `None` if no name begins here.
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

/// Skips eight bytes at a time without quotes and backslashes.
#[inline]
fn skip_plain(line: &[u8], mut at: usize) -> usize {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    // The lowest marked byte is zero; higher ones may be marked wrongly.
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

/// Parses a quoted text that begins at `start`. Returns it and the position after its closing
/// quote.
#[inline]
fn read_quoted(line: &[u8], start: usize) -> Result<(LineText, usize), FaultKind> {
    let (mut at, mut is_escaped) = (start, false);
    loop {
        at = skip_plain(line, at);
        match line.get(at) {
            Some(b'"') => {
                return Ok((LineText { span: LineSpan::new(start, at), is_escaped }, at + 1));
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

impl LineParser {
    /// Parses a line without its line feed.
    #[inline]
    pub(crate) fn read(&mut self, line: &[u8], format: BodyFormat) -> Result<LineKind, FaultKind> {
        let start = skip_blanks(line, 0);
        if std::str::from_utf8(line).is_err() {
            // Comments are ignored, so they may be in another encoding.
            let is_comment = line.get(start) == Some(&b'#')
                && read_comment(line, start, format) == Ok(LineKind::Nothing);
            return if is_comment { Ok(LineKind::Nothing) } else { Err(FaultKind::NotText) };
        }
        match line.get(start) {
            Some(b'#') => read_comment(line, start, format),
            None if format == BodyFormat::OpenMetrics => Err(FaultKind::NoSample),
            None => Ok(LineKind::Nothing),
            Some(_) => self.read_sample(line, start, format),
        }
    }

    /// Parses a series' identity: a name and labels.
    pub(crate) fn read_identity(&mut self, text: &[u8]) -> Result<LineText, FaultKind> {
        self.may_lack_commas = true;
        Ok(self.read_series(text, 0)?.0)
    }

    /// Parses a name and labels. Returns the name, their end, and whether the name is the last
    /// line's.
    #[inline]
    fn read_series(
        &mut self,
        line: &[u8],
        start: usize,
    ) -> Result<(LineText, usize, bool), FaultKind> {
        self.labels.clear();
        let rest = &line[start..];
        if rest.first() == Some(&b'{') {
            self.name.clear();
            let (name, end) =
                read_labels(line, start + 1, (true, self.may_lack_commas), &mut self.labels, None)?;
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
        let name = LineText { span: LineSpan::new(start, end), is_escaped: false };
        let at = skip_blanks(line, end);
        if line.get(at) != Some(&b'{') {
            let is_over = at > end || at == line.len();
            return if is_over { Ok((name, end, is_again)) } else { Err(FaultKind::Name) };
        }
        let expected = Some(&mut self.expected);
        let (_, end) =
            read_labels(line, at + 1, (false, self.may_lack_commas), &mut self.labels, expected)?;
        Ok((name, end, is_again))
    }

    /// Returns the end of the name, if it is the last line's.
    #[inline]
    pub(crate) fn same_name(&self, identity: &[u8]) -> Option<usize> {
        let length = self.name.len();
        let is_again = matches!(identity.get(length), Some(b'{') | None)
            && length > 0
            && identity.len() >= length
            && identity[..length] == self.name[..];
        is_again.then_some(length)
    }

    /// Sets the name of a line that was not parsed here.
    #[inline]
    pub(crate) fn set_name(&mut self, name: &[u8]) {
        self.name.clear();
        self.name.extend_from_slice(name);
    }

    /// Parses the text after a value. Returns `false` if it is malformed.
    pub(crate) fn read_text_tail(&mut self, line: &[u8], start: usize, format: BodyFormat) -> bool {
        std::str::from_utf8(&line[start..]).is_ok() && self.read_tail(line, start, format).is_ok()
    }

    /// Sets the sample from its name and labels in text form, and its time.
    pub(crate) fn load_identity(
        &mut self,
        line: &[u8],
        time: Option<i64>,
    ) -> Result<(), FaultKind> {
        let (name, end, is_name_again) = self.read_series(line, 0)?;
        let identity = LineSpan::new(0, end);
        self.sample = ParsedSample {
            name,
            is_same_name: is_name_again,
            identity,
            time,
            ..ParsedSample::default()
        };
        Ok(())
    }

    /// Sets the exemplar, whose labels are at a position of a line.
    pub(crate) fn load_exemplar(
        &mut self,
        line: &[u8],
        start: usize,
        exemplar: SampleExemplar,
    ) -> Result<(), FaultKind> {
        self.exemplar_labels.clear();
        read_labels(line, start + 1, (false, false), &mut self.exemplar_labels, None)?;
        self.sample.exemplar = Some(exemplar);
        Ok(())
    }

    /// Whether a metric's name needs no quotes.
    pub(crate) fn is_bare_name(name: &[u8]) -> bool {
        name_end(name, 0, START | COLON, INNER | COLON) == Some(name.len())
    }

    /// Whether a label's name needs no quotes.
    pub(crate) fn is_bare_label(name: &[u8]) -> bool {
        name_end(name, 0, START, INNER) == Some(name.len())
    }

    fn new_name(&mut self, line: &[u8], start: usize) -> Result<usize, FaultKind> {
        let end = name_end(line, start, START | COLON, INNER | COLON).ok_or(FaultKind::Name)?;
        self.set_name(&line[start..end]);
        Ok(end)
    }

    #[inline]
    fn read_sample(
        &mut self,
        line: &[u8],
        start: usize,
        format: BodyFormat,
    ) -> Result<LineKind, FaultKind> {
        self.may_lack_commas = format == BodyFormat::Prometheus;
        let (name, end, is_name_again) = self.read_series(line, start)?;
        let identity = LineSpan::new(start, end);
        let from = skip_blanks(line, end);
        let to = field_end(line, from);
        let value = parse_float(&line[from..to]).ok_or(FaultKind::Value)?;
        self.sample = ParsedSample {
            name,
            is_same_name: is_name_again,
            identity,
            value,
            value_text: LineSpan::new(from, to),
            time: None,
            exemplar: None,
        };
        let at = skip_blanks(line, to);
        if at < line.len() {
            self.read_tail(line, at, format)?;
        }
        Ok(LineKind::Sample)
    }

    /// Parses the rest after the value: a time, and in OpenMetrics an exemplar.
    fn read_tail(
        &mut self,
        line: &[u8],
        start: usize,
        format: BodyFormat,
    ) -> Result<(), FaultKind> {
        let mut at = start;
        if line[at] != b'#' {
            let to = field_end(line, at);
            let time = match format {
                BodyFormat::Prometheus | BodyFormat::Protobuf => parse_millis(&line[at..to]),
                BodyFormat::OpenMetrics => parse_seconds(&line[at..to]),
            };
            self.sample.time = Some(time.ok_or(FaultKind::Timestamp)?);
            at = skip_blanks(line, to);
        }
        if at == line.len() {
            return Ok(());
        }
        if format != BodyFormat::OpenMetrics || line[at] != b'#' {
            return Err(FaultKind::Trailing);
        }
        self.sample.exemplar = Some(self.read_exemplar(line, skip_blanks(line, at + 1))?);
        Ok(())
    }

    fn read_exemplar(&mut self, line: &[u8], start: usize) -> Result<SampleExemplar, FaultKind> {
        self.exemplar_labels.clear();
        if line.get(start) != Some(&b'{') {
            return Err(FaultKind::Exemplar);
        }
        let (_, end) =
            read_labels(line, start + 1, (false, false), &mut self.exemplar_labels, None)?;
        let from = skip_blanks(line, end);
        let to = field_end(line, from);
        let value = parse_float(&line[from..to]).ok_or(FaultKind::Exemplar)?;
        let from = skip_blanks(line, to);
        let to = field_end(line, from);
        if skip_blanks(line, to) != line.len() {
            return Err(FaultKind::Trailing);
        }
        let time = match from == to {
            true => None,
            false => Some(parse_seconds(&line[from..to]).ok_or(FaultKind::Timestamp)?),
        };
        Ok(SampleExemplar { value, time })
    }
}

/// Parses labels up to the closing brace. Returns a metric's quoted name among them, if permitted,
/// and the position after the brace.
#[inline]
fn read_labels(
    line: &[u8],
    start: usize,
    (may_name, may_lack_commas): (bool, bool),
    out: &mut Vec<Label>,
    mut expected: Option<&mut Expected>,
) -> Result<(Option<LineText>, usize), FaultKind> {
    let (mut at, mut metric) = (start, None);
    // Whether all labels so far have the expected names: then no two are the same.
    let mut is_expected = expected.is_some();
    loop {
        let name = expected.as_ref().filter(|_| is_expected).and_then(|it| it.get(out.len()));
        let (name, from) = match name {
            Some(text) if line[at..].starts_with(text) => {
                let span = LineSpan::new(at, at + text.len() - 2);
                (LineText { span, is_escaped: false }, at + text.len())
            }
            _ => match other_name(line, at, may_name && metric.is_none())? {
                NextToken::End(end) => {
                    if let Some(expected) = expected.take_if(|_| !is_expected) {
                        expected.learn_names(line, out);
                    }
                    return Ok((metric, end));
                }
                NextToken::Metric(name, end) => {
                    metric = Some(name);
                    at = end;
                    continue;
                }
                NextToken::Label(name, from) => {
                    let text = name.span.slice_of(line);
                    if out.iter().any(|known| known.name.span.slice_of(line) == text) {
                        return Err(FaultKind::LabelTwice);
                    }
                    is_expected = false;
                    (name, from)
                }
            },
        };
        let (value, end) = read_quoted(line, from)?;
        if out.len() == LABELS_MAX {
            return Err(FaultKind::Labels(LABELS_MAX));
        }
        out.push(Label { name, value });
        at = behind_label(line, end, may_lack_commas)?;
    }
}

/// The token at the position of a label.
enum NextToken {
    /// The closing brace, and the position after it.
    End(usize),
    /// A metric's quoted name, and the position after it.
    Metric(LineText, usize),
    /// A label's name, and the start of its value.
    Label(LineText, usize),
}

fn other_name(line: &[u8], start: usize, may_name: bool) -> Result<NextToken, FaultKind> {
    let start = skip_blanks(line, start);
    let (name, end) = match line.get(start) {
        Some(b'}') => return Ok(NextToken::End(start + 1)),
        Some(b'"') => read_quoted(line, start + 1)?,
        _ => {
            let end = name_end(line, start, START, INNER).ok_or(FaultKind::LabelName)?;
            (LineText { span: LineSpan::new(start, end), is_escaped: false }, end)
        }
    };
    let at = skip_blanks(line, end);
    if line.get(at) == Some(&b'=') {
        let at = skip_blanks(line, at + 1);
        let is_quoted = line.get(at) == Some(&b'"');
        return if is_quoted {
            Ok(NextToken::Label(name, at + 1))
        } else {
            Err(FaultKind::LabelValue)
        };
    }
    if may_name && line[start] == b'"' {
        return Ok(NextToken::Metric(name, behind_label(line, at, false)?));
    }
    Err(FaultKind::LabelValue)
}

/// Returns the position of the next label or the closing brace.
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

fn read_comment(line: &[u8], start: usize, format: BodyFormat) -> Result<LineKind, FaultKind> {
    if format == BodyFormat::OpenMetrics {
        if line == b"# EOF" {
            return Ok(LineKind::End);
        }
        if line.get(start + 1) != Some(&b' ') {
            return Err(FaultKind::NoSample);
        }
    }
    let from = skip_blanks(line, start + 1);
    let to = field_end(line, from);
    let word = &line[from..to];
    if to == line.len() && format == BodyFormat::Prometheus {
        // A single word is a comment, as in Prometheus.
        return Ok(LineKind::Nothing);
    }
    let is_known =
        matches!(word, b"HELP" | b"TYPE") || (word == b"UNIT" && format == BodyFormat::OpenMetrics);
    if !is_known {
        let is_free = format == BodyFormat::Prometheus;
        return if is_free { Ok(LineKind::Nothing) } else { Err(FaultKind::NoSample) };
    }
    let from = skip_blanks(line, to);
    let (name, end) = match line.get(from) {
        Some(b'"') => read_quoted(line, from + 1).map(|(text, end)| (text.span, end))?,
        _ => {
            let end = name_end(line, from, START | COLON, INNER | COLON);
            let end = end.ok_or(FaultKind::Name)?;
            (LineSpan::new(from, end), end)
        }
    };
    let from = skip_blanks(line, end);
    if from == end && end < line.len() {
        return Err(FaultKind::Name);
    }
    let text = LineSpan::new(from, line.len());
    Ok(match word {
        b"HELP" => LineKind::Help { name, text },
        b"UNIT" => LineKind::Unit { name, text },
        _ => LineKind::Type { name, kind: LineSpan::new(from, field_end(line, from)) },
    })
}

#[cfg(test)]
mod tests;
