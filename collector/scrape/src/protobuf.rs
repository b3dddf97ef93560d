//! Prometheus' protobuf format: metric families, each behind its length.
//!
//! A family may be as long as the body. It is read field by field: a metric is held whole, at most
//! [`METRIC_BYTES_MAX`] of it. Of each metric the name and labels are written as the text format
//! has them, so that both formats share what becomes of a series and what is remembered of it.

use millrace_wire::protobuf::{Cursor, FIXED32, FIXED64, LENGTH, VARINT, tag};

use crate::convert::{Converter, Place};
use crate::family::Type;
use crate::limits::{FaultKind, Limits, METRIC_BYTES_MAX};
use crate::line::Parser;
use crate::native;

/// Most bytes of a variable-length integer.
const VARINT_BYTES: usize = 10;

// MetricFamily.
const NAME: u32 = tag(1, LENGTH);
const HELP: u32 = tag(2, LENGTH);
const TYPE: u32 = tag(3, VARINT);
const METRIC: u32 = tag(4, LENGTH);
const UNIT: u32 = tag(5, LENGTH);
// LabelPair, beside its name.
const LABEL_VALUE: u32 = tag(2, LENGTH);
// Metric, and LabelPair's name.
pub(crate) const LABEL: u32 = tag(1, LENGTH);
pub(crate) const GAUGE: u32 = tag(2, LENGTH);
pub(crate) const COUNTER: u32 = tag(3, LENGTH);
pub(crate) const SUMMARY: u32 = tag(4, LENGTH);
pub(crate) const UNTYPED: u32 = tag(5, LENGTH);
const TIME_MILLIS: u32 = tag(6, VARINT);
pub(crate) const HISTOGRAM: u32 = tag(7, LENGTH);

/// How far a body is read.
#[derive(Debug, Default)]
pub(crate) struct Families {
    /// What is left of the family; none between families.
    left: Option<u64>,
    /// Whether the last piece was its length.
    is_new: bool,
    /// Its name, description and type until the first metric.
    pub(crate) name: Vec<u8>,
    help: Vec<u8>,
    pub(crate) type_: Type,
    has_metrics: bool,
    /// Its number, from 1.
    pub(crate) number: u64,
    text: Vec<u8>,
}

/// What stands at the beginning of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Piece {
    /// A family's length or one of its fields, of so many bytes.
    Whole(usize),
    /// A part of one, which needs so many bytes at least.
    Cut(usize),
}

/// One metric's parts.
#[derive(Debug, Default)]
pub(crate) struct Metric<'a> {
    pub(crate) value: Option<(u32, &'a [u8])>,
    pub(crate) time_unix_nano: Option<i64>,
}

impl Families {
    pub(crate) fn begin(&mut self) {
        self.left = None;
        self.is_new = false;
        self.number = 0;
    }

    /// Whether nothing was begun that hasn't ended.
    pub(crate) fn is_between(&self) -> bool {
        self.left.is_none()
    }

    /// What bytes begin with.
    pub(crate) fn measure(&self, bytes: &[u8]) -> Result<Piece, FaultKind> {
        let mut length = match varint(bytes)? {
            Some((_, length)) => length,
            None => return Ok(Piece::Cut(bytes.len() + 1)),
        };
        let Some(left) = self.left else { return Ok(Piece::Whole(length)) };
        let tag = Cursor::new(bytes).tag().ok().flatten().ok_or(FaultKind::Protobuf)?;
        length += match tag & 7 {
            FIXED64 => 8,
            FIXED32 => 4,
            VARINT | LENGTH => match varint(&bytes[length..])? {
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
        Ok(if length <= bytes.len() { Piece::Whole(length) } else { Piece::Cut(length) })
    }

    /// Takes a whole piece.
    pub(crate) fn take(
        &mut self,
        bytes: &[u8],
        (converter, parser): (&mut Converter, &mut Parser),
        (now_unix_nano, limits): (u64, &Limits),
        (memory, pass, target, writer): Place<'_>,
    ) -> Result<(), FaultKind> {
        let place = (memory, &mut *pass, target, &mut *writer);
        if let Some(message) = self.field(bytes, converter, place)? {
            let place = (memory, &mut *pass, target, &mut *writer);
            let both = (&mut *converter, parser);
            self.metric(message, both, (now_unix_nano, limits), place)?;
        }
        self.advance(bytes.len(), converter, (memory, pass, target, writer));
        Ok(())
    }

    /// Reads a whole piece. A metric is the caller's to take; [`Families::advance`] follows.
    pub(crate) fn field<'a>(
        &mut self,
        bytes: &'a [u8],
        converter: &mut Converter,
        (memory, pass, target, writer): Place<'_>,
    ) -> Result<Option<&'a [u8]>, FaultKind> {
        let mut cursor = Cursor::new(bytes);
        if self.left.is_none() {
            let length = cursor.varint().map_err(|_| FaultKind::Protobuf)?;
            self.left = (length > 0).then_some(length);
            self.is_new = self.left.is_some();
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
            NAME => text(cursor.bytes()?, &mut self.name)?,
            HELP => text(cursor.bytes()?, &mut self.help)?,
            TYPE => self.type_ = type_of(cursor.varint()?)?,
            UNIT => {
                let mut unit = Vec::new();
                text(cursor.bytes()?, &mut unit)?;
                self.begin_family(converter, (memory, pass, target, writer))?;
                converter.family.measure(&unit);
                writer.measure(&converter.family.unit);
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

    /// Goes on behind a piece.
    pub(crate) fn advance(
        &mut self,
        bytes: usize,
        converter: &mut Converter,
        (memory, pass, target, writer): Place<'_>,
    ) {
        // The length itself is none of the family.
        if std::mem::take(&mut self.is_new) {
            return;
        }
        let Some(left) = self.left else { return };
        self.left = left.checked_sub(bytes as u64).filter(|left| *left > 0);
        if self.left.is_none() {
            converter.end_family(memory, pass, target, writer);
        }
    }

    /// Begins the family, unless that was done.
    fn begin_family(
        &mut self,
        converter: &mut Converter,
        (memory, pass, target, writer): Place<'_>,
    ) -> Result<(), FaultKind> {
        if self.name.is_empty() {
            return Err(FaultKind::Name);
        }
        if !self.has_metrics {
            // Two families of one name follow each other only where the first one had no metrics.
            self.text.clear();
            put_quoted(&mut self.text, &self.name);
            let escaped = &self.text[1..self.text.len() - 1];
            converter.metadata(escaped, memory, pass, target, writer);
            converter.family.type_ = self.type_;
            converter.family.describe_plain(&self.help);
            self.has_metrics = true;
        }
        Ok(())
    }

    fn metric(
        &mut self,
        message: &[u8],
        (converter, parser): (&mut Converter, &mut Parser),
        (now_unix_nano, limits): (u64, &Limits),
        place: Place<'_>,
    ) -> Result<(), FaultKind> {
        let metric = Metric::read(message)?;
        self.text.clear();
        put_identity(&mut self.text, &self.name, message)?;
        let identity_bytes = self.text.len();
        if converter.counts.samples >= limits.samples {
            return Err(FaultKind::Samples(limits.samples));
        }
        parser.take_identity(&self.text, metric.time_unix_nano)?;
        if parser.labels.len() > limits.labels {
            return Err(FaultKind::Labels(limits.labels));
        }
        let Some((tag, value)) = metric.value else { return Err(FaultKind::Value) };
        match (tag, self.type_) {
            (GAUGE, Type::Gauge) | (UNTYPED, Type::Unknown) => {
                let value = number(value)?;
                converter.plain_number(&self.text, parser, (value, None), now_unix_nano, place)
            }
            (COUNTER, Type::Counter) => {
                let counter = native::Counter::read(value)?;
                if let Some(exemplar) = counter.exemplar {
                    put_labels(&mut self.text, exemplar, true)?;
                    parser.take_exemplar(&self.text, identity_bytes, exemplar)?;
                }
                let value = (counter.value, counter.created_unix_nano);
                converter.plain_number(&self.text, parser, value, now_unix_nano, place)
            }
            (HISTOGRAM, Type::Histogram) => {
                let parts = native::Parts::of_histogram(value)?;
                converter.whole(&self.text, parser, &parts, now_unix_nano, place)
            }
            (SUMMARY, Type::Summary) => {
                let parts = native::Parts::of_summary(value)?;
                converter.whole(&self.text, parser, &parts, now_unix_nano, place)
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

impl<'a> Metric<'a> {
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

/// An integer at the beginning of bytes and its length; none if it is cut off.
fn varint(bytes: &[u8]) -> Result<Option<(u64, usize)>, FaultKind> {
    let mut cursor = Cursor::new(bytes);
    match cursor.varint() {
        Ok(value) => Ok(Some((value, bytes.len() - cursor.rest().len()))),
        Err(_) if bytes.len() < VARINT_BYTES => Ok(None),
        Err(_) => Err(FaultKind::Protobuf),
    }
}

fn text(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), FaultKind> {
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

/// A gauge's or untyped metric's value.
pub(crate) fn number(message: &[u8]) -> Result<f64, FaultKind> {
    let (mut cursor, mut value) = (Cursor::new(message), 0.0);
    while let Some(tag) = cursor.tag()? {
        match tag {
            native::VALUE => value = cursor.double()?,
            _ => cursor.skip(tag)?,
        }
    }
    Ok(value)
}

/// Writes a name and the labels of a message as the text format has them.
pub(crate) fn put_identity(
    out: &mut Vec<u8>,
    name: &[u8],
    message: &[u8],
) -> Result<(), FaultKind> {
    let is_bare = Parser::is_bare_name(name);
    if is_bare {
        out.extend_from_slice(name);
    } else {
        out.push(b'{');
        put_quoted(out, name);
    }
    put_labels(out, message, is_bare)
}

/// Writes labels in braces: without an opening one if that is there.
pub(crate) fn put_labels(out: &mut Vec<u8>, message: &[u8], opens: bool) -> Result<(), FaultKind> {
    out.extend_from_slice(if opens { b"{" } else { b"" });
    let (mut cursor, mut is_first) = (Cursor::new(message), opens);
    while let Some(tag) = cursor.tag()? {
        if tag != LABEL {
            cursor.skip(tag)?;
            continue;
        }
        let (name, value) = label(cursor.bytes()?)?;
        if !is_first {
            out.push(b',');
        }
        is_first = false;
        if Parser::is_bare_label(name) {
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

/// A label's name and value.
pub(crate) fn label(message: &[u8]) -> Result<(&[u8], &[u8]), FaultKind> {
    let (mut name, mut value): (&[u8], &[u8]) = (&[], &[]);
    let mut cursor = Cursor::new(message);
    while let Some(tag) = cursor.tag()? {
        match tag {
            LABEL => name = cursor.bytes()?,
            LABEL_VALUE => value = cursor.bytes()?,
            _ => cursor.skip(tag)?,
        }
    }
    for text in [name, value] {
        std::str::from_utf8(text).map_err(|_| FaultKind::NotText)?;
    }
    if name.is_empty() { Err(FaultKind::LabelName) } else { Ok((name, value)) }
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
