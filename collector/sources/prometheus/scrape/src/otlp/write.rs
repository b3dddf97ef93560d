//! Writes one `ExportMetricsServiceRequest`.
//!
//! Consecutive points of one metric form one `Metric`, whose lengths are filled in at its end. The
//! resource is written first, with the last scrape's `target_info`; if this scrape's differs, which
//! can appear anywhere in a body, the resource is rewritten at the end.

use millrace_wire::limits::{DAYS, WRITTEN_BYTES};
use millrace_wire::otlp::{Days, ROW_BYTES, repeated_bytes};
use millrace_wire::protobuf::{
    FIXED64, LENGTH, VARINT, begin_group, end_group, field_tag, put_bytes, put_varint, varint_len,
};

use crate::limits::{REQUEST_BYTES, TARGET_INFO_BYTES_MAX};
use crate::otlp::encode::{put_attribute, put_fixed64};
use crate::otlp::family::Family;
use crate::parse::native::Native;
use crate::series_kind::SeriesKind;
use crate::targets::target::TargetAttributes;

// Fields of ExportMetricsServiceRequest, ResourceMetrics, ScopeMetrics.
const RESOURCE_METRICS: u8 = field_tag(1, LENGTH) as u8;
const RESOURCE: u8 = field_tag(1, LENGTH) as u8;
const SCOPE_METRICS: u8 = field_tag(2, LENGTH) as u8;
const SCOPE: u8 = field_tag(1, LENGTH) as u8;
const SCOPE_NAME: u8 = field_tag(1, LENGTH) as u8;
const METRIC: u8 = field_tag(2, LENGTH) as u8;
// Fields of Metric.
const NAME: u8 = field_tag(1, LENGTH) as u8;
const DESCRIPTION: u8 = field_tag(2, LENGTH) as u8;
const UNIT: u8 = field_tag(3, LENGTH) as u8;
const METADATA: u8 = field_tag(12, LENGTH) as u8;
const GAUGE: u8 = field_tag(5, LENGTH) as u8;
const SUM: u8 = field_tag(7, LENGTH) as u8;
const HISTOGRAM: u8 = field_tag(9, LENGTH) as u8;
const EXPONENTIAL: u8 = field_tag(10, LENGTH) as u8;
const SUMMARY: u8 = field_tag(11, LENGTH) as u8;
// Fields of Gauge, Sum, Histogram, Summary.
const DATA_POINT: u8 = field_tag(1, LENGTH) as u8;
const TEMPORALITY: u8 = field_tag(2, VARINT) as u8;
const CUMULATIVE: u8 = 2;
const MONOTONIC: u8 = field_tag(3, VARINT) as u8;
// Fields of all kinds of points.
const START: u8 = field_tag(2, FIXED64) as u8;
const TIME: u8 = field_tag(3, FIXED64) as u8;
/// A number's value; a histogram's and a summary's count is an integer with the same field number.
const VALUE: u8 = field_tag(4, FIXED64) as u8;
const SUM_OF_VALUES: u8 = field_tag(5, FIXED64) as u8;
const NUMBER_EXEMPLAR: u8 = field_tag(5, LENGTH) as u8;
const NUMBER_FLAGS: u8 = field_tag(8, VARINT) as u8;
const HISTOGRAM_FLAGS: u8 = field_tag(10, VARINT) as u8;
const BUCKET_COUNTS: u8 = field_tag(6, LENGTH) as u8;
const BOUNDS: u8 = field_tag(7, LENGTH) as u8;
const HISTOGRAM_EXEMPLAR: u8 = field_tag(8, LENGTH) as u8;
const SCALE: u8 = field_tag(6, VARINT) as u8;
const ZERO_COUNT: u8 = field_tag(7, FIXED64) as u8;
const POSITIVE: u8 = field_tag(8, LENGTH) as u8;
const NEGATIVE: u8 = field_tag(9, LENGTH) as u8;
const EXPONENTIAL_EXEMPLAR: u8 = field_tag(11, LENGTH) as u8;
const ZERO_THRESHOLD: u8 = field_tag(14, FIXED64) as u8;
const SIDE_OFFSET: u8 = field_tag(1, VARINT) as u8;
const SIDE_COUNTS: u8 = field_tag(2, LENGTH) as u8;
const QUANTILE: u8 = field_tag(6, LENGTH) as u8;
/// `DataPointFlags`: no value was recorded.
const NO_RECORDED_VALUE: u8 = 1;

/// The instrumentation scope: the converter.
const SCOPE_NAME_TEXT: &[u8] = b"millrace/prometheus";
/// The metadata attribute with the metric's type.
const TYPE_KEY: &[u8] = b"prometheus.type";

/// The written size at which a request is full: a quarter of its limit.
const WRITTEN_BYTES_FULL: u64 = WRITTEN_BYTES / 4;

/// The most written size, including the points of one more line.
const WRITTEN_BYTES_MAX: u64 = WRITTEN_BYTES / 2;

/// The days of points at which a request is full: a quarter of its limit.
const DAYS_FULL: usize = DAYS / 4;

/// The most days, including the points of one more line.
const DAYS_MAX: usize = DAYS / 2;

/// The largest request whose memory is retained: twice a full one's.
const RETAINED_BYTES: usize = 2 * REQUEST_BYTES;

/// The most that attributes count in addition to their bytes, with those of the resource.
const SHARED_BYTES: u64 = 1024;

/// A complete request: metrics of one target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricsRequest {
    /// The encoded message.
    pub bytes: Vec<u8>,
    /// The number of its points.
    pub points: u64,
}

/// A histogram's or summary's values.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Values<'a> {
    pub(crate) count: u64,
    pub(crate) sum: Option<f64>,
    /// Bounds (without the infinite one) and the counts between them; or quantiles and values.
    pub(crate) pairs: &'a [(f64, f64)],
    /// Encoded exemplars, each after its length.
    pub(crate) exemplars: &'a [u8],
}

/// A point of a number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NumberPoint<'a> {
    /// 0 if it isn't cumulative.
    pub(crate) start_unix_nano: u64,
    pub(crate) time_unix_nano: u64,
    pub(crate) value: f64,
    pub(crate) attributes: [&'a [u8]; 2],
    /// The encoded exemplar; empty if there is none.
    pub(crate) exemplar: &'a [u8],
}

/// The part before the metrics.
#[derive(Debug, Default)]
struct RequestPrefix {
    /// The attributes of `target_info`.
    info: Vec<u8>,
    /// The positions of the contents of ResourceMetrics and ScopeMetrics.
    of_resource: usize,
    of_scope: usize,
    end: usize,
}

#[derive(Debug, Clone, Copy)]
struct OpenMetric {
    kind: SeriesKind,
    metric: usize,
    data: usize,
    row_bytes: u64,
}

#[derive(Debug, Default)]
pub(crate) struct MetricsWriter {
    bytes: Vec<u8>,
    head: RequestPrefix,
    /// The memory of a sent request, for reuse.
    spare: Vec<u8>,
    /// The memory of the request that the caller is sending.
    in_flight_bytes: usize,
    open: Option<OpenMetric>,
    name: Vec<u8>,
    points: u64,
    written_bytes: u64,
    days: Days,
    /// The unit of the open metric, if it followed its points.
    late_unit: Vec<u8>,
    /// The position of the last number's start time.
    start_at: usize,
}

impl MetricsWriter {
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.bytes.len() - self.head.end >= REQUEST_BYTES
            || self.written_bytes >= WRITTEN_BYTES_FULL
            || self.days.len() >= DAYS_FULL
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.points == 0
    }

    /// Returns its size in bytes, including the request that is being sent.
    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes.capacity() + self.spare.capacity() + self.in_flight_bytes
    }

    /// Returns the memory of a sent request.
    pub(crate) fn return_buffer(&mut self, bytes: Vec<u8>) {
        self.in_flight_bytes = 0;
        self.spare = bytes;
        self.spare.clear();
    }

    /// Frees memory, except for one request, between scrapes.
    pub(crate) fn release_excess(&mut self) {
        if self.bytes.capacity() < self.spare.capacity() {
            std::mem::swap(&mut self.bytes, &mut self.spare);
        }
        self.spare = Vec::new();
        self.in_flight_bytes = 0;
        if self.bytes.capacity() > RETAINED_BYTES {
            self.bytes = Vec::new();
        }
    }

    /// Begins a metric, unless the last one had the same name and kind.
    #[inline]
    pub(crate) fn ensure_metric(&mut self, name: &[u8], kind: SeriesKind, family: &Family) {
        let is_same = self.open.is_some_and(|open| open.kind == kind) && self.name == name;
        if !is_same {
            self.begin_metric(name, kind, family);
        }
    }

    fn begin_metric(&mut self, name: &[u8], kind: SeriesKind, family: &Family) {
        self.end_metric();
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
            SeriesKind::Gauge => GAUGE,
            SeriesKind::Counter | SeriesKind::Sum => SUM,
            SeriesKind::Histogram => HISTOGRAM,
            SeriesKind::Summary => SUMMARY,
            SeriesKind::Exponential => EXPONENTIAL,
        });
        let data = begin_group(&mut self.bytes);
        let shared = (self.bytes.len() - before + TARGET_INFO_BYTES_MAX) as u64 + SHARED_BYTES;
        let row_bytes = ROW_BYTES + repeated_bytes(shared);
        self.open = Some(OpenMetric { kind, metric, data, row_bytes });
    }

    /// Sets the open metric's unit after its points.
    pub(crate) fn set_late_unit(&mut self, unit: &[u8]) {
        self.late_unit.clear();
        if self.open.is_some() {
            self.late_unit.extend_from_slice(unit);
        }
    }

    pub(crate) fn end_metric(&mut self) {
        let Some(OpenMetric { kind, metric, data, .. }) = self.open.take() else { return };
        match kind {
            SeriesKind::Counter => {
                self.bytes.extend_from_slice(&[TEMPORALITY, CUMULATIVE, MONOTONIC, 1]);
            }
            SeriesKind::Sum | SeriesKind::Histogram | SeriesKind::Exponential => {
                self.bytes.extend_from_slice(&[TEMPORALITY, CUMULATIVE]);
            }
            SeriesKind::Gauge | SeriesKind::Summary => {}
        }
        end_group(&mut self.bytes, data);
        if !self.late_unit.is_empty() {
            put_bytes(&mut self.bytes, UNIT, &self.late_unit);
            self.late_unit.clear();
        }
        end_group(&mut self.bytes, metric);
    }

    /// Writes a number. Returns `false` if the request can't accept it.
    #[inline]
    pub(crate) fn write_number(&mut self, point: &NumberPoint<'_>) -> bool {
        if !self.reserve_point(point.time_unix_nano) {
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

    /// Sets the start time of the last point, a counter's. Does nothing if it was sent before.
    pub(crate) fn set_start_time(&mut self, start_unix_nano: u64) {
        if self.open.is_some_and(|open| open.kind == SeriesKind::Counter)
            && let Some(start) = self.bytes.get_mut(self.start_at..self.start_at + 8)
        {
            start.copy_from_slice(&start_unix_nano.to_le_bytes());
        }
    }

    /// Writes a histogram or summary, as the metric's kind is. Returns `false` if the request can't
    /// accept it.
    pub(crate) fn write_distribution(
        &mut self,
        (start_unix_nano, time_unix_nano): (u64, u64),
        values: &Values<'_>,
        attributes: &[u8],
    ) -> bool {
        let Some(open) = self.open else { return false };
        if !self.reserve_point(time_unix_nano) {
            return false;
        }
        let before = self.bytes.len();
        self.bytes.push(DATA_POINT);
        let point = begin_group(&mut self.bytes);
        let out = &mut self.bytes;
        put_fixed64(out, START, start_unix_nano);
        put_fixed64(out, TIME, time_unix_nano);
        put_fixed64(out, VALUE, values.count);
        if open.kind == SeriesKind::Histogram {
            if let Some(sum) = values.sum {
                put_fixed64(out, SUM_OF_VALUES, sum.to_bits());
            }
            put_buckets(out, values);
            put_exemplars(out, HISTOGRAM_EXEMPLAR, values.exemplars);
        } else {
            put_fixed64(out, SUM_OF_VALUES, values.sum.unwrap_or_default().to_bits());
            for (quantile, value) in values.pairs {
                out.extend_from_slice(&[QUANTILE, 18]);
                put_fixed64(out, field_tag(1, FIXED64) as u8, quantile.to_bits());
                put_fixed64(out, field_tag(2, FIXED64) as u8, value.to_bits());
            }
        }
        out.extend_from_slice(attributes);
        end_group(&mut self.bytes, point);
        self.written_bytes += (self.bytes.len() - before) as u64;
        true
    }

    /// Writes an exponential histogram. Returns `false` if the request can't accept it.
    pub(crate) fn write_exponential(
        &mut self,
        (start_unix_nano, time_unix_nano): (u64, u64),
        native: &Native,
        (sum, exemplars): (Option<f64>, &[u8]),
        attributes: &[u8],
    ) -> bool {
        if !self.reserve_point(time_unix_nano) {
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
        put_varint(out, encode_zigzag(native.scale.into()));
        put_fixed64(out, ZERO_COUNT, native.zero_count);
        put_fixed64(out, ZERO_THRESHOLD, native.zero_threshold.to_bits());
        for (tag, side) in [(POSITIVE, &native.positive), (NEGATIVE, &native.negative)] {
            if side.counts.is_empty() {
                continue;
            }
            out.push(tag);
            let buckets = begin_group(out);
            out.push(SIDE_OFFSET);
            put_varint(out, encode_zigzag(side.offset.into()));
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

    /// Writes a stale marker.
    pub(crate) fn write_stale_marker(&mut self, time_unix_nano: u64, attributes: [&[u8]; 2]) {
        let Some(open) = self.open else { return };
        if !self.reserve_point(time_unix_nano) {
            return;
        }
        let flags = match open.kind {
            SeriesKind::Histogram | SeriesKind::Exponential => HISTOGRAM_FLAGS,
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
    fn reserve_point(&mut self, time_unix_nano: u64) -> bool {
        let row_bytes = self.open.map_or(0, |open| open.row_bytes);
        if self.written_bytes + row_bytes > WRITTEN_BYTES_MAX
            || !self.days.record_time(time_unix_nano, DAYS_MAX)
        {
            return false;
        }
        self.written_bytes += row_bytes;
        self.points += 1;
        true
    }

    /// Ends the request, and begins the next one.
    pub(crate) fn take_request(
        &mut self,
        target: &TargetAttributes,
        target_info: &[u8],
    ) -> MetricsRequest {
        self.end_metric();
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
        self.in_flight_bytes = bytes.capacity();
        self.begin_request(target, target_info);
        MetricsRequest { bytes, points }
    }

    /// Discards the current points, and begins a request of a target with these attributes of
    /// `target_info`.
    pub(crate) fn begin_request(&mut self, target: &TargetAttributes, target_info: &[u8]) {
        self.put_head(target, target_info);
        self.open = None;
        self.late_unit.clear();
        self.name.clear();
        self.points = 0;
        self.written_bytes = 0;
        self.days.clear();
        self.start_at = usize::MAX / 2;
    }

    fn put_head(&mut self, target: &TargetAttributes, target_info: &[u8]) {
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

/// Writes exemplars that follow their lengths.
fn put_exemplars(out: &mut Vec<u8>, tag: u8, exemplars: &[u8]) {
    let mut rest = exemplars;
    while let Some((length, more)) = rest.split_first_chunk::<2>() {
        let length = usize::from(u16::from_le_bytes(*length)).min(more.len());
        put_bytes(out, tag, &more[..length]);
        rest = &more[length..];
    }
}

fn encode_zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

fn put_buckets(out: &mut Vec<u8>, values: &Values<'_>) {
    let pairs = values.pairs;
    if pairs.is_empty() {
        return;
    }
    // Each pair is a bound and the count between it and the one before; the last bound is infinite.
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
