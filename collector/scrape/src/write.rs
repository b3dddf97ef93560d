//! One `ExportMetricsServiceRequest` that is being written.
//!
//! Points of one metric that follow each other are one `Metric`, whose lengths are filled in at
//! its end. The resource is written first, with what `target_info` said in the last scrape; if this
//! one says something else, which may stand anywhere in a body, it is written anew at the end.

use millrace_wire::limits::{DAYS, WRITTEN_BYTES};
use millrace_wire::otlp::{Days, ROW_BYTES, repeated_bytes};
use millrace_wire::protobuf::{
    FIXED64, LENGTH, VARINT, begin_group, end_group, put_bytes, put_varint, tag, varint_len,
};

use crate::encode::{put_attribute, put_fixed64};
use crate::family::Family;
use crate::limits::{REQUEST_BYTES, TARGET_INFO_BYTES_MAX};
use crate::memory::Kind;
use crate::native::Native;
use crate::target::Target;

// ExportMetricsServiceRequest, ResourceMetrics, ScopeMetrics.
const RESOURCE_METRICS: u8 = tag(1, LENGTH) as u8;
const RESOURCE: u8 = tag(1, LENGTH) as u8;
const SCOPE_METRICS: u8 = tag(2, LENGTH) as u8;
const SCOPE: u8 = tag(1, LENGTH) as u8;
const SCOPE_NAME: u8 = tag(1, LENGTH) as u8;
const METRIC: u8 = tag(2, LENGTH) as u8;
// Metric.
const NAME: u8 = tag(1, LENGTH) as u8;
const DESCRIPTION: u8 = tag(2, LENGTH) as u8;
const UNIT: u8 = tag(3, LENGTH) as u8;
const METADATA: u8 = tag(12, LENGTH) as u8;
const GAUGE: u8 = tag(5, LENGTH) as u8;
const SUM: u8 = tag(7, LENGTH) as u8;
const HISTOGRAM: u8 = tag(9, LENGTH) as u8;
const EXPONENTIAL: u8 = tag(10, LENGTH) as u8;
const SUMMARY: u8 = tag(11, LENGTH) as u8;
// Gauge, Sum, Histogram, Summary.
const DATA_POINT: u8 = tag(1, LENGTH) as u8;
const TEMPORALITY: u8 = tag(2, VARINT) as u8;
const CUMULATIVE: u8 = 2;
const MONOTONIC: u8 = tag(3, VARINT) as u8;
// Points of all kinds.
const START: u8 = tag(2, FIXED64) as u8;
const TIME: u8 = tag(3, FIXED64) as u8;
/// A number's value; a histogram's and a summary's count is an integer under the same tag number.
const VALUE: u8 = tag(4, FIXED64) as u8;
const SUM_OF_VALUES: u8 = tag(5, FIXED64) as u8;
const NUMBER_EXEMPLAR: u8 = tag(5, LENGTH) as u8;
const NUMBER_FLAGS: u8 = tag(8, VARINT) as u8;
const HISTOGRAM_FLAGS: u8 = tag(10, VARINT) as u8;
const BUCKET_COUNTS: u8 = tag(6, LENGTH) as u8;
const BOUNDS: u8 = tag(7, LENGTH) as u8;
const HISTOGRAM_EXEMPLAR: u8 = tag(8, LENGTH) as u8;
const SCALE: u8 = tag(6, VARINT) as u8;
const ZERO_COUNT: u8 = tag(7, FIXED64) as u8;
const POSITIVE: u8 = tag(8, LENGTH) as u8;
const NEGATIVE: u8 = tag(9, LENGTH) as u8;
const EXPONENTIAL_EXEMPLAR: u8 = tag(11, LENGTH) as u8;
const ZERO_THRESHOLD: u8 = tag(14, FIXED64) as u8;
const SIDE_OFFSET: u8 = tag(1, VARINT) as u8;
const SIDE_COUNTS: u8 = tag(2, LENGTH) as u8;
const QUANTILE: u8 = tag(6, LENGTH) as u8;
/// `DataPointFlags`: no value was recorded.
const NO_RECORDED_VALUE: u8 = 1;

/// The instrumentation scope: what made the translation.
const SCOPE_NAME_TEXT: &[u8] = b"millrace/prometheus";
/// The attribute of a metric's metadata that holds its type.
const TYPE_KEY: &[u8] = b"prometheus.type";

/// What points are written as in tables, at which a request is full: a quarter of what one may come
/// to.
const WRITTEN_BYTES_FULL: u64 = WRITTEN_BYTES / 4;

/// What they may come to with the points of one more line.
const WRITTEN_BYTES_MAX: u64 = WRITTEN_BYTES / 2;

/// Days of points at which a request is full: a quarter of what it may have.
const DAYS_FULL: usize = DAYS / 4;

/// Days that it may have with the points of one more line.
const DAYS_MAX: usize = DAYS / 2;

/// The largest request whose memory is kept: twice a full one's.
const KEPT_BYTES: usize = 2 * REQUEST_BYTES;

/// What an attribute may count beside its bytes, with those of the resource.
const SHARED_BYTES: u64 = 1024;

/// A whole request: metrics of one target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// As protobuf.
    pub bytes: Vec<u8>,
    /// How many points there are in it.
    pub points: u64,
}

/// A histogram's or summary's values.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Values<'a> {
    pub(crate) count: u64,
    pub(crate) sum: Option<f64>,
    /// Bounds (without the infinite one) and the counts between them; or quantiles and values.
    pub(crate) pairs: &'a [(f64, f64)],
    /// Contents of exemplars, each behind its length.
    pub(crate) exemplars: &'a [u8],
}

/// A point of a number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Number<'a> {
    /// 0 if it isn't cumulative.
    pub(crate) start_unix_nano: u64,
    pub(crate) time_unix_nano: u64,
    pub(crate) value: f64,
    pub(crate) attributes: [&'a [u8]; 2],
    /// The content of an exemplar; empty if there is none.
    pub(crate) exemplar: &'a [u8],
}

/// What stands before the metrics.
#[derive(Debug, Default)]
struct Head {
    /// What the target said of itself.
    info: Vec<u8>,
    /// Where the content of the resource's metrics, and of the scope's, begins.
    of_resource: usize,
    of_scope: usize,
    end: usize,
}

#[derive(Debug, Clone, Copy)]
struct Open {
    kind: Kind,
    metric: usize,
    data: usize,
    row_bytes: u64,
}

/// Writes metrics.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
    head: Head,
    /// One that was sent, to be used again.
    spare: Vec<u8>,
    /// What the caller holds of one that is being sent.
    lent_bytes: usize,
    open: Option<Open>,
    name: Vec<u8>,
    points: u64,
    written_bytes: u64,
    days: Days,
    /// The unit of the open metric, if it was told behind its points.
    late_unit: Vec<u8>,
    /// Where the last number's beginning stands.
    start_at: usize,
}

impl Writer {
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.bytes.len() - self.head.end >= REQUEST_BYTES
            || self.written_bytes >= WRITTEN_BYTES_FULL
            || self.days.len() >= DAYS_FULL
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.points == 0
    }

    /// What it holds, with the request that is being sent.
    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes.capacity() + self.spare.capacity() + self.lent_bytes
    }

    /// Takes a request's memory back once it was sent.
    pub(crate) fn give_back(&mut self, bytes: Vec<u8>) {
        self.lent_bytes = 0;
        self.spare = bytes;
        self.spare.clear();
    }

    /// Gives back what isn't kept for another scrape: one request's memory is.
    pub(crate) fn trim(&mut self) {
        if self.bytes.capacity() < self.spare.capacity() {
            std::mem::swap(&mut self.bytes, &mut self.spare);
        }
        self.spare = Vec::new();
        self.lent_bytes = 0;
        if self.bytes.capacity() > KEPT_BYTES {
            self.bytes = Vec::new();
        }
    }

    /// Begins a metric, unless the last one had the same name and kind.
    #[inline]
    pub(crate) fn metric(&mut self, name: &[u8], kind: Kind, family: &Family) {
        let is_same = self.open.is_some_and(|open| open.kind == kind) && self.name == name;
        if !is_same {
            self.begin_metric(name, kind, family);
        }
    }

    fn begin_metric(&mut self, name: &[u8], kind: Kind, family: &Family) {
        self.end();
        self.name.clear();
        self.name.extend_from_slice(name);
        let before = self.bytes.len();
        self.bytes.push(METRIC);
        let metric = begin_group(&mut self.bytes);
        put_bytes(&mut self.bytes, NAME, name);
        if !family.description.is_empty() {
            put_bytes(&mut self.bytes, DESCRIPTION, &family.description);
        }
        if !family.unit.is_empty() {
            put_bytes(&mut self.bytes, UNIT, &family.unit);
        }
        put_attribute(&mut self.bytes, METADATA, TYPE_KEY, family.type_.as_str().as_bytes());
        self.bytes.push(match kind {
            Kind::Gauge => GAUGE,
            Kind::Counter | Kind::Sum => SUM,
            Kind::Histogram => HISTOGRAM,
            Kind::Summary => SUMMARY,
            Kind::Exponential => EXPONENTIAL,
        });
        let data = begin_group(&mut self.bytes);
        let shared = (self.bytes.len() - before + TARGET_INFO_BYTES_MAX) as u64 + SHARED_BYTES;
        let row_bytes = ROW_BYTES + repeated_bytes(shared);
        self.open = Some(Open { kind, metric, data, row_bytes });
    }

    /// Says what the open metric's unit is, behind its points.
    pub(crate) fn measure(&mut self, unit: &[u8]) {
        self.late_unit.clear();
        if self.open.is_some() {
            self.late_unit.extend_from_slice(unit);
        }
    }

    /// Ends the metric.
    pub(crate) fn end(&mut self) {
        let Some(Open { kind, metric, data, .. }) = self.open.take() else { return };
        match kind {
            Kind::Counter => {
                self.bytes.extend_from_slice(&[TEMPORALITY, CUMULATIVE, MONOTONIC, 1]);
            }
            Kind::Sum | Kind::Histogram | Kind::Exponential => {
                self.bytes.extend_from_slice(&[TEMPORALITY, CUMULATIVE]);
            }
            Kind::Gauge | Kind::Summary => {}
        }
        end_group(&mut self.bytes, data);
        if !self.late_unit.is_empty() {
            put_bytes(&mut self.bytes, UNIT, &self.late_unit);
            self.late_unit.clear();
        }
        end_group(&mut self.bytes, metric);
    }

    /// Writes a number. False if the request takes no such point.
    #[inline]
    pub(crate) fn number(&mut self, point: &Number<'_>) -> bool {
        if !self.count(point.time_unix_nano) {
            return false;
        }
        let [own, shared] = point.attributes;
        let start_bytes = if point.start_unix_nano == 0 { 0 } else { 9 };
        let exemplar_bytes = match point.exemplar.len() {
            0 => 0,
            length => 1 + varint_len(length as u64) + length,
        };
        let length = start_bytes + 18 + own.len() + shared.len() + exemplar_bytes;
        let out = &mut self.bytes;
        out.reserve(length + 11);
        out.push(DATA_POINT);
        put_varint(out, length as u64);
        self.start_at = out.len() + 1;
        let mut numbers = [0; 27];
        numbers[0] = START;
        numbers[1..9].copy_from_slice(&point.start_unix_nano.to_le_bytes());
        numbers[9] = TIME;
        numbers[10..18].copy_from_slice(&point.time_unix_nano.to_le_bytes());
        numbers[18] = VALUE;
        numbers[19..].copy_from_slice(&point.value.to_le_bytes());
        match start_bytes {
            0 => out.extend_from_slice(&numbers[9..]),
            _ => out.extend_from_slice(&numbers),
        }
        if exemplar_bytes > 0 {
            put_bytes(out, NUMBER_EXEMPLAR, point.exemplar);
        }
        out.extend_from_slice(own);
        out.extend_from_slice(shared);
        self.written_bytes += length as u64;
        true
    }

    /// Gives the last point, a counter's, another beginning. Nothing if it was sent before.
    pub(crate) fn restart(&mut self, start_unix_nano: u64) {
        if self.open.is_some_and(|open| open.kind == Kind::Counter)
            && let Some(start) = self.bytes.get_mut(self.start_at..self.start_at + 8)
        {
            start.copy_from_slice(&start_unix_nano.to_le_bytes());
        }
    }

    /// Writes a histogram or summary, as the metric is. False if the request takes no such point.
    pub(crate) fn values(
        &mut self,
        (start_unix_nano, time_unix_nano): (u64, u64),
        values: &Values<'_>,
        attributes: &[u8],
    ) -> bool {
        let Some(open) = self.open else { return false };
        if !self.count(time_unix_nano) {
            return false;
        }
        let before = self.bytes.len();
        self.bytes.push(DATA_POINT);
        let point = begin_group(&mut self.bytes);
        let out = &mut self.bytes;
        put_fixed64(out, START, start_unix_nano);
        put_fixed64(out, TIME, time_unix_nano);
        put_fixed64(out, VALUE, values.count);
        if open.kind == Kind::Histogram {
            if let Some(sum) = values.sum {
                put_fixed64(out, SUM_OF_VALUES, sum.to_bits());
            }
            put_buckets(out, values);
            put_exemplars(out, HISTOGRAM_EXEMPLAR, values.exemplars);
        } else {
            put_fixed64(out, SUM_OF_VALUES, values.sum.unwrap_or_default().to_bits());
            for (quantile, value) in values.pairs {
                out.extend_from_slice(&[QUANTILE, 18]);
                put_fixed64(out, tag(1, FIXED64) as u8, quantile.to_bits());
                put_fixed64(out, tag(2, FIXED64) as u8, value.to_bits());
            }
        }
        out.extend_from_slice(attributes);
        end_group(&mut self.bytes, point);
        self.written_bytes += (self.bytes.len() - before) as u64;
        true
    }

    /// Writes an exponential histogram. False if the request takes no such point.
    pub(crate) fn exponential(
        &mut self,
        (start_unix_nano, time_unix_nano): (u64, u64),
        native: &Native,
        (sum, exemplars): (Option<f64>, &[u8]),
        attributes: &[u8],
    ) -> bool {
        if !self.count(time_unix_nano) {
            return false;
        }
        let before = self.bytes.len();
        self.bytes.push(DATA_POINT);
        let point = begin_group(&mut self.bytes);
        let out = &mut self.bytes;
        put_fixed64(out, START, start_unix_nano);
        put_fixed64(out, TIME, time_unix_nano);
        put_fixed64(out, VALUE, native.count);
        if let Some(sum) = sum {
            put_fixed64(out, SUM_OF_VALUES, sum.to_bits());
        }
        out.push(SCALE);
        put_varint(out, zigzag(native.scale.into()));
        put_fixed64(out, ZERO_COUNT, native.zero_count);
        put_fixed64(out, ZERO_THRESHOLD, native.zero_threshold.to_bits());
        for (tag, side) in [(POSITIVE, &native.positive), (NEGATIVE, &native.negative)] {
            if side.counts.is_empty() {
                continue;
            }
            out.push(tag);
            let buckets = begin_group(out);
            out.push(SIDE_OFFSET);
            put_varint(out, zigzag(side.offset.into()));
            out.push(SIDE_COUNTS);
            let counts = begin_group(out);
            side.counts.iter().for_each(|count| put_varint(out, *count));
            end_group(out, counts);
            end_group(out, buckets);
        }
        put_exemplars(out, EXPONENTIAL_EXEMPLAR, exemplars);
        out.extend_from_slice(attributes);
        end_group(&mut self.bytes, point);
        self.written_bytes += (self.bytes.len() - before) as u64;
        true
    }

    /// Writes a point that says that its series is gone.
    pub(crate) fn gone(&mut self, time_unix_nano: u64, attributes: [&[u8]; 2]) {
        let Some(open) = self.open else { return };
        if !self.count(time_unix_nano) {
            return;
        }
        let flags = match open.kind {
            Kind::Histogram | Kind::Exponential => HISTOGRAM_FLAGS,
            _ => NUMBER_FLAGS,
        };
        let length = 9 + 2 + attributes.iter().map(|part| part.len()).sum::<usize>();
        let out = &mut self.bytes;
        out.push(DATA_POINT);
        put_varint(out, length as u64);
        put_fixed64(out, TIME, time_unix_nano);
        attributes.iter().for_each(|attributes| out.extend_from_slice(attributes));
        out.extend_from_slice(&[flags, NO_RECORDED_VALUE]);
        self.written_bytes += length as u64;
    }

    #[inline]
    fn count(&mut self, time_unix_nano: u64) -> bool {
        let row_bytes = self.open.map_or(0, |open| open.row_bytes);
        if self.written_bytes + row_bytes > WRITTEN_BYTES_MAX
            || !self.days.note(time_unix_nano, DAYS_MAX)
        {
            return false;
        }
        self.written_bytes += row_bytes;
        self.points += 1;
        true
    }

    /// Ends the request. The next one begins empty.
    pub(crate) fn take(&mut self, target: &Target, target_info: &[u8]) -> Request {
        self.end();
        if self.head.info != target_info {
            let metrics = self.bytes.split_off(self.head.end);
            self.put_head(target, target_info);
            self.bytes.extend_from_slice(&metrics);
        }
        end_group(&mut self.bytes, self.head.of_scope);
        end_group(&mut self.bytes, self.head.of_resource);
        let spare = std::mem::take(&mut self.spare);
        let bytes = std::mem::replace(&mut self.bytes, spare);
        let points = self.points;
        self.lent_bytes = bytes.capacity();
        self.begin(target, target_info);
        Request { bytes, points }
    }

    /// Forgets what was written, and begins a request of a target that said this of itself.
    pub(crate) fn begin(&mut self, target: &Target, target_info: &[u8]) {
        self.put_head(target, target_info);
        self.open = None;
        self.late_unit.clear();
        self.name.clear();
        self.points = 0;
        self.written_bytes = 0;
        self.days.clear();
        self.start_at = usize::MAX / 2;
    }

    fn put_head(&mut self, target: &Target, target_info: &[u8]) {
        let Self { bytes, head, .. } = self;
        bytes.clear();
        bytes.push(RESOURCE_METRICS);
        head.of_resource = begin_group(bytes);
        target.put_resource(bytes, RESOURCE, target_info);
        bytes.push(SCOPE_METRICS);
        head.of_scope = begin_group(bytes);
        bytes.push(SCOPE);
        put_varint(bytes, (SCOPE_NAME_TEXT.len() + 2) as u64);
        put_bytes(bytes, SCOPE_NAME, SCOPE_NAME_TEXT);
        head.end = bytes.len();
        head.info.clear();
        head.info.extend_from_slice(target_info);
    }
}

/// Writes exemplars that stand behind their lengths.
fn put_exemplars(out: &mut Vec<u8>, tag: u8, exemplars: &[u8]) {
    let mut rest = exemplars;
    while let Some((length, more)) = rest.split_first_chunk::<2>() {
        let length = usize::from(u16::from_le_bytes(*length)).min(more.len());
        put_bytes(out, tag, &more[..length]);
        rest = &more[length..];
    }
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

fn put_buckets(out: &mut Vec<u8>, values: &Values<'_>) {
    let pairs = values.pairs;
    if pairs.is_empty() {
        return;
    }
    // Each pair is a bound and what lies between it and the one before; the last one is infinite.
    out.push(BUCKET_COUNTS);
    put_varint(out, 8 * pairs.len() as u64);
    for (_, count) in pairs {
        out.extend_from_slice(&(*count as u64).to_le_bytes());
    }
    let bounds = &pairs[..pairs.len() - 1];
    out.push(BOUNDS);
    put_varint(out, 8 * bounds.len() as u64);
    for (bound, _) in bounds {
        out.extend_from_slice(&bound.to_bits().to_le_bytes());
    }
}
