//! Metrics of the protobuf format under a job's rules: each series of a metric is written as the
//! text format has it, goes through the rules, and is converted under what comes out.
//!
//! Series are Prometheus' own: a classic histogram has its buckets (the last one `+Inf`, also where
//! the target doesn't write it), `_sum` and `_count`, a summary its quantiles and these two; a
//! native histogram is one series. Bounds are written as Prometheus writes them (`le="1.0"`), since
//! rules may match them.

use crate::convert::{Converter, Place};
use crate::family::Type;
use crate::limits::FaultKind;
use crate::line::{Format, Parser};
use crate::native::{Counter, Parts};
use crate::number::put_bound;
use crate::protobuf::{
    COUNTER, GAUGE, HISTOGRAM, Metric, SUMMARY, UNTYPED, number, put_identity, put_labels,
};
use crate::scrape::relabeled::Fate;
use crate::scrape::{Buffers, Scrape};

/// A metric that is taken: its message, and its time if it says one.
type Taken<'a> = (&'a [u8], Option<i64>);

/// One series of a metric.
#[derive(Debug, Clone, Copy, Default)]
struct Series<'a> {
    /// What is put behind the family's name.
    ending: &'static [u8],
    /// The label that says which bucket or quantile it is.
    bound: Option<(&'static str, f64)>,
    value: f64,
    exemplar: Option<&'a [u8]>,
    /// All of a native histogram.
    native: Option<&'a Parts<'a>>,
}

impl Scrape<'_> {
    /// Takes a piece of a body of the protobuf format.
    #[inline(never)]
    pub(super) fn take_ruled_piece(&mut self, bytes: &[u8]) -> Result<(), FaultKind> {
        let Self { memory, target, buffers, .. } = self;
        let Buffers { families, converter, pass, writer, .. } = &mut **buffers;
        let place = (&**memory, pass, target.bare(), writer);
        if let Some(message) = families.field(bytes, converter, place)? {
            self.take_ruled_metric(message)?;
        }
        let Self { memory, target, buffers, .. } = self;
        let Buffers { families, converter, pass, writer, .. } = &mut **buffers;
        families.advance(bytes.len(), converter, (memory, pass, target.bare(), writer));
        Ok(())
    }

    fn take_ruled_metric(&mut self, message: &[u8]) -> Result<(), FaultKind> {
        let metric = Metric::read(message)?;
        let Some((tag, value)) = metric.value else { return Err(FaultKind::Value) };
        let taken = (message, metric.time_unix_nano);
        let one = Series::default();
        match (tag, self.buffers.families.type_) {
            (GAUGE, Type::Gauge) | (UNTYPED, Type::Unknown) => {
                self.take_series(taken, &Series { value: number(value)?, ..one }, None)
            }
            (COUNTER, Type::Counter) => {
                let Counter { value, exemplar, created_unix_nano } = Counter::read(value)?;
                self.take_series(taken, &Series { value, exemplar, ..one }, created_unix_nano)
            }
            (SUMMARY, Type::Summary) => {
                let parts = Parts::of_summary(value)?;
                self.take_parts(taken, &parts, (b"", "quantile"))
            }
            (HISTOGRAM, Type::Histogram) => {
                let parts = Parts::of_histogram(value)?;
                if parts.native.is_some() {
                    let series = Series { native: Some(&parts), ..one };
                    return self.take_series(taken, &series, parts.created_unix_nano);
                }
                self.take_parts(taken, &parts, (b"_bucket", "le"))
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

    /// Takes the series of a classic histogram or summary.
    fn take_parts(
        &mut self,
        taken: Taken<'_>,
        parts: &Parts<'_>,
        (ending, label): (&'static [u8], &'static str),
    ) -> Result<(), FaultKind> {
        let created = parts.created_unix_nano;
        for (place, (bound, value)) in parts.pairs.iter().enumerate() {
            let exemplar = parts.exemplars.iter().find(|(of, _)| *of == place);
            let exemplar = exemplar.map(|(_, message)| *message);
            let bound = Some((label, *bound));
            let series = Series { ending, bound, value: *value, exemplar, native: None };
            self.take_series(taken, &series, created)?;
        }
        let one = Series::default();
        if let Some(value) = parts.sum {
            self.take_series(taken, &Series { ending: b"_sum", value, ..one }, created)?;
        }
        let count = Series { ending: b"_count", value: parts.count, ..one };
        self.take_series(taken, &count, created)
    }

    /// Applies the rules to a series, and takes what is left of it.
    fn take_series(
        &mut self,
        (message, time): Taken<'_>,
        series: &Series<'_>,
        created_unix_nano: Option<u64>,
    ) -> Result<(), FaultKind> {
        let mut text = std::mem::take(&mut self.relabeled.series);
        let Buffers { families, parser, converter, .. } = &mut *self.buffers;
        series.write(&mut text, &families.name, message)?;
        parser.take_series(&text, (time, series.value), series.exemplar)?;
        let fate = self.relabeled.apply(&text, parser, self.target)?;
        let counts = &mut converter.counts;
        if matches!(fate, Fate::Dropped) {
            counts.samples += 1;
            counts.removed += 1;
        } else if counts.samples - counts.removed >= self.limits.samples {
            return Err(FaultKind::Samples(self.limits.samples));
        } else {
            let created = created_unix_nano.filter(|created| *created > 0);
            self.take_kept(&text, fate, (time, series), created)?;
        }
        self.relabeled.series = text;
        Ok(())
    }

    /// Takes a series that the rules kept.
    fn take_kept(
        &mut self,
        before: &[u8],
        fate: Fate,
        (time, series): (Option<i64>, &Series<'_>),
        created: Option<u64>,
    ) -> Result<(), FaultKind> {
        let Self { memory, relabeled, target, limits, buffers, .. } = self;
        let Buffers { parser: own_parser, converter, pass, writer, .. } = &mut **buffers;
        let now = self.time_unix_nano;
        let Fate::Written { is_renamed } = fate else {
            if own_parser.labels.len() > limits.labels {
                return Err(FaultKind::Labels(limits.labels));
            }
            let place = (&**memory, pass, *target, writer);
            return converter.take_series(before, own_parser, (series, created), now, place);
        };
        let line = std::mem::take(&mut relabeled.line);
        let mut parser = std::mem::take(&mut relabeled.parser);
        let taken =
            parser.take_series(&line, (time, series.value), series.exemplar).and_then(|()| {
                if parser.labels.len() > limits.labels {
                    return Err(FaultKind::Labels(limits.labels));
                }
                // Two converters take turns: neither knows what the other's last line was.
                parser.sample.is_name_again = false;
                let (what, target) = ((series, created), target.bare());
                if !is_renamed {
                    relabeled.renamed.interrupt();
                    let place = (&**memory, pass, target, writer);
                    return converter.take_series(&line, &parser, what, now, place);
                }
                converter.interrupt();
                let name = own_parser.sample.name.span.of(before);
                let own = (&converter.family, Format::Protobuf);
                let place = (&**memory, &mut *pass, target, &mut *writer);
                let renamed = relabeled.begin_renamed((name, series.native.is_some()), own, place);
                renamed.take_series(&line, &parser, what, now, (memory, pass, target, writer))
            });
        converter.take_counts(&mut relabeled.renamed);
        (relabeled.line, relabeled.parser) = (line, parser);
        taken
    }
}

impl Series<'_> {
    /// Writes its name and labels as the text format has them, and its exemplar's labels.
    fn write(&self, out: &mut Vec<u8>, name: &[u8], message: &[u8]) -> Result<(), FaultKind> {
        out.clear();
        let name = [name, self.ending].concat();
        put_identity(out, &name, message)?;
        if let Some((label, bound)) = self.bound {
            // Behind the others, before the brace.
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

impl Parser {
    /// Reads a series: its name and labels, and behind them its exemplar's labels.
    fn take_series(
        &mut self,
        line: &[u8],
        (time, value): (Option<i64>, f64),
        exemplar: Option<&[u8]>,
    ) -> Result<(), FaultKind> {
        self.take_identity(line, time)?;
        self.sample.value = value;
        match exemplar {
            Some(exemplar) => self.take_exemplar(line, self.sample.identity.end(), exemplar),
            None => Ok(()),
        }
    }
}

impl Converter {
    /// Takes a series. The parser has its name and labels.
    fn take_series(
        &mut self,
        line: &[u8],
        parser: &Parser,
        (series, created): (&Series<'_>, Option<u64>),
        now_unix_nano: u64,
        place: Place<'_>,
    ) -> Result<(), FaultKind> {
        if let Some(parts) = series.native {
            return self.whole(line, parser, parts, now_unix_nano, place);
        }
        self.told_created = created;
        let taken = self.sample(line, parser, (Format::Protobuf, now_unix_nano), place);
        self.told_created = None;
        taken
    }
}
