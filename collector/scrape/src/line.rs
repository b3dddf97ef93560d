//! One line of a body: a sample, metadata, or neither. It names places in the line and copies
//! nothing.

use crate::limits::{FaultKind, LABELS_MAX};
use crate::number::{float, millis, seconds};

/// How a body is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Prometheus' text format 0.0.4, also with quoted names (1.0.0).
    Prometheus,
    /// OpenMetrics' text format, 1.0.
    OpenMetrics,
}

impl Format {
    /// The format of a body by its content type: OpenMetrics where it says so; the text format where
    /// it says that, or nothing. None for others (protobuf, HTML).
    #[must_use]
    pub fn of_content_type(content_type: &str) -> Option<Self> {
        let name = content_type.split(';').next().unwrap_or_default().trim();
        if name.eq_ignore_ascii_case("application/openmetrics-text") {
            return Some(Self::OpenMetrics);
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
    Help { name: Span, text: Span },
    Unit { name: Span, text: Span },
    Type { name: Span, kind: Span },
    Sample(Sample),
}

/// A sample. Its labels are in the [`Parser`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sample {
    pub(crate) name: Text,
    /// Where name and labels end.
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

/// Reads lines. It keeps the labels of the last one.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    pub(crate) labels: Vec<Label>,
    pub(crate) exemplar_labels: Vec<Label>,
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

fn skip_blanks(line: &[u8], mut at: usize) -> usize {
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

/// A quoted text that begins behind `start`, and where the line goes on behind its closing quote.
#[inline]
fn quoted(line: &[u8], start: usize) -> Result<(Text, usize), FaultKind> {
    let (mut at, mut is_escaped) = (start, false);
    loop {
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
        if std::str::from_utf8(line).is_err() {
            return Err(FaultKind::NotText);
        }
        let start = skip_blanks(line, 0);
        match line.get(start) {
            Some(b'#') => comment(line, start, format),
            None if format == Format::OpenMetrics => Err(FaultKind::NoSample),
            None => Ok(Line::Nothing),
            Some(_) => self.sample(line, start, format),
        }
    }

    /// Reads what names a series: a name and labels alone.
    pub(crate) fn identity(&mut self, text: &[u8]) -> Result<Text, FaultKind> {
        Ok(self.named(text, 0)?.0)
    }

    #[inline]
    fn named(&mut self, line: &[u8], start: usize) -> Result<(Text, usize), FaultKind> {
        self.labels.clear();
        if line.get(start) == Some(&b'{') {
            let (name, end) = labels(line, start + 1, true, &mut self.labels)?;
            return Ok((name.ok_or(FaultKind::Name)?, end));
        }
        let end = name_end(line, start, START | COLON, INNER | COLON).ok_or(FaultKind::Name)?;
        let name = Text { span: Span::new(start, end), is_escaped: false };
        let at = skip_blanks(line, end);
        if line.get(at) != Some(&b'{') {
            let is_over = at > end || at == line.len();
            return if is_over { Ok((name, end)) } else { Err(FaultKind::Name) };
        }
        let (_, end) = labels(line, at + 1, false, &mut self.labels)?;
        Ok((name, end))
    }

    #[inline]
    fn sample(&mut self, line: &[u8], start: usize, format: Format) -> Result<Line, FaultKind> {
        let (name, end) = self.named(line, start)?;
        let identity = Span::new(start, end);
        let from = skip_blanks(line, end);
        let to = field_end(line, from);
        let value = float(&line[from..to]).ok_or(FaultKind::Value)?;
        let mut sample = Sample {
            name,
            identity,
            value,
            value_text: Span::new(from, to),
            time: None,
            exemplar: None,
        };
        let at = skip_blanks(line, to);
        if at < line.len() {
            self.rest(line, at, format, &mut sample)?;
        }
        Ok(Line::Sample(sample))
    }

    /// What may follow the value: a time, and in OpenMetrics an exemplar.
    fn rest(
        &mut self,
        line: &[u8],
        start: usize,
        format: Format,
        sample: &mut Sample,
    ) -> Result<(), FaultKind> {
        let mut at = start;
        if line[at] != b'#' {
            let to = field_end(line, at);
            let time = match format {
                Format::Prometheus => millis(&line[at..to]),
                Format::OpenMetrics => seconds(&line[at..to]),
            };
            sample.time = Some(time.ok_or(FaultKind::Timestamp)?);
            at = skip_blanks(line, to);
        }
        if at == line.len() {
            return Ok(());
        }
        if format != Format::OpenMetrics || line[at] != b'#' {
            return Err(FaultKind::Trailing);
        }
        sample.exemplar = Some(self.exemplar(line, skip_blanks(line, at + 1))?);
        Ok(())
    }

    fn exemplar(&mut self, line: &[u8], start: usize) -> Result<Exemplar, FaultKind> {
        self.exemplar_labels.clear();
        if line.get(start) != Some(&b'{') {
            return Err(FaultKind::Exemplar);
        }
        let (_, end) = labels(line, start + 1, false, &mut self.exemplar_labels)?;
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
    may_name: bool,
    found: &mut Vec<Label>,
) -> Result<(Option<Text>, usize), FaultKind> {
    let (mut at, mut metric) = (start, None);
    loop {
        at = skip_blanks(line, at);
        let name = match line.get(at) {
            Some(b'}') => return Ok((metric, at + 1)),
            Some(b'"') => {
                let (name, end) = quoted(line, at + 1)?;
                at = skip_blanks(line, end);
                if may_name && metric.is_none() && line.get(at) != Some(&b'=') {
                    metric = Some(name);
                    match line.get(at) {
                        Some(b',') => at += 1,
                        Some(b'}') => {}
                        _ => return Err(FaultKind::Brace),
                    }
                    continue;
                }
                name
            }
            _ => {
                let end = name_end(line, at, START, INNER).ok_or(FaultKind::LabelName)?;
                let name = Text { span: Span::new(at, end), is_escaped: false };
                at = skip_blanks(line, end);
                name
            }
        };
        if line.get(at) != Some(&b'=') {
            return Err(FaultKind::LabelValue);
        }
        at = skip_blanks(line, at + 1);
        if line.get(at) != Some(&b'"') {
            return Err(FaultKind::LabelValue);
        }
        let (value, end) = quoted(line, at + 1)?;
        let text = name.span.of(line);
        if found.iter().any(|known| known.name.span.of(line) == text) {
            return Err(FaultKind::LabelTwice);
        }
        if found.len() == LABELS_MAX {
            return Err(FaultKind::Labels(LABELS_MAX));
        }
        found.push(Label { name, value });
        at = skip_blanks(line, end);
        match line.get(at) {
            Some(b',') => at += 1,
            Some(b'}') => {}
            _ => return Err(FaultKind::Brace),
        }
    }
}

fn comment(line: &[u8], start: usize, format: Format) -> Result<Line, FaultKind> {
    let from = skip_blanks(line, start + 1);
    let to = field_end(line, from);
    let word = &line[from..to];
    if word == b"EOF" && format == Format::OpenMetrics && to == line.len() {
        return Ok(Line::End);
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
