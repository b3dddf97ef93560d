//! Applies a job's metric rules to the protobuf format: each series of a metric is written in the
//! text format, passes the rules, and is converted with the resulting labels.
//!
//! The series are Prometheus' own: a classic histogram has its buckets (the last one is `+Inf`,
//! even if the target omits it), `_sum` and `_count`; a summary has its quantiles and these two; a
//! native histogram is one series. Bounds are written as by Prometheus (`le="1.0"`), since rules
//! may match them.

use crate::limits::FaultKind;
use crate::otlp::convert::{Converter, ScrapeContext};
use crate::otlp::family::Type;
use crate::parse::line::{BodyFormat, LineParser};
use crate::parse::native::{Counter, HistogramParts, decode_exemplar};
use crate::parse::number::put_bound;
use crate::parse::protobuf::{
    COUNTER, GAUGE, HISTOGRAM, ProtoMetric, SUMMARY, UNTYPED, decode_value, put_identity,
    put_labels,
};
use crate::scrape::relabeled::RelabelOutcome;
use crate::scrape::{Scrape, ScrapeBuffers};

/// A metric that is being converted: its message and time.
type PendingMetric<'a> = (&'a [u8], Option<i64>);

/// One series of a metric.
#[derive(Debug, Clone, Copy, Default)]
struct RuledSeries<'a> {
    /// The suffix of the family's name.
    ending: &'static [u8],
    /// The label of the bucket or quantile.
    bound: Option<(&'static str, f64)>,
    value: f64,
    exemplar: Option<&'a [u8]>,
    /// The native histogram.
    native: Option<&'a HistogramParts<'a>>,
}

impl Scrape<'_> {
    /// Converts a piece of a protobuf body.
    #[inline(never)]
    pub(super) fn convert_ruled_piece(&mut self, bytes: &[u8]) -> Result<(), FaultKind> {
        let Self { memory, target, buffers, .. } = self;
        let ScrapeBuffers { families, converter, pass, writer, .. } = &mut **buffers;
        let context = (&**memory, pass, target.without_labels(), writer);
        if let Some(message) = families.read_field(bytes, converter, context)? {
            self.convert_ruled_metric(message)?;
        }
        let Self { memory, target, buffers, .. } = self;
        let ScrapeBuffers { families, converter, pass, writer, .. } = &mut **buffers;
        families.advance_by(
            bytes.len(),
            converter,
            (memory, pass, target.without_labels(), writer),
        );
        Ok(())
    }

    fn convert_ruled_metric(&mut self, message: &[u8]) -> Result<(), FaultKind> {
        let metric = ProtoMetric::read(message)?;
        let Some((tag, value)) = metric.value else { return Err(FaultKind::Value) };
        let pending = (message, metric.time_unix_nano);
        let one = RuledSeries::default();
        match (tag, self.buffers.families.type_) {
            (GAUGE, Type::Gauge) | (UNTYPED, Type::Unknown) => self.convert_series(
                pending,
                &RuledSeries { value: decode_value(value)?, ..one },
                None,
            ),
            (COUNTER, Type::Counter) => {
                let Counter { value, exemplar, created_unix_nano } = Counter::read(value)?;
                self.convert_series(
                    pending,
                    &RuledSeries { value, exemplar, ..one },
                    created_unix_nano,
                )
            }
            (SUMMARY, Type::Summary) => {
                let parts = HistogramParts::of_summary(value)?;
                self.convert_parts(pending, &parts, (b"", "quantile"))
            }
            (HISTOGRAM, Type::Histogram) => {
                let parts = HistogramParts::of_histogram(value)?;
                if parts.native.is_some() {
                    let series = RuledSeries { native: Some(&parts), ..one };
                    return self.convert_series(pending, &series, parts.created_unix_nano);
                }
                self.convert_parts(pending, &parts, (b"_bucket", "le"))
            }
            (HISTOGRAM, Type::GaugeHistogram) => {
                let counts = &mut self.buffers.converter.counts;
                counts.samples += 1;
                counts.dropped += 1;
                Ok(())
            }
            _ => Err(FaultKind::Value),
        }
    }

    /// Converts the series of a classic histogram or summary.
    fn convert_parts(
        &mut self,
        pending: PendingMetric<'_>,
        parts: &HistogramParts<'_>,
        (ending, label): (&'static [u8], &'static str),
    ) -> Result<(), FaultKind> {
        let created = parts.created_unix_nano;
        for (index, (bound, value)) in parts.pairs.iter().enumerate() {
            let exemplar = parts.exemplars.iter().find(|(of, _)| *of == index);
            let exemplar = exemplar.map(|(_, message)| *message);
            let bound = Some((label, *bound));
            let series = RuledSeries { ending, bound, value: *value, exemplar, native: None };
            self.convert_series(pending, &series, created)?;
        }
        let one = RuledSeries::default();
        if let Some(value) = parts.sum {
            self.convert_series(pending, &RuledSeries { ending: b"_sum", value, ..one }, created)?;
        }
        let count = RuledSeries { ending: b"_count", value: parts.count, ..one };
        self.convert_series(pending, &count, created)
    }

    /// Applies the rules to a series, and converts it if they retain it.
    fn convert_series(
        &mut self,
        (message, time): PendingMetric<'_>,
        series: &RuledSeries<'_>,
        created_unix_nano: Option<u64>,
    ) -> Result<(), FaultKind> {
        let mut text = std::mem::take(&mut self.relabeled.series);
        let ScrapeBuffers { families, parser, converter, .. } = &mut *self.buffers;
        series.write(&mut text, &families.name, message)?;
        parser.load_series(&text, (time, series.value), series.exemplar)?;
        let fate = self.relabeled.apply_rules(&text, parser, self.target)?;
        let counts = &mut converter.counts;
        if matches!(fate, RelabelOutcome::Dropped) {
            counts.samples += 1;
            counts.removed += 1;
        } else if counts.samples - counts.removed >= self.limits.samples {
            return Err(FaultKind::Samples(self.limits.samples));
        } else {
            let created = created_unix_nano.filter(|created| *created > 0);
            self.convert_retained(&text, fate, (time, series), created)?;
        }
        self.relabeled.series = text;
        Ok(())
    }

    /// Converts a series that the rules retained.
    fn convert_retained(
        &mut self,
        before: &[u8],
        fate: RelabelOutcome,
        (time, series): (Option<i64>, &RuledSeries<'_>),
        created: Option<u64>,
    ) -> Result<(), FaultKind> {
        let Self { memory, relabeled, target, limits, buffers, .. } = self;
        let ScrapeBuffers { parser: own_parser, converter, pass, writer, .. } = &mut **buffers;
        let now = self.time_unix_nano;
        let RelabelOutcome::Written { is_renamed } = fate else {
            if own_parser.labels.len() > limits.labels {
                return Err(FaultKind::Labels(limits.labels));
            }
            let context = (&**memory, pass, *target, writer);
            return converter.convert_series(before, own_parser, (series, created), now, context);
        };
        let line = std::mem::take(&mut relabeled.line);
        let mut parser = std::mem::take(&mut relabeled.parser);
        let outcome =
            parser.load_series(&line, (time, series.value), series.exemplar).and_then(|()| {
                if parser.labels.len() > limits.labels {
                    return Err(FaultKind::Labels(limits.labels));
                }
                // The two converters alternate: neither knows the other's last line.
                parser.sample.is_same_name = false;
                let (what, target) = ((series, created), target.without_labels());
                if !is_renamed {
                    relabeled.renamed.forget_counter();
                    let context = (&**memory, pass, target, writer);
                    return converter.convert_series(&line, &parser, what, now, context);
                }
                converter.forget_counter();
                let name = own_parser.sample.name.span.slice_of(before);
                let own = (&converter.family, BodyFormat::Protobuf);
                let context = (&**memory, &mut *pass, target, &mut *writer);
                let renamed =
                    relabeled.begin_renamed((name, series.native.is_some()), own, context);
                renamed.convert_series(&line, &parser, what, now, (memory, pass, target, writer))
            });
        converter.merge_counts(&mut relabeled.renamed);
        (relabeled.line, relabeled.parser) = (line, parser);
        outcome
    }
}

impl RuledSeries<'_> {
    /// Writes its name and labels in the text format, and its exemplar's labels.
    fn write(&self, out: &mut Vec<u8>, name: &[u8], message: &[u8]) -> Result<(), FaultKind> {
        out.clear();
        let name = [name, self.ending].concat();
        put_identity(out, &name, message)?;
        if let Some((label, bound)) = self.bound {
            // After the others, before the brace.
            out.pop();
            let opens = out.last() == Some(&b'{');
            out.extend_from_slice(if opens { b"" } else { b"," });
            out.extend_from_slice(label.as_bytes());
            out.extend_from_slice(b"=\"");
            put_bound(out, bound);
            out.extend_from_slice(b"\"}");
        }
        match self.exemplar {
            Some(exemplar) => put_labels(out, exemplar, true),
            None => Ok(()),
        }
    }
}

impl LineParser {
    /// Parses a series: its name and labels, followed by its exemplar's labels.
    fn load_series(
        &mut self,
        line: &[u8],
        (time, value): (Option<i64>, f64),
        exemplar: Option<&[u8]>,
    ) -> Result<(), FaultKind> {
        self.load_identity(line, time)?;
        self.sample.value = value;
        match exemplar {
            Some(message) => {
                let exemplar = decode_exemplar(message)?;
                self.load_exemplar(line, self.sample.identity.end(), exemplar)
            }
            None => Ok(()),
        }
    }
}

impl Converter {
    /// Converts a series. The parser has its name and labels.
    fn convert_series(
        &mut self,
        line: &[u8],
        parser: &LineParser,
        (series, created): (&RuledSeries<'_>, Option<u64>),
        now_unix_nano: u64,
        context: ScrapeContext<'_>,
    ) -> Result<(), FaultKind> {
        if let Some(parts) = series.native {
            return self.convert_distribution(line, parser, parts, now_unix_nano, context);
        }
        self.created_unix_nano = created;
        let converted =
            self.convert_sample(line, parser, (BodyFormat::Protobuf, now_unix_nano), context);
        self.created_unix_nano = None;
        converted
    }
}
