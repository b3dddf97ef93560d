//! Converts samples to points, by their family's type and with the target's labels.

use crate::limits::{FaultKind, TARGET_INFO_BYTES_MAX};
use crate::memory::hash::Hash;
use crate::memory::pass::Pass;
use crate::memory::{SeriesMemory, SeriesObservation};
use crate::otlp::encode::{
    EXPONENTIAL_ATTRIBUTE, HISTOGRAM_ATTRIBUTE, NUMBER_ATTRIBUTE, RESOURCE_ATTRIBUTE,
    SUMMARY_ATTRIBUTE, put_attribute, put_exemplar, unescaped_text,
};
use crate::otlp::family::{Family, SampleRole, Type};
use crate::otlp::group::{Groups, SeriesGroup};
use crate::otlp::write::{MetricsWriter, NumberPoint, Values};
use crate::parse::line::{BodyFormat, LineParser, LineText, ParsedSample};
use crate::parse::number::parse_seconds;
use crate::parse::plain_series::is_plain;
use crate::sample_counts::SampleCounts;
use crate::series_kind::SeriesKind;
use crate::targets::target::{EXPORTED, TargetAttributes};

/// Labels that state a sample's role, not its series.
const BOUND: &[u8] = b"le";
const QUANTILE: &[u8] = b"quantile";

/// The metric that describes the target.
const TARGET_INFO: &[u8] = b"target_info";

/// The most bytes of a histogram's exemplar: its length takes two bytes.
const EXEMPLAR_BYTES_MAX: usize = u16::MAX as usize;

/// How far a sample's time may be ahead of its scrape, as in Prometheus: 10 minutes. Each day ahead
/// would be a separate partition in ClickHouse, which no expiry removes in time.
const AHEAD_NANOS_MAX: u64 = 600 * 1_000_000_000;

/// How old a sample's time may be at its scrape: 30 days, which edges accept of OTLP by default.
/// For an older one the gateway would set aside all of its target's points in the message.
const AGE_NANOS_MAX: u64 = 30 * 86_400 * 1_000_000_000;

/// The former and current series, the target, and the writer of the points.
pub(crate) type ScrapeContext<'a> =
    (&'a SeriesMemory, &'a mut Pass, &'a TargetAttributes, &'a mut MetricsWriter);

/// The time of a sample.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SampleTime {
    pub(crate) time_unix_nano: u64,
    /// Whether the body states the time.
    pub(crate) is_timed: bool,
}

/// Converts samples to points.
#[derive(Debug, Default)]
pub(crate) struct Converter {
    pub(crate) counts: SampleCounts,
    pub(crate) family: Family,
    /// Attributes of the resource, if this scrape had `target_info`.
    pub(crate) target_info: Option<Vec<u8>>,
    pub(crate) groups: Groups,
    pub(crate) attributes: Vec<u8>,
    /// Whether no sample label replaces one of the target's own labels.
    pub(crate) shares_target_labels: bool,
    /// Whether all labels were bare, without escapes, and none had the name of a target's label.
    is_plain: bool,
    exemplar: Vec<u8>,
    name: Vec<u8>,
    buffers: [Vec<u8>; 2],
    /// The creation time of the next samples' series, where the format states it separately.
    pub(crate) created_unix_nano: Option<u64>,
    /// The hash of the labels of the last counter.
    pub(crate) counter: Option<u64>,
    /// The last sample's role, and its name's hash if it was computed, within the same family.
    pub(crate) last: Option<(SampleRole, Option<Hash>)>,
}

impl Converter {
    pub(crate) fn held_bytes(&self) -> usize {
        let info = self.target_info.as_ref().map_or(0, Vec::capacity);
        self.attributes.capacity() + self.groups.held_bytes() + info
    }

    /// Begins another body. Allocated buffers are retained.
    pub(crate) fn begin_body(&mut self) {
        self.counts = SampleCounts::default();
        self.family.begin_family(&[]);
        self.target_info = None;
        self.groups.clear();
        self.created_unix_nano = None;
        self.counter = None;
        self.last = None;
    }

    /// Handles a metadata line: a new name begins a family.
    pub(crate) fn enter_family(
        &mut self,
        name: &[u8],
        memory: &SeriesMemory,
        pass: &mut Pass,
        target: &TargetAttributes,
        writer: &mut MetricsWriter,
    ) {
        if self.family.name != name {
            self.begin_family(name, (memory, pass, target, writer));
        }
        self.last = None;
    }

    fn begin_family(&mut self, name: &[u8], (memory, pass, target, writer): ScrapeContext<'_>) {
        self.end_family(memory, pass, target, writer);
        self.family.begin_family(name);
    }

    /// Writes the open metric and all open groups.
    pub(crate) fn end_family(
        &mut self,
        memory: &SeriesMemory,
        pass: &mut Pass,
        target: &TargetAttributes,
        writer: &mut MetricsWriter,
    ) {
        writer.end_metric();
        self.counter = None;
        if self.groups.is_empty() {
            return;
        }
        self.groups.reverse_order();
        while let Some(group) = self.groups.take_last() {
            self.write_group(group, (memory, &mut *pass, target, &mut *writer));
        }
        self.groups.clear();
    }

    /// Forgets the last counter, because another converter wrote since: a creation time that
    /// follows belongs to another series.
    pub(crate) fn forget_counter(&mut self) {
        self.counter = None;
    }

    /// Moves another converter's counts and `target_info` into this one.
    pub(crate) fn merge_counts(&mut self, other: &mut Self) {
        let SampleCounts { samples, added, dropped, removed } = std::mem::take(&mut other.counts);
        self.counts.samples += samples;
        self.counts.added += added;
        self.counts.dropped += dropped;
        self.counts.removed += removed;
        if self.target_info.is_none() {
            self.target_info = other.target_info.take();
        }
    }

    /// Converts a sample.
    #[inline]
    pub(crate) fn convert_sample(
        &mut self,
        line: &[u8],
        parser: &LineParser,
        (format, now_unix_nano): (BodyFormat, u64),
        (memory, pass, target, writer): ScrapeContext<'_>,
    ) -> Result<(), FaultKind> {
        self.counts.samples += 1;
        let sample = &parser.sample;
        let name = sample.name.span.slice_of(line);
        let has_created = format == BodyFormat::OpenMetrics;
        let (role, hash) = match self.last.filter(|_| sample.is_same_name) {
            Some((role, Some(hash))) => (role, hash),
            Some((role, None)) => {
                let hash = Hash::of_name(name);
                self.last = Some((role, Some(hash)));
                (role, hash)
            }
            None => {
                let mut role = self.family.role_of(name, has_created);
                if role == SampleRole::Foreign {
                    self.begin_family(name, (memory, &mut *pass, target, &mut *writer));
                    role = SampleRole::Point;
                }
                let hash = Hash::of_name(name);
                self.last = Some((role, Some(hash)));
                (role, hash)
            }
        };
        let when = self.sample_time(sample.time, now_unix_nano, target);
        let (Some(when), false) = (when, role == SampleRole::Dropped) else {
            self.counts.dropped += 1;
            return Ok(());
        };
        let SampleTime { time_unix_nano, is_timed } = when;
        let when = (time_unix_nano, is_timed);
        let context = (memory, pass, target, writer);
        match role {
            SampleRole::Point if name == TARGET_INFO => self.describe_target(line, parser),
            SampleRole::Point => self.convert_number(line, parser, (when, hash), context),
            SampleRole::Created if self.family.type_ == Type::Counter => {
                self.apply_created(line, parser, when, context);
            }
            role => self.add_part(line, parser, (role, when), context)?,
        }
        Ok(())
    }

    /// Returns a sample's time; `None` if OTLP can't represent it, or it is too old or too far
    /// ahead.
    #[inline]
    pub(crate) fn sample_time(
        &self,
        time: Option<i64>,
        now: u64,
        target: &TargetAttributes,
    ) -> Option<SampleTime> {
        let Some(time) = time.filter(|_| target.honors_timestamps) else {
            return Some(SampleTime { time_unix_nano: now, is_timed: false });
        };
        // An overflow was clamped to one of the two ends.
        let is_right = (0..i64::MAX).contains(&time);
        let time_unix_nano = time.unsigned_abs();
        let accepted = now.saturating_sub(AGE_NANOS_MAX)..=now.saturating_add(AHEAD_NANOS_MAX);
        let is_right = is_right && accepted.contains(&time_unix_nano);
        is_right.then_some(SampleTime { time_unix_nano, is_timed: true })
    }

    /// Converts a sample that is a point.
    #[inline]
    fn convert_number(
        &mut self,
        line: &[u8],
        parser: &LineParser,
        ((time_unix_nano, is_timed), mut hash): ((u64, bool), Hash),
        (memory, pass, target, writer): ScrapeContext<'_>,
    ) {
        let sample = &parser.sample;
        let kind = self.family.number_kind();
        let labels = self.put_labels(line, parser, target, (NUMBER_ATTRIBUTE, None), &mut hash);
        let observation = SeriesObservation {
            hash: hash.finish(),
            text: sample.identity.slice_of(line),
            kind,
            is_timed,
            is_plain: self.is_plain && is_plain(sample, &parser.labels, line),
            time_unix_nano,
            value: (kind == SeriesKind::Counter).then_some(sample.value),
            created_unix_nano: self.created_unix_nano,
        };
        let Some(known) = pass.record_series(memory, &observation) else {
            self.counts.dropped += 1;
            return;
        };
        self.counts.added += u64::from(known.is_new);
        self.counter = (kind == SeriesKind::Counter).then_some(labels);
        let mut buffer = std::mem::take(&mut self.name);
        let name = unescaped_text(sample.name, line, &mut buffer);
        self.write_number(
            (line, name, sample.value),
            (kind, known.start_unix_nano, time_unix_nano),
            parser,
            (target, writer),
        );
        self.name = buffer;
    }

    /// Writes a number whose attributes are already encoded.
    #[inline]
    pub(crate) fn write_number(
        &mut self,
        (line, name, value): (&[u8], &[u8], f64),
        (kind, start_unix_nano, time_unix_nano): (SeriesKind, u64, u64),
        parser: &LineParser,
        (target, writer): (&TargetAttributes, &mut MetricsWriter),
    ) {
        self.exemplar.clear();
        if let Some(exemplar) = parser.sample.exemplar.filter(|_| kind == SeriesKind::Counter) {
            let labels = &parser.exemplar_labels;
            put_exemplar(&mut self.exemplar, line, &exemplar, labels, time_unix_nano);
        }
        writer.ensure_metric(name, kind, &self.family);
        let shared: &[u8] = if self.shares_target_labels { &target.attributes[0] } else { &[] };
        let is_sum = matches!(kind, SeriesKind::Counter | SeriesKind::Sum);
        let is_written = writer.write_number(&NumberPoint {
            start_unix_nano: if is_sum { start_unix_nano } else { 0 },
            time_unix_nano,
            value,
            attributes: [&self.attributes, shared],
            exemplar: &self.exemplar,
        });
        self.counts.dropped += u64::from(!is_written);
    }

    /// Applies a creation time to the last counter, if the labels are the same.
    fn apply_created(
        &mut self,
        line: &[u8],
        parser: &LineParser,
        (time_unix_nano, _): (u64, bool),
        (memory, pass, target, writer): ScrapeContext<'_>,
    ) {
        let mut hash = Hash::of_name(&[]);
        let labels = self.put_labels(line, parser, target, (NUMBER_ATTRIBUTE, None), &mut hash);
        let created =
            created_time(line, &parser.sample).filter(|created| *created <= time_unix_nano);
        if let (Some(created), true) = (created, self.counter == Some(labels)) {
            pass.set_created(memory, created);
            writer.set_start_time(created);
        }
    }

    /// Adds a sample to its histogram or summary.
    fn add_part(
        &mut self,
        line: &[u8],
        parser: &LineParser,
        (role, (time_unix_nano, is_timed)): (SampleRole, (u64, bool)),
        (memory, pass, target, writer): ScrapeContext<'_>,
    ) -> Result<(), FaultKind> {
        let sample = &parser.sample;
        let (tag, own) = match self.family.type_ {
            Type::Histogram => (HISTOGRAM_ATTRIBUTE, BOUND),
            _ => (SUMMARY_ATTRIBUTE, QUANTILE),
        };
        let mut hash = Hash::of_name(&self.family.name);
        self.put_labels(line, parser, target, (tag, Some(own)), &mut hash);
        let hash = hash.finish();
        let text = sample.identity.slice_of(line);
        let mut grew = 0;
        if self.groups.find_group(hash).is_none() {
            if let Some(group) = self.groups.take_complete() {
                self.write_group(group, (memory, pass, target, writer));
            }
            let group = self.groups.open_group(hash)?;
            group.text.extend_from_slice(text);
            group.attributes.extend_from_slice(&self.attributes);
            if self.shares_target_labels {
                let index = usize::from(tag == HISTOGRAM_ATTRIBUTE);
                group.attributes.extend_from_slice(&target.attributes[index]);
            }
            grew += group.text.len() + group.attributes.len();
        }
        let Some(group) = self.groups.find_group(hash) else { return Ok(()) };
        group.lines += 1;
        group.time_unix_nano = time_unix_nano;
        group.is_timed = is_timed;
        match role {
            SampleRole::Sum => group.sum = Some(sample.value),
            SampleRole::Count => {
                group.count = Some(sample.value);
                group.created_unix_nano = self.created_unix_nano.or(group.created_unix_nano);
            }
            SampleRole::Created => group.created_unix_nano = created_time(line, sample),
            _ => {
                let label =
                    parser.labels.iter().find(|label| label.name.span.slice_of(line) == own);
                let Some(label) = label else {
                    // Neither a bucket nor a quantile: its value would be taken for another
                    // point's.
                    self.counts.dropped += 1;
                    return Ok(());
                };
                let at = crate::parse::number::parse_float(label.value.span.slice_of(line))
                    .unwrap_or(f64::NAN);
                group.pairs.push((at, sample.value));
                grew += size_of::<(f64, f64)>();
                grew += put_bucket_exemplar(group, line, parser);
            }
        }
        self.groups.charge_bytes(grew)
    }

    /// Writes a histogram or summary, complete or not.
    pub(crate) fn write_group(
        &mut self,
        mut group: SeriesGroup,
        (memory, pass, _, writer): ScrapeContext<'_>,
    ) {
        let (kind, is_right) = match (self.family.type_, group.exact_count()) {
            (Type::Histogram, Some(count)) => {
                (SeriesKind::Histogram, group.decumulate_buckets(count))
            }
            (_, count) => (SeriesKind::Summary, count.is_some()),
        };
        let count = group.exact_count().filter(|_| is_right);
        let noted = count.and_then(|count| {
            let observation = SeriesObservation {
                hash: group.hash,
                text: &group.text,
                kind,
                is_timed: group.is_timed,
                is_plain: false,
                time_unix_nano: group.time_unix_nano,
                value: Some(count as f64),
                created_unix_nano: group.created_unix_nano,
            };
            pass.record_series(memory, &observation).map(|known| (count, known))
        });
        let mut is_written = false;
        if let Some((count, known)) = noted {
            self.counts.added += if known.is_new { group.lines } else { 0 };
            writer.ensure_metric(&self.family.name, kind, &self.family);
            let values =
                Values { count, sum: group.sum, pairs: &group.pairs, exemplars: &group.exemplars };
            let times = (known.start_unix_nano, group.time_unix_nano);
            is_written = writer.write_distribution(times, &values, &group.attributes);
        }
        if !is_written {
            self.counts.dropped += group.lines;
        }
        self.groups.return_group(group);
    }

    /// Stores the labels of `target_info` as attributes of the resource, once per scrape.
    fn describe_target(&mut self, line: &[u8], parser: &LineParser) {
        let mut info = Vec::new();
        let [one, other] = &mut self.buffers;
        for label in &parser.labels {
            let name = unescaped_text(label.name, line, one);
            let value = unescaped_text(label.value, line, other);
            if !value.is_empty() && name != b"job" && name != b"instance" {
                put_attribute(&mut info, RESOURCE_ATTRIBUTE, name, value);
            }
        }
        if self.target_info.is_some() || info.len() > TARGET_INFO_BYTES_MAX {
            self.counts.dropped += 1;
            return;
        }
        self.target_info = Some(info);
    }

    /// Writes the stale marker of a series, from its text in an earlier body.
    pub(crate) fn write_stale_marker(
        &mut self,
        text: &[u8],
        kind: SeriesKind,
        parser: &mut LineParser,
        time_unix_nano: u64,
        target: &TargetAttributes,
        writer: &mut MetricsWriter,
    ) {
        // The text was parsed before, and parses the same way again.
        let Ok(name) = parser.read_identity(text) else { return };
        let (tag, own) = match kind {
            SeriesKind::Histogram => (HISTOGRAM_ATTRIBUTE, Some(BOUND)),
            SeriesKind::Summary => (SUMMARY_ATTRIBUTE, Some(QUANTILE)),
            SeriesKind::Exponential => (EXPONENTIAL_ATTRIBUTE, None),
            _ => (NUMBER_ATTRIBUTE, None),
        };
        let mut hash = Hash::of_name(&[]);
        self.put_labels(text, parser, target, (tag, own), &mut hash);
        let name = unescaped_text(name, text, &mut self.name);
        let suffixes: &[&[u8]] = match kind {
            SeriesKind::Histogram => &[b"_bucket", b"_sum", b"_count", b"_created"],
            SeriesKind::Summary => &[b"_sum", b"_count", b"_created"],
            _ => &[],
        };
        let base = suffixes.iter().find_map(|suffix| name.strip_suffix(*suffix)).unwrap_or(name);
        let type_ = match kind {
            SeriesKind::Gauge => Type::Gauge,
            SeriesKind::Counter => Type::Counter,
            SeriesKind::Sum => Type::Info,
            SeriesKind::Histogram | SeriesKind::Exponential => Type::Histogram,
            SeriesKind::Summary => Type::Summary,
        };
        writer.ensure_metric(base, kind, &Family { type_, ..Family::default() });
        let shared: &[u8] =
            if self.shares_target_labels { &target.attributes[kind.attribute_set()] } else { &[] };
        writer.write_stale_marker(time_unix_nano, [&self.attributes, shared]);
    }

    /// Writes a sample's labels as attributes, except `but`, and adds them to `hash`. Labels with
    /// empty values are skipped, but may remove one of the target's. Returns the hash of the labels
    /// alone.
    #[inline]
    pub(crate) fn put_labels(
        &mut self,
        line: &[u8],
        parser: &LineParser,
        target: &TargetAttributes,
        (tag, but): (u8, Option<&[u8]>),
        hash: &mut Hash,
    ) -> u64 {
        let of_name = *hash;
        self.attributes.clear();
        self.shares_target_labels = true;
        self.is_plain = true;
        for label in &parser.labels {
            let name = label.name.span.slice_of(line);
            let value = label.value.span.slice_of(line);
            if value.is_empty() || but == Some(name) {
                self.is_plain = false;
                if value.is_empty() && target.clears_label(name) {
                    self.drop_target_label(name, tag, hash);
                }
                continue;
            }
            hash.add_label(name, value);
            if !label.name.is_escaped && !label.value.is_escaped && !target.has_label(name) {
                put_attribute(&mut self.attributes, tag, name, value);
            } else {
                self.is_plain = false;
                self.put_odd_label(line, (label.name, label.value), parser, target, tag);
            }
        }
        if !self.shares_target_labels {
            let is_present = |name: &[u8]| {
                parser.labels.iter().any(|label| label.name.span.slice_of(line) == name)
            };
            target.put_others(&mut self.attributes, tag, is_present);
        }
        hash.added_since(of_name)
    }

    /// Handles a label with an empty value that removes a target's label.
    #[inline(never)]
    fn drop_target_label(&mut self, name: &[u8], tag: u8, hash: &mut Hash) {
        hash.add_label(name, b"");
        self.shares_target_labels = false;
        if TargetAttributes::is_of_resource(name) {
            put_attribute(&mut self.attributes, tag, name, b"");
        }
    }

    /// Writes a label with escapes, or with the name of a target's label.
    #[inline(never)]
    fn put_odd_label(
        &mut self,
        line: &[u8],
        (name, value): (LineText, LineText),
        parser: &LineParser,
        target: &TargetAttributes,
        tag: u8,
    ) {
        let [one, other] = &mut self.buffers;
        let name = unescaped_text(name, line, one);
        let value = unescaped_text(value, line, other);
        if !target.has_label(name) {
            put_attribute(&mut self.attributes, tag, name, value);
        } else if target.honors_labels {
            self.shares_target_labels = false;
            put_attribute(&mut self.attributes, tag, name, value);
        } else {
            let is_present = |name: &[u8]| {
                target.has_label(name)
                    || parser.labels.iter().any(|it| it.name.span.slice_of(line) == name)
            };
            let mut exported = [EXPORTED, name].concat();
            while is_present(&exported) {
                exported.splice(0..0, EXPORTED.iter().copied());
            }
            put_attribute(&mut self.attributes, tag, &exported, value);
        }
    }
}

/// Parses a creation time.
fn created_time(line: &[u8], sample: &ParsedSample) -> Option<u64> {
    u64::try_from(parse_seconds(sample.value_text.slice_of(line))?).ok()
}

/// Stores a bucket's exemplar. Returns its size in bytes.
fn put_bucket_exemplar(group: &mut SeriesGroup, line: &[u8], parser: &LineParser) -> usize {
    let Some(exemplar) = parser.sample.exemplar else { return 0 };
    let start = group.exemplars.len();
    group.exemplars.extend_from_slice(&[0; 2]);
    let labels = &parser.exemplar_labels;
    put_exemplar(&mut group.exemplars, line, &exemplar, labels, group.time_unix_nano);
    let length = group.exemplars.len() - start - 2;
    if length > EXEMPLAR_BYTES_MAX {
        group.exemplars.truncate(start);
        return 0;
    }
    group.exemplars[start..start + 2].copy_from_slice(&(length as u16).to_le_bytes());
    length + 2
}
