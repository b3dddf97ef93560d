//! Stale markers: Prometheus' way to state that a series has ended. They follow the body: one for
//! each series that it lacks, for each one of a body that broke off, or for all of a target that is
//! gone.

use super::{NANOS_PER_MILLI, REPORT_SERIES, Scrape, ScrapeBuffers, ScrapeStage};
use crate::memory::names::{NameIterator, SeriesEntry};
use crate::otlp::family::{Family, Type};
use crate::series_kind::SeriesKind;

impl Scrape<'_> {
    /// Marks series of the memory that this scrape lacks.
    pub(super) fn mark_missing_series(&mut self, mut walk: NameIterator) -> ScrapeStage {
        while let Some(named) = walk.next([&self.memory.names, &[]]) {
            // If a body failed before any of it was taken, no series counts as observed.
            let is_here = (!self.is_failed || self.is_partly_sent)
                && self.buffers.pass.has_series(named.index);
            if !is_here && !named.form.is_timed {
                self.write_stale_marker(&walk, &named, self.time_unix_nano);
            }
            if self.buffers.writer.is_full() {
                return ScrapeStage::Missing(walk);
            }
        }
        ScrapeStage::Report
    }

    /// Marks all series of the part that was taken, a millisecond later: a series can't have a
    /// value and be stale at the same time.
    pub(super) fn mark_partial_series(&mut self, mut walk: NameIterator) -> ScrapeStage {
        let time_unix_nano = self.time_unix_nano + NANOS_PER_MILLI;
        while let Some(named) = walk.next(self.buffers.pass.series_texts(self.memory)) {
            if !named.form.is_timed {
                self.write_stale_marker(&walk, &named, time_unix_nano);
            }
            if self.buffers.writer.is_full() {
                return ScrapeStage::Partial(walk);
            }
        }
        if self.memory.is_marked {
            ScrapeStage::Report
        } else {
            ScrapeStage::Missing(NameIterator::default())
        }
    }

    fn write_stale_marker(
        &mut self,
        walk: &NameIterator,
        named: &SeriesEntry,
        time_unix_nano: u64,
    ) {
        let Self { target, buffers, .. } = self;
        let ScrapeBuffers { parser, converter, writer, .. } = &mut **buffers;
        let target = target.without_labels();
        converter.write_stale_marker(
            walk.text(),
            named.form.kind,
            parser,
            time_unix_nano,
            target,
            writer,
        );
    }

    /// Marks the scrape's own series.
    pub(super) fn mark_report_series(&mut self) {
        let family = Family { type_: Type::Gauge, ..Family::default() };
        for name in REPORT_SERIES {
            self.buffers.writer.ensure_metric(name.as_bytes(), SeriesKind::Gauge, &family);
            self.buffers
                .writer
                .write_stale_marker(self.time_unix_nano, [&self.target.attributes[0], &[]]);
        }
    }
}
