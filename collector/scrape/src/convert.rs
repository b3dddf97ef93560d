//! Samples as points: by their family's type, under the target's labels.

use crate::encode::{
    EXPONENTIAL_ATTRIBUTE, HISTOGRAM_ATTRIBUTE, NUMBER_ATTRIBUTE, RESOURCE_ATTRIBUTE,
    SUMMARY_ATTRIBUTE, plain, put_attribute, put_exemplar,
};
use crate::expected::is_plain;
use crate::family::{Family, Role, Type};
use crate::group::{Group, Groups};
use crate::limits::{FaultKind, TARGET_INFO_BYTES_MAX};
use crate::line::{Format, Parser, Sample, Text};
use crate::memory::{Hash, Kind, Memory, Seen};
use crate::number::seconds;
use crate::pass::Pass;
use crate::scrape::Counts;
use crate::target::{EXPORTED, Target};
use crate::write::{Number, Values, Writer};

/// Labels that say what a sample is, not which.
const BOUND: &[u8] = b"le";
const QUANTILE: &[u8] = b"quantile";

/// The metric that describes the target.
const TARGET_INFO: &[u8] = b"target_info";

/// Most bytes of a histogram's exemplar: their lengths take two.
const EXEMPLAR_BYTES_MAX: usize = u16::MAX as usize;

/// Where a point goes: what was, what is, for whom, into what.
pub(crate) type Place<'a> = (&'a Memory, &'a mut Pass, &'a Target, &'a mut Writer);

/// When a sample is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct When {
    pub(crate) time_unix_nano: u64,
    /// Whether the body says it.
    pub(crate) is_timed: bool,
}

/// Makes points of samples.
#[derive(Debug, Default)]
pub(crate) struct Converter {
    pub(crate) counts: Counts,
    pub(crate) family: Family,
    /// Attributes of the resource, if this scrape has told them.
    pub(crate) target_info: Option<Vec<u8>>,
    pub(crate) groups: Groups,
    pub(crate) attributes: Vec<u8>,
    /// Whether all of the target's own labels stand in no sample's attributes.
    pub(crate) takes_target: bool,
    /// Whether all labels were bare, without escapes, and none of the target's.
    is_plain: bool,
    exemplar: Vec<u8>,
    name: Vec<u8>,
    buffers: [Vec<u8>; 2],
    /// When the series of the next samples was created, where the format says it beside them.
    pub(crate) told_created: Option<u64>,
    /// The labels of the counter that was written last.
    pub(crate) counter: Option<u64>,
    /// What the last sample was, and its name's hash if it was needed, as long as its family lasts.
    pub(crate) last: Option<(Role, Option<Hash>)>,
}

impl Converter {
    pub(crate) fn held_bytes(&self) -> usize {
        let info = self.target_info.as_ref().map_or(0, Vec::capacity);
        self.attributes.capacity() + self.groups.bytes() + info
    }

    /// Begins another body. What was allocated is kept.
    pub(crate) fn begin(&mut self) {
        self.counts = Counts::default();
        self.family.begin(&[]);
        self.target_info = None;
        self.groups.clear();
        self.told_created = None;
        self.counter = None;
        self.last = None;
    }

    /// A line of metadata: it begins a family if it is of another one.
    pub(crate) fn metadata(
        &mut self,
        name: &[u8],
        memory: &Memory,
        pass: &mut Pass,
        target: &Target,
        writer: &mut Writer,
    ) {
        if self.family.name != name {
            self.begin_family(name, (memory, pass, target, writer));
        }
        self.last = None;
    }

    fn begin_family(&mut self, name: &[u8], (memory, pass, target, writer): Place<'_>) {
        self.end_family(memory, pass, target, writer);
        self.family.begin(name);
    }

    /// Writes what is open.
    pub(crate) fn end_family(
        &mut self,
        memory: &Memory,
        pass: &mut Pass,
        target: &Target,
        writer: &mut Writer,
    ) {
        writer.end();
        self.counter = None;
        if self.groups.is_empty() {
            return;
        }
        self.groups.reverse();
        while let Some(group) = self.groups.take() {
            self.write_group(group, (memory, &mut *pass, target, &mut *writer));
        }
        self.groups.clear();
    }

    /// Another converter wrote since: a time of creation that follows isn't of this one's counter.
    pub(crate) fn interrupt(&mut self) {
        self.counter = None;
    }

    /// Takes over what another one counted, and what it was told of the target.
    pub(crate) fn take_counts(&mut self, other: &mut Self) {
        let Counts { samples, added, dropped, removed } = std::mem::take(&mut other.counts);
        self.counts.samples += samples;
        self.counts.added += added;
        self.counts.dropped += dropped;
        self.counts.removed += removed;
        if self.target_info.is_none() {
            self.target_info = other.target_info.take();
        }
    }

    /// Takes a sample.
    #[inline]
    pub(crate) fn sample(
        &mut self,
        line: &[u8],
        parser: &Parser,
        (format, now_unix_nano): (Format, u64),
        (memory, pass, target, writer): Place<'_>,
    ) -> Result<(), FaultKind> {
        self.counts.samples += 1;
        let sample = &parser.sample;
        let name = sample.name.span.of(line);
        let has_created = format == Format::OpenMetrics;
        let (role, hash) = match self.last.filter(|_| sample.is_name_again) {
            Some((role, Some(hash))) => (role, hash),
            Some((role, None)) => {
                let hash = Hash::of_name(name);
                self.last = Some((role, Some(hash)));
                (role, hash)
            }
            None => {
                let mut role = self.family.role(name, has_created);
                if role == Role::Foreign {
                    self.begin_family(name, (memory, &mut *pass, target, &mut *writer));
                    role = Role::Point;
                }
                let hash = Hash::of_name(name);
                self.last = Some((role, Some(hash)));
                (role, hash)
            }
        };
        let when = self.when(sample.time, now_unix_nano, target);
        let (Some(when), false) = (when, role == Role::Dropped) else {
            self.counts.dropped += 1;
            return Ok(());
        };
        let When { time_unix_nano, is_timed } = when;
        let when = (time_unix_nano, is_timed);
        let place = (memory, pass, target, writer);
        match role {
            Role::Point if name == TARGET_INFO => self.describe_target(line, parser),
            Role::Point => self.point(line, parser, (when, hash), place),
            Role::Created if self.family.type_ == Type::Counter => {
                self.created(line, parser, when, place);
            }
            role => self.part(line, parser, (role, when), place)?,
        }
        Ok(())
    }

    /// When a sample is; none if OTLP can't have that.
    #[inline]
    pub(crate) fn when(&self, time: Option<i64>, now: u64, target: &Target) -> Option<When> {
        let Some(time) = time.filter(|_| target.honors_timestamps) else {
            return Some(When { time_unix_nano: now, is_timed: false });
        };
        // What overflowed is one of the two ends.
        let is_right = (0..i64::MAX).contains(&time);
        is_right.then(|| When { time_unix_nano: time.unsigned_abs(), is_timed: true })
    }

    /// A number of its own.
    #[inline]
    fn point(
        &mut self,
        line: &[u8],
        parser: &Parser,
        ((time_unix_nano, is_timed), mut hash): ((u64, bool), Hash),
        (memory, pass, target, writer): Place<'_>,
    ) {
        let sample = &parser.sample;
        let kind = self.family.kind();
        let labels = self.put_labels(line, parser, target, (NUMBER_ATTRIBUTE, None), &mut hash);
        let seen = Seen {
            hash: hash.finish(),
            text: sample.identity.of(line),
            kind,
            is_timed,
            is_plain: self.is_plain && is_plain(sample, &parser.labels, line),
            time_unix_nano,
            value: (kind == Kind::Counter).then_some(sample.value),
            created_unix_nano: self.told_created,
        };
        let Some(known) = pass.note(memory, &seen) else {
            self.counts.dropped += 1;
            return;
        };
        self.counts.added += u64::from(known.is_new);
        self.counter = (kind == Kind::Counter).then_some(labels);
        let mut buffer = std::mem::take(&mut self.name);
        let name = plain(sample.name, line, &mut buffer);
        self.write_number(
            (line, name, sample.value),
            (kind, known.start_unix_nano, time_unix_nano),
            parser,
            (target, writer),
        );
        self.name = buffer;
    }

    /// Writes a number whose attributes are there.
    #[inline]
    pub(crate) fn write_number(
        &mut self,
        (line, name, value): (&[u8], &[u8], f64),
        (kind, start_unix_nano, time_unix_nano): (Kind, u64, u64),
        parser: &Parser,
        (target, writer): (&Target, &mut Writer),
    ) {
        self.exemplar.clear();
        if let Some(exemplar) = parser.sample.exemplar.filter(|_| kind == Kind::Counter) {
            let labels = &parser.exemplar_labels;
            put_exemplar(&mut self.exemplar, line, &exemplar, labels, time_unix_nano);
        }
        writer.metric(name, kind, &self.family);
        let shared: &[u8] = if self.takes_target { &target.attributes[0] } else { &[] };
        let is_sum = matches!(kind, Kind::Counter | Kind::Sum);
        let is_written = writer.number(&Number {
            start_unix_nano: if is_sum { start_unix_nano } else { 0 },
            time_unix_nano,
            value,
            attributes: [&self.attributes, shared],
            exemplar: &self.exemplar,
        });
        self.counts.dropped += u64::from(!is_written);
    }

    /// When the counter before was created. Of another one's it says nothing.
    fn created(
        &mut self,
        line: &[u8],
        parser: &Parser,
        (time_unix_nano, _): (u64, bool),
        (memory, pass, target, writer): Place<'_>,
    ) {
        let mut hash = Hash::of_name(&[]);
        let labels = self.put_labels(line, parser, target, (NUMBER_ATTRIBUTE, None), &mut hash);
        let created =
            created_time(line, &parser.sample).filter(|created| *created <= time_unix_nano);
        if let (Some(created), true) = (created, self.counter == Some(labels)) {
            pass.created(memory, created);
            writer.restart(created);
        }
    }

    /// A part of a histogram or summary.
    fn part(
        &mut self,
        line: &[u8],
        parser: &Parser,
        (role, (time_unix_nano, is_timed)): (Role, (u64, bool)),
        (memory, pass, target, writer): Place<'_>,
    ) -> Result<(), FaultKind> {
        let sample = &parser.sample;
        let (tag, own) = match self.family.type_ {
            Type::Histogram => (HISTOGRAM_ATTRIBUTE, BOUND),
            _ => (SUMMARY_ATTRIBUTE, QUANTILE),
        };
        let mut hash = Hash::of_name(&self.family.name);
        self.put_labels(line, parser, target, (tag, Some(own)), &mut hash);
        let hash = hash.finish();
        let text = sample.identity.of(line);
        let mut grew = 0;
        if self.groups.find(hash).is_none() {
            if let Some(group) = self.groups.take_whole() {
                self.write_group(group, (memory, pass, target, writer));
            }
            let group = self.groups.open(hash)?;
            group.text.extend_from_slice(text);
            group.attributes.extend_from_slice(&self.attributes);
            if self.takes_target {
                let place = usize::from(tag == HISTOGRAM_ATTRIBUTE);
                group.attributes.extend_from_slice(&target.attributes[place]);
            }
            grew += group.text.len() + group.attributes.len();
        }
        let Some(group) = self.groups.find(hash) else { return Ok(()) };
        group.lines += 1;
        group.time_unix_nano = time_unix_nano;
        group.is_timed = is_timed;
        match role {
            Role::Sum => group.sum = Some(sample.value),
            Role::Count => {
                group.count = Some(sample.value);
                group.created_unix_nano = self.told_created.or(group.created_unix_nano);
            }
            Role::Created => group.created_unix_nano = created_time(line, sample),
            _ => {
                let label = parser.labels.iter().find(|label| label.name.span.of(line) == own);
                let Some(label) = label else {
                    // Neither a bucket nor a quantile: its point would be another one's.
                    self.counts.dropped += 1;
                    return Ok(());
                };
                let at = crate::number::float(label.value.span.of(line)).unwrap_or(f64::NAN);
                group.pairs.push((at, sample.value));
                grew += size_of::<(f64, f64)>();
                grew += put_bucket_exemplar(group, line, parser);
            }
        }
        self.groups.grew(grew)
    }

    /// Writes a histogram or summary that is as whole as it gets.
    pub(crate) fn write_group(&mut self, mut group: Group, (memory, pass, _, writer): Place<'_>) {
        let (kind, is_right) = match (self.family.type_, group.whole_count()) {
            (Type::Histogram, Some(count)) => (Kind::Histogram, group.settle_buckets(count)),
            (_, count) => (Kind::Summary, count.is_some()),
        };
        let count = group.whole_count().filter(|_| is_right);
        let noted = count.and_then(|count| {
            let seen = Seen {
                hash: group.hash,
                text: &group.text,
                kind,
                is_timed: group.is_timed,
                is_plain: false,
                time_unix_nano: group.time_unix_nano,
                value: Some(count as f64),
                created_unix_nano: group.created_unix_nano,
            };
            pass.note(memory, &seen).map(|known| (count, known))
        });
        let mut is_written = false;
        if let Some((count, known)) = noted {
            self.counts.added += if known.is_new { group.lines } else { 0 };
            writer.metric(&self.family.name, kind, &self.family);
            let values =
                Values { count, sum: group.sum, pairs: &group.pairs, exemplars: &group.exemplars };
            let times = (known.start_unix_nano, group.time_unix_nano);
            is_written = writer.values(times, &values, &group.attributes);
        }
        if !is_written {
            self.counts.dropped += group.lines;
        }
        self.groups.give_back(group);
    }

    /// Takes what a target tells of itself as attributes of its resource, once in a scrape.
    fn describe_target(&mut self, line: &[u8], parser: &Parser) {
        let mut info = Vec::new();
        let [one, other] = &mut self.buffers;
        for label in &parser.labels {
            let name = plain(label.name, line, one);
            let value = plain(label.value, line, other);
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

    /// Writes the point that says that a series is gone, by its text in an earlier body.
    pub(crate) fn gone(
        &mut self,
        text: &[u8],
        kind: Kind,
        parser: &mut Parser,
        time_unix_nano: u64,
        target: &Target,
        writer: &mut Writer,
    ) {
        // It was read before, and is read in the same way.
        let Ok(name) = parser.identity(text) else { return };
        let (tag, own) = match kind {
            Kind::Histogram => (HISTOGRAM_ATTRIBUTE, Some(BOUND)),
            Kind::Summary => (SUMMARY_ATTRIBUTE, Some(QUANTILE)),
            Kind::Exponential => (EXPONENTIAL_ATTRIBUTE, None),
            _ => (NUMBER_ATTRIBUTE, None),
        };
        let mut hash = Hash::of_name(&[]);
        self.put_labels(text, parser, target, (tag, own), &mut hash);
        let name = plain(name, text, &mut self.name);
        let suffixes: &[&[u8]] = match kind {
            Kind::Histogram => &[b"_bucket", b"_sum", b"_count", b"_created"],
            Kind::Summary => &[b"_sum", b"_count", b"_created"],
            _ => &[],
        };
        let base = suffixes.iter().find_map(|suffix| name.strip_suffix(*suffix)).unwrap_or(name);
        let type_ = match kind {
            Kind::Gauge => Type::Gauge,
            Kind::Counter => Type::Counter,
            Kind::Sum => Type::Info,
            Kind::Histogram | Kind::Exponential => Type::Histogram,
            Kind::Summary => Type::Summary,
        };
        writer.metric(base, kind, &Family { type_, ..Family::default() });
        let shared: &[u8] = if self.takes_target { &target.attributes[kind.labels()] } else { &[] };
        writer.gone(time_unix_nano, [&self.attributes, shared]);
    }

    /// Writes a sample's labels as attributes, but for one, and adds them to a hash. Labels without
    /// a value are none, but may take one of the target's away. The hash of the labels alone.
    #[inline]
    pub(crate) fn put_labels(
        &mut self,
        line: &[u8],
        parser: &Parser,
        target: &Target,
        (tag, but): (u8, Option<&[u8]>),
        hash: &mut Hash,
    ) -> u64 {
        let of_name = *hash;
        self.attributes.clear();
        self.takes_target = true;
        self.is_plain = true;
        for label in &parser.labels {
            let name = label.name.span.of(line);
            let value = label.value.span.of(line);
            if value.is_empty() || but == Some(name) {
                self.is_plain = false;
                if value.is_empty() && target.clears(name) {
                    self.take_away(name, tag, hash);
                }
                continue;
            }
            hash.label(name, value);
            if !label.name.is_escaped && !label.value.is_escaped && !target.has(name) {
                put_attribute(&mut self.attributes, tag, name, value);
            } else {
                self.is_plain = false;
                self.put_odd_label(line, (label.name, label.value), parser, target, tag);
            }
        }
        if !self.takes_target {
            let taken =
                |name: &[u8]| parser.labels.iter().any(|label| label.name.span.of(line) == name);
            target.put_others(&mut self.attributes, tag, taken);
        }
        hash.since(of_name)
    }

    /// A label without a value, where those of the target's name are honored.
    #[inline(never)]
    fn take_away(&mut self, name: &[u8], tag: u8, hash: &mut Hash) {
        hash.label(name, b"");
        self.takes_target = false;
        if Target::is_of_resource(name) {
            put_attribute(&mut self.attributes, tag, name, b"");
        }
    }

    /// A label with escapes, or with the name of one of the target's.
    #[inline(never)]
    fn put_odd_label(
        &mut self,
        line: &[u8],
        (name, value): (Text, Text),
        parser: &Parser,
        target: &Target,
        tag: u8,
    ) {
        let [one, other] = &mut self.buffers;
        let name = plain(name, line, one);
        let value = plain(value, line, other);
        if !target.has(name) {
            put_attribute(&mut self.attributes, tag, name, value);
        } else if target.honors_labels {
            self.takes_target = false;
            put_attribute(&mut self.attributes, tag, name, value);
        } else {
            let is_taken = |name: &[u8]| {
                target.has(name) || parser.labels.iter().any(|it| it.name.span.of(line) == name)
            };
            let mut exported = [EXPORTED, name].concat();
            while is_taken(&exported) {
                exported.splice(0..0, EXPORTED.iter().copied());
            }
            put_attribute(&mut self.attributes, tag, &exported, value);
        }
    }
}

/// A time of creation.
fn created_time(line: &[u8], sample: &Sample) -> Option<u64> {
    u64::try_from(seconds(sample.value_text.of(line))?).ok()
}

/// Keeps a bucket's exemplar. What that takes.
fn put_bucket_exemplar(group: &mut Group, line: &[u8], parser: &Parser) -> usize {
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
