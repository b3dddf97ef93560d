//! One scrape: writes requests from a body in pieces, then stale markers, then the scrape's own
//! series.
//!
//! Call [`Scrape::feed`] until the body ends, [`Scrape::end_body`] or [`Scrape::mark_failed`], then
//! [`Scrape::write_remaining`] until it returns `true`, and [`Scrape::commit_memory`]. Whenever
//! [`Scrape::is_full`], take the request with [`Scrape::take_request`].

mod relabeled;
mod ruled;
mod stale_markers;

use memchr::memchr;

use crate::limits::{BodyFault, BodyLimits, BodyPart, FaultKind, LINE_BYTES_MAX};
use crate::memory::SeriesMemory;
use crate::memory::names::NameIterator;
use crate::memory::pass::Pass;
use crate::otlp::convert::Converter;
use crate::otlp::family::{Family, Type};
use crate::otlp::write::{MetricsRequest, MetricsWriter, NumberPoint};
use crate::parse::line::{BodyFormat, LineKind, LineParser};
use crate::parse::protobuf::{Families, Piece};
use crate::sample_counts::SampleCounts;
use crate::series_kind::SeriesKind;
use crate::targets::target::TargetAttributes;

use relabeled::RelabelState;

const NANOS_PER_MILLI: u64 = 1_000_000;

/// The scrape's own series, as Prometheus names them.
const REPORT_SERIES: [&str; 5] = [
    "up",
    "scrape_duration_seconds",
    "scrape_samples_scraped",
    "scrape_samples_post_metric_relabeling",
    "scrape_series_added",
];

/// Measurements of a scrape that its own series state.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScrapeReport {
    /// The duration in seconds.
    pub duration_seconds: f64,
}

/// The stage of a scrape.
#[derive(Debug)]
enum ScrapeStage {
    /// Lines are read.
    Body,
    /// Stale markers are written for series of the last scrape that this one lacks.
    Missing(NameIterator),
    /// It failed after a part of it was taken: stale markers of that part are written.
    Partial(NameIterator),
    /// Its own series are written.
    Report,
    /// All is written.
    Done,
}

/// Buffers of a scrape, which the next scrape of any target reuses.
#[derive(Debug, Default)]
pub struct ScrapeBuffers {
    /// The beginning of an incomplete line.
    cut: Vec<u8>,
    parser: LineParser,
    families: Families,
    converter: Converter,
    writer: MetricsWriter,
    pass: Pass,
}

impl ScrapeBuffers {
    /// Returns their size in bytes.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        let buffers = self.writer.held_bytes() + self.cut.capacity() + self.converter.held_bytes();
        buffers as u64 + self.pass.held_bytes()
    }

    /// Frees memory that most scrapes don't need: at most some 2 MiB are retained.
    fn release_excess(&mut self) {
        if self.cut.capacity() > LINE_BYTES_MAX {
            self.cut = Vec::new();
        }
        self.writer.release_excess();
        self.pass.release_excess();
    }
}

/// One scrape of a target.
#[derive(Debug)]
pub struct Scrape<'a> {
    target: &'a TargetAttributes,
    memory: &'a mut SeriesMemory,
    limits: BodyLimits,
    format: BodyFormat,
    time_unix_nano: u64,
    stage: ScrapeStage,
    is_failed: bool,
    /// Whether the target was removed.
    is_removed: bool,
    /// Whether a request was taken before the body's end.
    is_partly_sent: bool,
    line: u64,
    /// The first line with a sample over the limit. Later ones are only counted.
    line_over_limit: Option<u64>,
    /// Whether the body is malformed: the samples before the fault are still reported then.
    has_fault: bool,
    body_bytes: u64,
    has_ended: bool,
    buffers: Box<ScrapeBuffers>,
    /// The state of metric rules, if the target has some.
    relabeled: Box<RelabelState>,
}

impl<'a> Scrape<'a> {
    /// Begins a scrape at a time in nanoseconds since 1970.
    #[must_use]
    pub fn new(
        target: &'a TargetAttributes,
        memory: &'a mut SeriesMemory,
        limits: BodyLimits,
        time_unix_nano: u64,
        mut buffers: Box<ScrapeBuffers>,
    ) -> Self {
        buffers.cut.clear();
        buffers.families.begin_body();
        buffers.converter.begin_body();
        buffers.writer.begin_request(target, &memory.target_info);
        buffers.pass.begin_scrape(memory);
        Self {
            target,
            memory,
            limits,
            format: BodyFormat::Prometheus,
            time_unix_nano,
            stage: ScrapeStage::Body,
            is_failed: false,
            is_removed: false,
            is_partly_sent: false,
            line: 0,
            line_over_limit: None,
            has_fault: false,
            body_bytes: 0,
            has_ended: false,
            buffers,
            relabeled: Box::default(),
        }
    }

    /// Sets the body's format, before it is fed.
    pub fn set_format(&mut self, format: BodyFormat) {
        self.format = format;
    }

    /// Reads a piece of the body. Returns the number of bytes read: fewer than all if the request
    /// is full.
    ///
    /// # Errors
    /// The first malformed line. The caller must then call [`Scrape::mark_failed`].
    pub fn feed(&mut self, piece: &[u8]) -> Result<usize, BodyFault> {
        if self.format == BodyFormat::Protobuf {
            return self.feed_families(piece).map_err(|kind| self.locate_fault(kind));
        }
        let mut at = 0;
        while at < piece.len() && !self.is_full() {
            let rest = &piece[at..];
            let end = memchr(b'\n', rest);
            let part = &rest[..end.unwrap_or(rest.len())];
            if self.buffers.cut.len() + part.len() > LINE_BYTES_MAX {
                self.line += 1;
                return Err(self.locate_fault(FaultKind::LongLine));
            }
            let consumed = part.len() + usize::from(end.is_some());
            at += consumed;
            self.body_bytes += consumed as u64;
            if self.body_bytes > self.limits.body_bytes {
                self.line += 1;
                return Err(self.locate_fault(FaultKind::LongBody(self.limits.body_bytes)));
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

    /// Reads a piece of a protobuf body.
    fn feed_families(&mut self, piece: &[u8]) -> Result<usize, FaultKind> {
        let mut at = 0;
        while at < piece.len() && !self.is_full() {
            // Nothing after the limit is read, wherever the body is split.
            let left = self.limits.body_bytes.saturating_sub(self.body_bytes);
            if left == 0 {
                return Err(FaultKind::LongBody(self.limits.body_bytes));
            }
            let left = usize::try_from(left).unwrap_or(usize::MAX);
            let rest = &piece[at..][..left.min(piece.len() - at)];
            let ScrapeBuffers { cut, families, .. } = &mut *self.buffers;
            let consumed = match (
                cut.is_empty(),
                families.measure_piece(if cut.is_empty() { rest } else { cut })?,
            ) {
                (true, Piece::Complete(bytes)) => {
                    self.convert_piece(&rest[..bytes])?;
                    bytes
                }
                (true, Piece::Cut(_)) => {
                    cut.extend_from_slice(rest);
                    rest.len()
                }
                (false, Piece::Complete(_)) => {
                    let mut cut = std::mem::take(cut);
                    let read = self.convert_piece(&cut);
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
            at += consumed;
            self.body_bytes += consumed as u64;
        }
        Ok(at)
    }

    fn convert_piece(&mut self, bytes: &[u8]) -> Result<(), FaultKind> {
        if !self.target.metric_rules().is_empty() {
            return self.convert_ruled_piece(bytes);
        }
        let Self { memory, target, limits, buffers, .. } = self;
        let ScrapeBuffers { parser, families, converter, pass, writer, .. } = &mut **buffers;
        let context = (&**memory, pass, *target, writer);
        families.convert_piece(bytes, (converter, parser), (self.time_unix_nano, limits), context)
    }

    /// Ends a protobuf body.
    fn end_families(&mut self) -> Result<(), FaultKind> {
        let ScrapeBuffers { cut, families, .. } = &mut *self.buffers;
        if !cut.is_empty() && matches!(families.measure_piece(cut)?, Piece::Complete(_)) {
            let cut = std::mem::take(cut);
            self.convert_piece(&cut)?;
        }
        let ScrapeBuffers { cut, families, .. } = &*self.buffers;
        if cut.is_empty() && families.is_between() { Ok(()) } else { Err(FaultKind::CutOff) }
    }

    /// Ends the body.
    ///
    /// # Errors
    /// The last line is malformed, or the end is missing. The caller must then call
    /// [`Scrape::mark_failed`].
    pub fn end_body(&mut self) -> Result<(), BodyFault> {
        if self.format == BodyFormat::Protobuf {
            self.end_families().map_err(|kind| self.locate_fault(kind))?;
        }
        if !self.buffers.cut.is_empty() {
            self.read_cut()?;
        }
        if self.format == BodyFormat::OpenMetrics && !self.has_ended {
            return Err(self.locate_fault(FaultKind::NoEnd));
        }
        if let Some(line) = self.line_over_limit {
            self.line = line;
            return Err(self.locate_fault(FaultKind::Samples(self.limits.samples)));
        }
        let ScrapeBuffers { converter, pass, writer, .. } = &mut *self.buffers;
        converter.end_family(self.memory, pass, self.target, writer);
        self.end_renamed();
        self.stage = match self.memory.is_marked || self.buffers.pass.has_all(self.memory) {
            true => ScrapeStage::Report,
            false => ScrapeStage::Missing(NameIterator::default()),
        };
        Ok(())
    }

    /// Marks the scrape as failed: no connection, an unusable response, a malformed body. Points
    /// that were not taken are discarded.
    pub fn mark_failed(&mut self) {
        self.is_failed = true;
        self.buffers.writer.begin_request(self.target, &self.memory.target_info);
        self.stage = match (self.is_partly_sent, self.memory.is_marked) {
            (true, _) => ScrapeStage::Partial(NameIterator::default()),
            (false, true) => ScrapeStage::Report,
            (false, false) => ScrapeStage::Missing(NameIterator::default()),
        };
    }

    /// Marks the target as removed: nothing was requested, and all series get stale markers,
    /// including the scrape's own. Call it only for a target that was scraped.
    pub fn mark_removed(&mut self) {
        self.mark_failed();
        self.is_removed = true;
    }

    /// Writes stale markers and the scrape's own series. Returns `false` if the request is full
    /// before all is written: call it again.
    pub fn write_remaining(&mut self, report: &ScrapeReport) -> bool {
        loop {
            if self.is_full() {
                return false;
            }
            match std::mem::replace(&mut self.stage, ScrapeStage::Done) {
                ScrapeStage::Body | ScrapeStage::Done => return true,
                ScrapeStage::Missing(walk) => self.stage = self.mark_missing_series(walk),
                ScrapeStage::Partial(walk) => self.stage = self.mark_partial_series(walk),
                ScrapeStage::Report => {
                    match self.is_removed {
                        true => self.mark_report_series(),
                        false => self.write_report_series(report),
                    }
                    return true;
                }
            }
        }
    }

    /// Whether the request must be taken before more is written.
    #[inline]
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.buffers.writer.is_full()
    }

    /// Takes the request, if it has points.
    pub fn take_request(&mut self) -> Option<MetricsRequest> {
        if self.buffers.writer.is_empty() {
            return None;
        }
        self.is_partly_sent |= matches!(self.stage, ScrapeStage::Body);
        let own_info = self.buffers.converter.target_info.as_deref();
        let info = own_info.unwrap_or(&self.memory.target_info);
        Some(self.buffers.writer.take_request(self.target, info))
    }

    /// Returns a sent request's memory for reuse.
    pub fn return_request(&mut self, request: MetricsRequest) {
        self.buffers.writer.return_buffer(request.bytes);
    }

    /// Ends the scrape once all its points are confirmed: the next scrape is compared with it.
    /// Without this call the next one is compared with the one before, so that no stale marker is
    /// lost.
    pub fn commit_memory(self) -> Box<ScrapeBuffers> {
        let Self { memory, mut buffers, is_failed, is_partly_sent, .. } = self;
        let ScrapeBuffers { pass, converter, .. } = &mut *buffers;
        match (is_failed, is_partly_sent) {
            (false, _) => {
                pass.replace_memory(memory, converter.target_info.take().unwrap_or_default())
            }
            // Starts are retained: a target that was away for a while has not restarted.
            (true, false) => memory.is_marked = true,
            (true, true) => *memory = SeriesMemory::new_marked(),
        }
        buffers.release_excess();
        buffers
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn counts(&self) -> SampleCounts {
        self.buffers.converter.counts
    }

    /// Returns its size in bytes, including the next memory but not the current one.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        self.buffers.held_bytes() + self.relabeled.held_bytes() as u64
    }

    fn locate_fault(&mut self, kind: FaultKind) -> BodyFault {
        // Prometheus reads a complete body before it parses it: of one that is too long it counts
        // nothing.
        self.has_fault = !matches!(kind, FaultKind::LongBody(_));
        let (part, number) = match self.format {
            BodyFormat::Protobuf => (BodyPart::Family, self.buffers.families.number.max(1)),
            BodyFormat::Prometheus | BodyFormat::OpenMetrics => (BodyPart::Line, self.line),
        };
        BodyFault { part, number, kind }
    }

    fn read_cut(&mut self) -> Result<(), BodyFault> {
        let mut cut = std::mem::take(&mut self.buffers.cut);
        let read = self.read(&cut);
        cut.clear();
        self.buffers.cut = cut;
        read
    }

    #[inline]
    fn read(&mut self, line: &[u8]) -> Result<(), BodyFault> {
        self.line += 1;
        self.convert_line(line).map_err(|kind| self.locate_fault(kind))
    }

    #[inline]
    fn convert_line(&mut self, line: &[u8]) -> Result<(), FaultKind> {
        if self.has_ended {
            return Err(FaultKind::BehindEnd);
        }
        if !self.target.metric_rules().is_empty() {
            return self.convert_relabeled(line);
        }
        let Self { memory, target, limits, format, buffers, line_over_limit: line_over, .. } = self;
        let ScrapeBuffers { parser, converter, pass, writer, .. } = &mut **buffers;
        let all = (*format, self.time_unix_nano, &*limits);
        if converter.convert_expected(line, parser, all, (memory, pass, target, writer)) {
            return Ok(());
        }
        match parser.read(line, *format)? {
            LineKind::Sample => {
                if parser.labels.len() > limits.labels {
                    return Err(FaultKind::Labels(limits.labels));
                }
                if converter.counts.samples >= limits.samples {
                    converter.counts.samples += 1;
                    line_over.get_or_insert(self.line);
                    return Ok(());
                }
                let at = (*format, self.time_unix_nano);
                converter.convert_sample(line, parser, at, (memory, pass, target, writer))
            }
            other => self.apply_metadata(line, other),
        }
    }

    /// Applies a line that is no sample.
    fn apply_metadata(&mut self, line: &[u8], read: LineKind) -> Result<(), FaultKind> {
        let Self { memory, target, buffers, .. } = self;
        let ScrapeBuffers { converter, pass, writer, .. } = &mut **buffers;
        // Series that rules rewrote include the target's labels.
        let target = target.without_labels();
        match read {
            LineKind::Sample | LineKind::Nothing => {}
            LineKind::End => self.has_ended = true,
            LineKind::Help { name, text } => {
                converter.enter_family(name.slice_of(line), memory, pass, target, writer);
                converter.family.set_help(text.slice_of(line));
            }
            LineKind::Unit { name, text } => {
                converter.enter_family(name.slice_of(line), memory, pass, target, writer);
                converter.family.set_unit(text.slice_of(line));
            }
            LineKind::Type { name, kind } => {
                let type_ = Type::from_name(kind.slice_of(line))?;
                converter.enter_family(name.slice_of(line), memory, pass, target, writer);
                converter.family.type_ = type_;
            }
        }
        Ok(())
    }

    /// Writes the scrape's own series, as Prometheus does.
    fn write_report_series(&mut self, report: &ScrapeReport) {
        // The samples of an incomplete body don't count.
        let counts = (!self.is_failed || self.has_fault).then_some(self.buffers.converter.counts);
        let SampleCounts { samples, added, dropped: _, removed } = counts.unwrap_or_default();
        let family = Family { type_: Type::Gauge, ..Family::default() };
        let up = if self.is_failed { 0.0 } else { 1.0 };
        let remaining = (samples - removed) as f64;
        let values = [up, report.duration_seconds, samples as f64, remaining, added as f64];
        for (name, value) in REPORT_SERIES.into_iter().zip(values) {
            self.buffers.writer.ensure_metric(name.as_bytes(), SeriesKind::Gauge, &family);
            let number = NumberPoint {
                start_unix_nano: 0,
                time_unix_nano: self.time_unix_nano,
                value,
                attributes: [&self.target.attributes[0], &[]],
                exemplar: &[],
            };
            self.buffers.writer.write_number(&number);
        }
    }
}
