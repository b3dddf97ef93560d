//! One scrape: a body in pieces becomes requests, then what is gone, then what is said of it.
//!
//! [`Scrape::feed`] until the body ends, [`Scrape::end`] or [`Scrape::fail`], then
//! [`Scrape::settle`] until it says that all is written, and [`Scrape::remember`]. Whenever
//! [`Scrape::is_full`], the caller takes what is there with [`Scrape::take`].

mod relabeled;
mod ruled;

use memchr::memchr;

use crate::convert::Converter;
use crate::family::{Family, Type};
use crate::limits::{Fault, FaultKind, LINE_BYTES_MAX, Limits, Part};
use crate::line::{Format, Line, Parser};
use crate::memory::{Kind, Memory};
use crate::names::{Named, Walk};
use crate::pass::Pass;
use crate::protobuf::{Families, Piece};
use crate::target::Target;
use crate::write::{Number, Request, Writer};

use relabeled::Relabeled;

const NANOS_PER_MILLI: u64 = 1_000_000;

/// The scrape's own series, as Prometheus names them.
const OWN: [&str; 5] = [
    "up",
    "scrape_duration_seconds",
    "scrape_samples_scraped",
    "scrape_samples_post_metric_relabeling",
    "scrape_series_added",
];

/// What a body came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Samples: lines of the body that are neither empty nor comments.
    pub samples: u64,
    /// Those of series that the last scrape didn't have.
    pub added: u64,
    /// Samples that were left out: duplicates, histograms and summaries that aren't whole, gauge
    /// histograms, times that OTLP can't have, a second `target_info`.
    pub dropped: u64,
    /// Samples that rules for metrics dropped.
    pub removed: u64,
}

/// What is written about a scrape.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Report {
    /// How long it took, in seconds.
    pub duration_seconds: f64,
}

/// How far a scrape is.
#[derive(Debug)]
enum Stage {
    /// Lines are read.
    Body,
    /// Series of the last scrape that this one lacks are written.
    Gone(Walk),
    /// It failed after a part of it was taken: series of that part are written.
    Broken(Walk),
    /// Its own series are written.
    About,
    /// All is written.
    Over,
}

/// Memory that a scrape works in. The next one, of whichever target, uses it again.
#[derive(Debug, Default)]
pub struct Buffers {
    /// The beginning of a line whose end hasn't come.
    cut: Vec<u8>,
    parser: Parser,
    families: Families,
    converter: Converter,
    writer: Writer,
    pass: Pass,
}

impl Buffers {
    /// What they take, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let buffers = self.writer.held_bytes() + self.cut.capacity() + self.converter.held_bytes();
        buffers as u64 + self.pass.bytes()
    }

    /// Gives back what most scrapes don't need: at most some 2 MiB are kept.
    fn trim(&mut self) {
        if self.cut.capacity() > LINE_BYTES_MAX {
            self.cut = Vec::new();
        }
        self.writer.trim();
        self.pass.trim();
    }
}

/// One scrape of a target.
#[derive(Debug)]
pub struct Scrape<'a> {
    target: &'a Target,
    memory: &'a mut Memory,
    limits: Limits,
    format: Format,
    time_unix_nano: u64,
    stage: Stage,
    is_failed: bool,
    /// Whether the target is scraped no more.
    is_left: bool,
    /// Whether a request was taken before the body's end.
    is_partly_taken: bool,
    line: u64,
    /// The first line with a sample over the limit. Those behind it are only counted.
    line_over: Option<u64>,
    /// Whether the body has a fault: what was counted before it is told then.
    has_fault: bool,
    body_bytes: u64,
    has_ended: bool,
    buffers: Box<Buffers>,
    /// What rules for metrics work with, if the target has some.
    relabeled: Box<Relabeled>,
}

impl<'a> Scrape<'a> {
    /// Begins a scrape at a time, in nanoseconds since 1970.
    #[must_use]
    pub fn new(
        target: &'a Target,
        memory: &'a mut Memory,
        limits: Limits,
        time_unix_nano: u64,
        mut buffers: Box<Buffers>,
    ) -> Self {
        buffers.cut.clear();
        buffers.families.begin();
        buffers.converter.begin();
        buffers.writer.begin(target, &memory.target_info);
        buffers.pass.begin(memory);
        Self {
            target,
            memory,
            limits,
            format: Format::Prometheus,
            time_unix_nano,
            stage: Stage::Body,
            is_failed: false,
            is_left: false,
            is_partly_taken: false,
            line: 0,
            line_over: None,
            has_fault: false,
            body_bytes: 0,
            has_ended: false,
            buffers,
            relabeled: Box::default(),
        }
    }

    /// Says how the body is written, before it is fed.
    pub fn set_format(&mut self, format: Format) {
        self.format = format;
    }

    /// Reads a piece of the body. How many bytes were taken: all, or fewer when the request is full
    /// then.
    ///
    /// # Errors
    /// The first line that can't be read. Only [`Scrape::fail`] is to be called then.
    pub fn feed(&mut self, piece: &[u8]) -> Result<usize, Fault> {
        if self.format == Format::Protobuf {
            return self.feed_families(piece).map_err(|kind| self.fault(kind));
        }
        let mut at = 0;
        while at < piece.len() && !self.is_full() {
            let rest = &piece[at..];
            let end = memchr(b'\n', rest);
            let part = &rest[..end.unwrap_or(rest.len())];
            if self.buffers.cut.len() + part.len() > LINE_BYTES_MAX {
                self.line += 1;
                return Err(self.fault(FaultKind::LongLine));
            }
            let taken = part.len() + usize::from(end.is_some());
            at += taken;
            self.body_bytes += taken as u64;
            if self.body_bytes > self.limits.body_bytes {
                self.line += 1;
                return Err(self.fault(FaultKind::LongBody(self.limits.body_bytes)));
            }
            if end.is_some() && self.buffers.cut.is_empty() {
                self.read(part)?;
                continue;
            }
            self.buffers.cut.extend_from_slice(part);
            if end.is_some() {
                self.read_cut()?;
            }
        }
        Ok(at)
    }

    /// Reads a piece of a body of the protobuf format.
    fn feed_families(&mut self, piece: &[u8]) -> Result<usize, FaultKind> {
        let mut at = 0;
        while at < piece.len() && !self.is_full() {
            // Nothing behind the limit is looked at, wherever the body is cut.
            let left = self.limits.body_bytes.saturating_sub(self.body_bytes);
            if left == 0 {
                return Err(FaultKind::LongBody(self.limits.body_bytes));
            }
            let left = usize::try_from(left).unwrap_or(usize::MAX);
            let rest = &piece[at..][..left.min(piece.len() - at)];
            let Buffers { cut, families, .. } = &mut *self.buffers;
            let taken = match (
                cut.is_empty(),
                families.measure(if cut.is_empty() { rest } else { cut })?,
            ) {
                (true, Piece::Whole(bytes)) => {
                    self.take_piece(&rest[..bytes])?;
                    bytes
                }
                (true, Piece::Cut(_)) => {
                    cut.extend_from_slice(rest);
                    rest.len()
                }
                (false, Piece::Whole(_)) => {
                    let mut cut = std::mem::take(cut);
                    let read = self.take_piece(&cut);
                    cut.clear();
                    self.buffers.cut = cut;
                    read?;
                    0
                }
                (false, Piece::Cut(needed)) => {
                    let more = (needed - cut.len()).min(rest.len());
                    cut.extend_from_slice(&rest[..more]);
                    more
                }
            };
            at += taken;
            self.body_bytes += taken as u64;
        }
        Ok(at)
    }

    fn take_piece(&mut self, bytes: &[u8]) -> Result<(), FaultKind> {
        if !self.target.metric_rules().is_empty() {
            return self.take_ruled_piece(bytes);
        }
        let Self { memory, target, limits, buffers, .. } = self;
        let Buffers { parser, families, converter, pass, writer, .. } = &mut **buffers;
        let place = (&**memory, pass, *target, writer);
        families.take(bytes, (converter, parser), (self.time_unix_nano, limits), place)
    }

    /// Ends the body of the protobuf format.
    fn end_families(&mut self) -> Result<(), FaultKind> {
        let Buffers { cut, families, .. } = &mut *self.buffers;
        if !cut.is_empty() && matches!(families.measure(cut)?, Piece::Whole(_)) {
            let cut = std::mem::take(cut);
            self.take_piece(&cut)?;
        }
        let Buffers { cut, families, .. } = &*self.buffers;
        if cut.is_empty() && families.is_between() { Ok(()) } else { Err(FaultKind::CutOff) }
    }

    /// Ends the body.
    ///
    /// # Errors
    /// The last line can't be read, or the end is missing. Only [`Scrape::fail`] is to be called
    /// then.
    pub fn end(&mut self) -> Result<(), Fault> {
        if self.format == Format::Protobuf {
            self.end_families().map_err(|kind| self.fault(kind))?;
        }
        if !self.buffers.cut.is_empty() {
            self.read_cut()?;
        }
        if self.format == Format::OpenMetrics && !self.has_ended {
            return Err(self.fault(FaultKind::NoEnd));
        }
        if let Some(line) = self.line_over {
            self.line = line;
            return Err(self.fault(FaultKind::Samples(self.limits.samples)));
        }
        let Buffers { converter, pass, writer, .. } = &mut *self.buffers;
        converter.end_family(self.memory, pass, self.target, writer);
        self.end_renamed();
        self.stage = match self.memory.is_marked || self.buffers.pass.has_all(self.memory) {
            true => Stage::About,
            false => Stage::Gone(Walk::default()),
        };
        Ok(())
    }

    /// The scrape failed: no connection, an answer that can't be used, a fault in the body. What of
    /// it wasn't taken is forgotten.
    pub fn fail(&mut self) {
        self.is_failed = true;
        self.buffers.writer.begin(self.target, &self.memory.target_info);
        self.stage = match (self.is_partly_taken, self.memory.is_marked) {
            (true, _) => Stage::Broken(Walk::default()),
            (false, true) => Stage::About,
            (false, false) => Stage::Gone(Walk::default()),
        };
    }

    /// The target is scraped no more: nothing was asked, and all series are to be marked, those of
    /// the scrape too. Only of a target that was scraped.
    pub fn leave(&mut self) {
        self.fail();
        self.is_left = true;
    }

    /// Writes what is gone and what is said of the scrape. False when the request is full before
    /// all is written: it is to be called again.
    pub fn settle(&mut self, report: &Report) -> bool {
        loop {
            if self.is_full() {
                return false;
            }
            match std::mem::replace(&mut self.stage, Stage::Over) {
                Stage::Body | Stage::Over => return true,
                Stage::Gone(walk) => self.stage = self.gone(walk),
                Stage::Broken(walk) => self.stage = self.broken(walk),
                Stage::About => {
                    match self.is_left {
                        true => self.about_left(),
                        false => self.about(report),
                    }
                    return true;
                }
            }
        }
    }

    /// Whether the request is to be taken before more is written.
    #[inline]
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.buffers.writer.is_full()
    }

    /// What was written, if anything was.
    pub fn take(&mut self) -> Option<Request> {
        if self.buffers.writer.is_empty() {
            return None;
        }
        self.is_partly_taken |= matches!(self.stage, Stage::Body);
        let told = self.buffers.converter.target_info.as_deref();
        let info = told.unwrap_or(&self.memory.target_info);
        Some(self.buffers.writer.take(self.target, info))
    }

    /// Takes a request's memory back once it was sent, for the next one.
    pub fn give_back(&mut self, request: Request) {
        self.buffers.writer.give_back(request.bytes);
    }

    /// Ends the scrape once all that was taken is safe: the next one is compared with it. Without
    /// this the next one is compared with the one before, so that nothing goes unsaid.
    pub fn remember(self) -> Box<Buffers> {
        let Self { memory, mut buffers, is_failed, is_partly_taken, .. } = self;
        let Buffers { pass, converter, .. } = &mut *buffers;
        match (is_failed, is_partly_taken) {
            (false, _) => pass.replace(memory, converter.target_info.take().unwrap_or_default()),
            // Beginnings are kept: a target that was away for a while hasn't begun anew.
            (true, false) => memory.is_marked = true,
            (true, true) => *memory = Memory::emptied(),
        }
        buffers.trim();
        buffers
    }

    /// What the body came to so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.buffers.converter.counts
    }

    /// What it holds, in bytes: what will be remembered, but not what is.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        self.buffers.bytes() + self.relabeled.held_bytes() as u64
    }

    fn fault(&mut self, kind: FaultKind) -> Fault {
        // Prometheus reads a body before it looks at it: it knows nothing of one that is too long.
        self.has_fault = !matches!(kind, FaultKind::LongBody(_));
        let (part, number) = match self.format {
            Format::Protobuf => (Part::Family, self.buffers.families.number.max(1)),
            Format::Prometheus | Format::OpenMetrics => (Part::Line, self.line),
        };
        Fault { part, number, kind }
    }

    fn read_cut(&mut self) -> Result<(), Fault> {
        let mut cut = std::mem::take(&mut self.buffers.cut);
        let read = self.read(&cut);
        cut.clear();
        self.buffers.cut = cut;
        read
    }

    #[inline]
    fn read(&mut self, line: &[u8]) -> Result<(), Fault> {
        self.line += 1;
        self.take_line(line).map_err(|kind| self.fault(kind))
    }

    #[inline]
    fn take_line(&mut self, line: &[u8]) -> Result<(), FaultKind> {
        if self.has_ended {
            return Err(FaultKind::BehindEnd);
        }
        if !self.target.metric_rules().is_empty() {
            return self.take_relabeled(line);
        }
        let Self { memory, target, limits, format, buffers, line_over, .. } = self;
        let Buffers { parser, converter, pass, writer, .. } = &mut **buffers;
        let all = (*format, self.time_unix_nano, &*limits);
        if converter.take_expected(line, parser, all, (memory, pass, target, writer)) {
            return Ok(());
        }
        match parser.read(line, *format)? {
            Line::Sample => {
                if parser.labels.len() > limits.labels {
                    return Err(FaultKind::Labels(limits.labels));
                }
                if converter.counts.samples >= limits.samples {
                    converter.counts.samples += 1;
                    line_over.get_or_insert(self.line);
                    return Ok(());
                }
                let at = (*format, self.time_unix_nano);
                converter.sample(line, parser, at, (memory, pass, target, writer))
            }
            other => self.take_metadata(line, other),
        }
    }

    /// Takes a line that is no sample.
    fn take_metadata(&mut self, line: &[u8], read: Line) -> Result<(), FaultKind> {
        let Self { memory, target, buffers, .. } = self;
        let Buffers { converter, pass, writer, .. } = &mut **buffers;
        // Series whose labels rules wrote have the target's among them.
        let target = target.bare();
        match read {
            Line::Sample | Line::Nothing => {}
            Line::End => self.has_ended = true,
            Line::Help { name, text } => {
                converter.metadata(name.of(line), memory, pass, target, writer);
                converter.family.describe(text.of(line));
            }
            Line::Unit { name, text } => {
                converter.metadata(name.of(line), memory, pass, target, writer);
                converter.family.measure(text.of(line));
            }
            Line::Type { name, kind } => {
                let type_ = Type::of(kind.of(line))?;
                converter.metadata(name.of(line), memory, pass, target, writer);
                converter.family.type_ = type_;
            }
        }
        Ok(())
    }

    /// Marks series of the memory that this scrape lacks.
    fn gone(&mut self, mut walk: Walk) -> Stage {
        while let Some(named) = walk.next([&self.memory.names, &[]]) {
            // Of a body that failed before any of it was taken, nothing counts as seen.
            let is_here =
                (!self.is_failed || self.is_partly_taken) && self.buffers.pass.has(named.place);
            if !is_here && !named.form.is_timed {
                self.mark(&walk, &named, self.time_unix_nano);
            }
            if self.buffers.writer.is_full() {
                return Stage::Gone(walk);
            }
        }
        Stage::About
    }

    /// Marks all series of the part that was taken, a millisecond later: a series can't have a
    /// value and be gone at the same time.
    fn broken(&mut self, mut walk: Walk) -> Stage {
        let time_unix_nano = self.time_unix_nano + NANOS_PER_MILLI;
        while let Some(named) = walk.next(self.buffers.pass.names(self.memory)) {
            if !named.form.is_timed {
                self.mark(&walk, &named, time_unix_nano);
            }
            if self.buffers.writer.is_full() {
                return Stage::Broken(walk);
            }
        }
        if self.memory.is_marked { Stage::About } else { Stage::Gone(Walk::default()) }
    }

    fn mark(&mut self, walk: &Walk, named: &Named, time_unix_nano: u64) {
        let Self { target, buffers, .. } = self;
        let Buffers { parser, converter, writer, .. } = &mut **buffers;
        let target = target.bare();
        converter.gone(walk.text(), named.form.kind, parser, time_unix_nano, target, writer);
    }

    /// Marks the scrape's own series.
    fn about_left(&mut self) {
        let family = Family { type_: Type::Gauge, ..Family::default() };
        for name in OWN {
            self.buffers.writer.metric(name.as_bytes(), Kind::Gauge, &family);
            self.buffers.writer.gone(self.time_unix_nano, [&self.target.attributes[0], &[]]);
        }
    }

    /// Writes the scrape's own series, as Prometheus does.
    fn about(&mut self, report: &Report) {
        // Of a body that didn't come whole nothing counts.
        let counts = (!self.is_failed || self.has_fault).then_some(self.buffers.converter.counts);
        let Counts { samples, added, dropped: _, removed } = counts.unwrap_or_default();
        let family = Family { type_: Type::Gauge, ..Family::default() };
        let up = if self.is_failed { 0.0 } else { 1.0 };
        let kept = (samples - removed) as f64;
        let values = [up, report.duration_seconds, samples as f64, kept, added as f64];
        for (name, value) in OWN.into_iter().zip(values) {
            self.buffers.writer.metric(name.as_bytes(), Kind::Gauge, &family);
            let number = Number {
                start_unix_nano: 0,
                time_unix_nano: self.time_unix_nano,
                value,
                attributes: [&self.target.attributes[0], &[]],
                exemplar: &[],
            };
            self.buffers.writer.number(&number);
        }
    }
}
