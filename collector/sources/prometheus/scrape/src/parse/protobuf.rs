//! Parses Prometheus' protobuf format: length-delimited metric families.
//!
//! A family may be as long as the body. It is read field by field: only a metric is held
//! completely, at most [`METRIC_BYTES_MAX`]. The name and labels of each metric are written in the
//! text format, so that both formats share the conversion and the memory of series.

use millrace_wire::protobuf::{Cursor, FIXED32, FIXED64, LENGTH, VARINT, field_tag};

use crate::limits::{BodyLimits, FaultKind, METRIC_BYTES_MAX};
use crate::otlp::convert::{Converter, ScrapeContext};
use crate::otlp::family::Type;
use crate::parse::label_pair::{LABEL, decode_label};
use crate::parse::line::LineParser;
use crate::parse::native;

/// The most bytes of a variable-length integer.
const VARINT_BYTES: usize = 10;

// Fields of MetricFamily.
const NAME: u32 = field_tag(1, LENGTH);
const HELP: u32 = field_tag(2, LENGTH);
const TYPE: u32 = field_tag(3, VARINT);
const METRIC: u32 = field_tag(4, LENGTH);
const UNIT: u32 = field_tag(5, LENGTH);
// Fields of Metric, but for its labels.
pub(crate) const GAUGE: u32 = field_tag(2, LENGTH);
pub(crate) const COUNTER: u32 = field_tag(3, LENGTH);
pub(crate) const SUMMARY: u32 = field_tag(4, LENGTH);
pub(crate) const UNTYPED: u32 = field_tag(5, LENGTH);
const TIME_MILLIS: u32 = field_tag(6, VARINT);
pub(crate) const HISTOGRAM: u32 = field_tag(7, LENGTH);

/// The position in a body.
#[derive(Debug, Default)]
pub(crate) struct Families {
    /// The remaining bytes of the family; `None` between families.
    remaining_bytes: Option<u64>,
    /// Whether the last piece was the family's length.
    is_new: bool,
    /// The family's name, description and type until the first metric.
    pub(crate) name: Vec<u8>,
    help: Vec<u8>,
    pub(crate) type_: Type,
    has_metrics: bool,
    /// The family's number, from 1.
    pub(crate) number: u64,
    text: Vec<u8>,
}

/// The piece at the beginning of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Piece {
    /// A family's length or one of its fields, with its size in bytes.
    Complete(usize),
    /// A part of a piece, and the minimum size that is needed to continue.
    Cut(usize),
}

/// The parts of one metric.
#[derive(Debug, Default)]
pub(crate) struct ProtoMetric<'a> {
    pub(crate) value: Option<(u32, &'a [u8])>,
    pub(crate) time_unix_nano: Option<i64>,
}

impl Families {
    pub(crate) fn begin_body(&mut self) {
        self.remaining_bytes = None;
        self.is_new = false;
        self.number = 0;
    }

    /// Whether the position is between two families.
    pub(crate) fn is_between(&self) -> bool {
        self.remaining_bytes.is_none()
    }

    /// Measures the piece at the beginning of a slice.
    pub(crate) fn measure_piece(&self, bytes: &[u8]) -> Result<Piece, FaultKind> {
        let mut length = match peek_varint(bytes)? {
            Some((_, length)) => length,
            None => return Ok(Piece::Cut(bytes.len() + 1)),
        };
        let Some(left) = self.remaining_bytes else { return Ok(Piece::Complete(length)) };
        let tag = Cursor::new(bytes).tag().ok().flatten().ok_or(FaultKind::Protobuf)?;
        length += match tag & 7 {
            FIXED64 => 8,
            FIXED32 => 4,
            VARINT | LENGTH => match peek_varint(&bytes[length..])? {
                Some((value, more)) if tag & 7 == LENGTH => {
                    more + usize::try_from(value).map_err(|_| FaultKind::Protobuf)?
                }
                Some((_, more)) => more,
                None => return Ok(Piece::Cut(bytes.len() + 1)),
            },
            _ => return Err(FaultKind::Protobuf),
        };
        if length as u64 > left {
            return Err(FaultKind::Protobuf);
        }
        if length > METRIC_BYTES_MAX {
            return Err(FaultKind::LongMetric);
        }
        Ok(if length <= bytes.len() { Piece::Complete(length) } else { Piece::Cut(length) })
    }

    /// Converts a complete piece.
    pub(crate) fn convert_piece(
        &mut self,
        bytes: &[u8],
        (converter, parser): (&mut Converter, &mut LineParser),
        (now_unix_nano, limits): (u64, &BodyLimits),
        (memory, pass, target, writer): ScrapeContext<'_>,
    ) -> Result<(), FaultKind> {
        let context = (memory, &mut *pass, target, &mut *writer);
        if let Some(message) = self.read_field(bytes, converter, context)? {
            let context = (memory, &mut *pass, target, &mut *writer);
            let both = (&mut *converter, parser);
            self.convert_metric(message, both, (now_unix_nano, limits), context)?;
        }
        self.advance_by(bytes.len(), converter, (memory, pass, target, writer));
        Ok(())
    }

    /// Reads a complete piece. Returns a metric for the caller, who then calls
    /// [`Families::advance_by`].
    pub(crate) fn read_field<'a>(
        &mut self,
        bytes: &'a [u8],
        converter: &mut Converter,
        (memory, pass, target, writer): ScrapeContext<'_>,
    ) -> Result<Option<&'a [u8]>, FaultKind> {
        let mut cursor = Cursor::new(bytes);
        if self.remaining_bytes.is_none() {
            let length = cursor.varint().map_err(|_| FaultKind::Protobuf)?;
            self.remaining_bytes = (length > 0).then_some(length);
            self.is_new = self.remaining_bytes.is_some();
            self.number += 1;
            self.name.clear();
            self.help.clear();
            self.type_ = Type::Counter;
            self.has_metrics = false;
            return Ok(None);
        }
        let tag = cursor.tag()?.unwrap_or_default();
        match tag {
            NAME | HELP | TYPE if self.has_metrics => return Err(FaultKind::Order),
            NAME => copy_text(cursor.bytes()?, &mut self.name)?,
            HELP => copy_text(cursor.bytes()?, &mut self.help)?,
            TYPE => self.type_ = type_of(cursor.varint()?)?,
            UNIT => {
                let mut unit = Vec::new();
                copy_text(cursor.bytes()?, &mut unit)?;
                self.begin_family(converter, (memory, pass, target, writer))?;
                converter.family.set_unit(&unit);
                writer.set_late_unit(&converter.family.unit);
            }
            METRIC => {
                let message = cursor.bytes()?;
                self.begin_family(converter, (memory, pass, target, writer))?;
                return Ok(Some(message));
            }
            _ => {}
        }
        Ok(None)
    }

    /// Moves the position past a piece.
    pub(crate) fn advance_by(
        &mut self,
        bytes: usize,
        converter: &mut Converter,
        (memory, pass, target, writer): ScrapeContext<'_>,
    ) {
        // The length prefix is no part of the family.
        if std::mem::take(&mut self.is_new) {
            return;
        }
        let Some(left) = self.remaining_bytes else { return };
        self.remaining_bytes = left.checked_sub(bytes as u64).filter(|left| *left > 0);
        if self.remaining_bytes.is_none() {
            converter.end_family(memory, pass, target, writer);
        }
    }

    /// Begins the family, unless that was done.
    fn begin_family(
        &mut self,
        converter: &mut Converter,
        (memory, pass, target, writer): ScrapeContext<'_>,
    ) -> Result<(), FaultKind> {
        if self.name.is_empty() {
            return Err(FaultKind::Name);
        }
        if !self.has_metrics {
            // Consecutive families have the same name only if the first one had no metrics.
            self.text.clear();
            put_quoted(&mut self.text, &self.name);
            let escaped = &self.text[1..self.text.len() - 1];
            converter.enter_family(escaped, memory, pass, target, writer);
            converter.family.type_ = self.type_;
            converter.family.set_plain_help(&self.help);
            self.has_metrics = true;
        }
        Ok(())
    }

    fn convert_metric(
        &mut self,
        message: &[u8],
        (converter, parser): (&mut Converter, &mut LineParser),
        (now_unix_nano, limits): (u64, &BodyLimits),
        context: ScrapeContext<'_>,
    ) -> Result<(), FaultKind> {
        let metric = ProtoMetric::read(message)?;
        self.text.clear();
        put_identity(&mut self.text, &self.name, message)?;
        let identity_bytes = self.text.len();
        if converter.counts.samples >= limits.samples {
            return Err(FaultKind::Samples(limits.samples));
        }
        parser.load_identity(&self.text, metric.time_unix_nano)?;
        if parser.labels.len() > limits.labels {
            return Err(FaultKind::Labels(limits.labels));
        }
        let Some((tag, value)) = metric.value else { return Err(FaultKind::Value) };
        match (tag, self.type_) {
            (GAUGE, Type::Gauge) | (UNTYPED, Type::Unknown) => {
                let value = decode_value(value)?;
                converter.convert_plain_number(
                    &self.text,
                    parser,
                    (value, None),
                    now_unix_nano,
                    context,
                )
            }
            (COUNTER, Type::Counter) => {
                let counter = native::Counter::read(value)?;
                if let Some(exemplar) = counter.exemplar {
                    put_labels(&mut self.text, exemplar, true)?;
                    let exemplar = native::decode_exemplar(exemplar)?;
                    parser.load_exemplar(&self.text, identity_bytes, exemplar)?;
                }
                let value = (counter.value, counter.created_unix_nano);
                converter.convert_plain_number(&self.text, parser, value, now_unix_nano, context)
            }
            (HISTOGRAM, Type::Histogram) => {
                let parts = native::HistogramParts::of_histogram(value)?;
                converter.convert_distribution(&self.text, parser, &parts, now_unix_nano, context)
            }
            (SUMMARY, Type::Summary) => {
                let parts = native::HistogramParts::of_summary(value)?;
                converter.convert_distribution(&self.text, parser, &parts, now_unix_nano, context)
            }
            (HISTOGRAM, Type::GaugeHistogram) => {
                converter.counts.samples += 1;
                converter.counts.dropped += 1;
                Ok(())
            }
            _ => Err(FaultKind::Value),
        }
    }
}

impl<'a> ProtoMetric<'a> {
    pub(crate) fn read(message: &'a [u8]) -> Result<Self, FaultKind> {
        let mut metric = Self::default();
        let mut cursor = Cursor::new(message);
        while let Some(tag) = cursor.tag()? {
            match tag {
                GAUGE | COUNTER | SUMMARY | UNTYPED | HISTOGRAM => {
                    metric.value = Some((tag, cursor.bytes()?));
                }
                TIME_MILLIS => {
                    let millis = cursor.varint()? as i64;
                    metric.time_unix_nano = Some(millis.saturating_mul(1_000_000));
                }
                _ => cursor.skip(tag)?,
            }
        }
        Ok(metric)
    }
}

/// Parses an integer at the beginning of a slice, and its length; `None` if it is truncated.
fn peek_varint(bytes: &[u8]) -> Result<Option<(u64, usize)>, FaultKind> {
    let mut cursor = Cursor::new(bytes);
    match cursor.varint() {
        Ok(value) => Ok(Some((value, bytes.len() - cursor.remaining().len()))),
        Err(_) if bytes.len() < VARINT_BYTES => Ok(None),
        Err(_) => Err(FaultKind::Protobuf),
    }
}

fn copy_text(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), FaultKind> {
    std::str::from_utf8(bytes).map_err(|_| FaultKind::NotText)?;
    out.clear();
    out.extend_from_slice(bytes);
    Ok(())
}

fn type_of(number: u64) -> Result<Type, FaultKind> {
    Ok(match number {
        0 => Type::Counter,
        1 => Type::Gauge,
        2 => Type::Summary,
        3 => Type::Unknown,
        4 => Type::Histogram,
        5 => Type::GaugeHistogram,
        _ => return Err(FaultKind::Type),
    })
}

/// Decodes a gauge's or untyped metric's value.
pub(crate) fn decode_value(message: &[u8]) -> Result<f64, FaultKind> {
    let (mut cursor, mut value) = (Cursor::new(message), 0.0);
    while let Some(tag) = cursor.tag()? {
        match tag {
            native::VALUE => value = cursor.double()?,
            _ => cursor.skip(tag)?,
        }
    }
    Ok(value)
}

/// Writes a name and a message's labels in the text format.
pub(crate) fn put_identity(
    out: &mut Vec<u8>,
    name: &[u8],
    message: &[u8],
) -> Result<(), FaultKind> {
    let is_bare = LineParser::is_bare_name(name);
    if is_bare {
        out.extend_from_slice(name);
    } else {
        out.push(b'{');
        put_quoted(out, name);
    }
    put_labels(out, message, is_bare)
}

/// Writes labels in braces; without the opening one if it was written already.
pub(crate) fn put_labels(out: &mut Vec<u8>, message: &[u8], opens: bool) -> Result<(), FaultKind> {
    out.extend_from_slice(if opens { b"{" } else { b"" });
    let (mut cursor, mut is_first) = (Cursor::new(message), opens);
    while let Some(tag) = cursor.tag()? {
        if tag != LABEL {
            cursor.skip(tag)?;
            continue;
        }
        let (name, value) = decode_label(cursor.bytes()?)?;
        if !is_first {
            out.push(b',');
        }
        is_first = false;
        if LineParser::is_bare_label(name) {
            out.extend_from_slice(name);
        } else {
            put_quoted(out, name);
        }
        out.push(b'=');
        put_quoted(out, value);
    }
    out.push(b'}');
    Ok(())
}

fn put_quoted(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    for byte in text {
        match byte {
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'"' => out.extend_from_slice(b"\\\""),
            b'\n' => out.extend_from_slice(b"\\n"),
            byte => out.push(*byte),
        }
    }
    out.push(b'"');
}
