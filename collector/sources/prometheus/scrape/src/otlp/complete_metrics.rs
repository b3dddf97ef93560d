//! Converts complete metrics of the protobuf format to points.

use crate::limits::FaultKind;
use crate::memory::SeriesObservation;
use crate::memory::hash::Hash;
use crate::otlp::convert::{Converter, SampleTime, ScrapeContext};
use crate::otlp::encode::{EXPONENTIAL_ATTRIBUTE, HISTOGRAM_ATTRIBUTE, SUMMARY_ATTRIBUTE};
use crate::otlp::family::Type;
use crate::otlp::group::SeriesGroup;
use crate::parse::line::{BodyFormat, LineParser};
use crate::parse::native::{HistogramParts, Native, put_exemplar};
use crate::series_kind::SeriesKind;

impl Converter {
    /// Converts a number with an optional creation time. The parser has its name and labels.
    pub(crate) fn convert_plain_number(
        &mut self,
        line: &[u8],
        parser: &mut LineParser,
        (value, created_unix_nano): (f64, Option<u64>),
        now_unix_nano: u64,
        context: ScrapeContext<'_>,
    ) -> Result<(), FaultKind> {
        parser.sample.value = value;
        self.created_unix_nano = created_unix_nano.filter(|created| *created > 0);
        let converted =
            self.convert_sample(line, parser, (BodyFormat::Protobuf, now_unix_nano), context);
        self.created_unix_nano = None;
        converted
    }

    /// Converts a histogram or summary. The parser has its name and labels.
    pub(crate) fn convert_distribution(
        &mut self,
        line: &[u8],
        parser: &LineParser,
        parts: &HistogramParts<'_>,
        now_unix_nano: u64,
        context: ScrapeContext<'_>,
    ) -> Result<(), FaultKind> {
        let target = context.2;
        self.counts.samples += parts.sample_count();
        let Some(when) = self.sample_time(parser.sample.time, now_unix_nano, target) else {
            self.counts.dropped += parts.sample_count();
            return Ok(());
        };
        let (tag, shared) = match (self.family.type_, &parts.native) {
            (Type::Summary, _) => (SUMMARY_ATTRIBUTE, 0),
            (_, None) => (HISTOGRAM_ATTRIBUTE, 1),
            (_, Some(_)) => (EXPONENTIAL_ATTRIBUTE, 2),
        };
        let mut hash = Hash::of_name(&self.family.name);
        self.put_labels(line, parser, target, (tag, None), &mut hash);
        let mut group = self.groups.take_spare();
        group.hash = hash.finish();
        group.text.extend_from_slice(parser.sample.identity.slice_of(line));
        group.attributes.extend_from_slice(&self.attributes);
        if self.shares_target_labels {
            group.attributes.extend_from_slice(&target.attributes[shared]);
        }
        let SampleTime { time_unix_nano, is_timed } = when;
        (group.time_unix_nano, group.is_timed) = (time_unix_nano, is_timed);
        group.created_unix_nano = parts.created_unix_nano.filter(|created| *created > 0);
        group.count = Some(parts.count);
        group.sum = parts.sum;
        group.lines = parts.sample_count();
        for (_, message) in &parts.exemplars {
            put_measured(&mut group.exemplars, message, time_unix_nano)?;
        }
        match &parts.native {
            None => {
                group.pairs.extend_from_slice(&parts.pairs);
                self.write_group(group, context);
            }
            Some(native) => self.write_native(group, native.as_ref(), context),
        }
        Ok(())
    }

    /// Writes a native histogram, unless OTLP can't represent it.
    fn write_native(
        &mut self,
        group: SeriesGroup,
        native: Option<&Native>,
        (memory, pass, _, writer): ScrapeContext<'_>,
    ) {
        let noted = native.and_then(|native| {
            let observation = SeriesObservation {
                hash: group.hash,
                text: &group.text,
                kind: SeriesKind::Exponential,
                is_timed: group.is_timed,
                is_plain: false,
                time_unix_nano: group.time_unix_nano,
                value: Some(native.count as f64),
                created_unix_nano: group.created_unix_nano,
            };
            pass.record_series(memory, &observation).map(|known| (native, known))
        });
        let mut is_written = false;
        if let Some((native, known)) = noted {
            self.counts.added += u64::from(known.is_new);
            writer.ensure_metric(&self.family.name, SeriesKind::Exponential, &self.family);
            let times = (known.start_unix_nano, group.time_unix_nano);
            let values = (group.sum, &group.exemplars[..]);
            is_written = writer.write_exponential(times, native, values, &group.attributes);
        }
        self.counts.dropped += u64::from(!is_written);
        self.groups.return_group(group);
    }
}

/// Writes an exemplar after its length; one that is too long is skipped.
fn put_measured(out: &mut Vec<u8>, message: &[u8], time_unix_nano: u64) -> Result<(), FaultKind> {
    let start = out.len();
    out.extend_from_slice(&[0; 2]);
    put_exemplar(out, message, time_unix_nano)?;
    match u16::try_from(out.len() - start - 2) {
        Ok(length) => out[start..start + 2].copy_from_slice(&length.to_le_bytes()),
        Err(_) => out.truncate(start),
    }
    Ok(())
}
