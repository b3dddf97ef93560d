//! Rows of the metrics tables, turned back into the samples that Prometheus would have: by the
//! specification that made points of them, read backwards.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use millrace_e2e::lab::Variant;
use millrace_stack::clickhouse::Engine;
use serde_json::Value as Json;

use super::samples::{Exemplar, Labels, Native, Sample, Value, canonical};

const NANOS_PER_MILLI: i64 = 1_000_000;
/// OTLP's flag "no recorded value".
const GONE: u64 = 1;
/// Attributes of every resource, beside those of `target_info`.
const RESOURCE: [&str; 5] =
    ["service.name", "service.instance.id", "server.address", "server.port", "url.scheme"];
/// The times and values of exemplars, which have an array each.
const EXEMPLARS: [&str; 4] = [
    "toJSONString(`Exemplars.FilteredAttributes`)",
    "arrayMap(x -> toString(toUnixTimestamp64Nano(x)), `Exemplars.TimeUnix`)",
    "arrayMap(x -> toString(reinterpretAsUInt64(x)), `Exemplars.Value`)",
    "`Exemplars.TraceId`",
];

/// All that was stored.
#[derive(Debug, Default)]
pub(crate) struct Stored {
    pub(crate) samples: Vec<Sample>,
    pub(crate) exemplars: Vec<Exemplar>,
    /// When series began, in milliseconds since 1970, by series (of a histogram its base name) and
    /// time.
    pub(crate) begun: BTreeMap<(Labels, i64), i64>,
    /// What `target_info` said, by the labels that tell the target, and time.
    pub(crate) infos: BTreeMap<(String, i64), Labels>,
    /// Lines of each histogram and summary's last point, by what tells the series.
    lines: BTreeMap<Labels, Vec<Labels>>,
}

/// A point, whatever its kind.
struct Point {
    labels: Labels,
    time_millis: i64,
    is_gone: bool,
    rest: Vec<Json>,
}

impl Stored {
    /// Reads all tables of metrics.
    pub(crate) fn read(engine: &Engine) -> Result<Self> {
        let mut stored = Self::default();
        let value = "toString(reinterpretAsUInt64(Value))";
        for table in ["gauge", "sum"] {
            for point in stored.points(engine, table, &[value])? {
                let value = Value::of(f64::from_bits(number(&point.rest[0])?));
                stored.exemplars(&point, &point.rest[1..])?;
                stored.add(&point, point.labels.clone(), value);
            }
        }
        let bits = |column| format!("arrayMap(x -> toString(reinterpretAsUInt64(x)), {column})");
        let count = ["toString(Count)", "toString(reinterpretAsUInt64(Sum))"];
        let counts = |column| format!("arrayMap(x -> toString(x), {column})");
        let (bounds, buckets) = (bits("ExplicitBounds"), counts("BucketCounts"));
        let columns = [count[0], count[1], &bounds, &buckets];
        for point in stored.points(engine, "histogram", &columns)? {
            stored.exemplars(&point, &point.rest[4..])?;
            stored.histogram(&point)?;
        }
        let quantiles = bits("`ValueAtQuantiles.Quantile`");
        let values = bits("`ValueAtQuantiles.Value`");
        let columns = [count[0], count[1], &quantiles, &values];
        for point in stored.points(engine, "summary", &columns)? {
            stored.summary(&point)?;
        }
        let (positive, negative) = (counts("PositiveBucketCounts"), counts("NegativeBucketCounts"));
        let columns = [
            [count[0], count[1], "toString(Scale)", "toString(ZeroCount)"],
            ["toString(PositiveOffset)", &positive, "toString(NegativeOffset)", &negative],
        ];
        for point in stored.points(engine, "exponential_histogram", &columns.concat())? {
            let value = native(&point.rest)?;
            stored.add(&point, point.labels.clone(), value);
        }
        Ok(stored)
    }

    /// A table's points in the order of time. Notes what each says of its target and its beginning.
    fn points(&mut self, engine: &Engine, table: &str, columns: &[&str]) -> Result<Vec<Point>> {
        let exemplars: &[&str] = if table == "summary" { &[] } else { &EXEMPLARS };
        let columns: String =
            columns.iter().chain(exemplars).map(|column| format!(", {column}")).collect();
        let database = Variant::Map.database();
        let answer = engine.query(&format!(
            "SELECT MetricName, toJSONString(Attributes), toJSONString(ResourceAttributes), \
             toString(toUnixTimestamp64Nano(TimeUnix)), \
             toString(toUnixTimestamp64Nano(StartTimeUnix)), toString(Flags){columns} \
             FROM {database}.otel_metrics_{table} ORDER BY TimeUnix FORMAT JSONCompactEachRow"
        ))?;
        let mut points = Vec::new();
        for line in answer.lines().filter(|line| !line.is_empty()) {
            let mut row: Vec<Json> =
                serde_json::from_str(line).with_context(|| format!("no row: {line}"))?;
            let rest = row.split_off(6);
            let mut resource = map(&row[2])?;
            let mut labels = map(&row[1])?;
            for (label, attribute) in [("job", RESOURCE[0]), ("instance", RESOURCE[1])] {
                let value = resource.get(attribute).cloned().unwrap_or_default();
                labels.entry(label.to_owned()).or_insert(value);
            }
            // An empty label is none.
            labels.retain(|_, value| !value.is_empty());
            labels.insert("__name__".to_owned(), text(&row[0])?.to_owned());
            let time_millis = signed(&row[3])? / NANOS_PER_MILLI;
            let target = labels.get("target").cloned().unwrap_or_default();
            resource.retain(|name, _| !RESOURCE.contains(&name.as_str()));
            self.infos.insert((target, time_millis), resource);
            let begun_millis = signed(&row[4])? / NANOS_PER_MILLI;
            self.begun.insert((labels.clone(), time_millis), begun_millis);
            let is_gone = number(&row[5])? & GONE == GONE;
            points.push(Point { labels, time_millis, is_gone, rest });
        }
        Ok(points)
    }

    fn add(&mut self, point: &Point, labels: Labels, value: Value) {
        let value = if point.is_gone { Value::Stale } else { value };
        self.samples.push(Sample { labels, time_millis: point.time_millis, value });
    }

    /// All lines of a point, or the end of those that its last one had.
    fn lines(&mut self, point: &Point, lines: Vec<(Labels, Value)>) {
        let lines = match point.is_gone {
            true => {
                let last = self.lines.remove(&point.labels).unwrap_or_default();
                last.into_iter().map(|labels| (labels, Value::Stale)).collect()
            }
            false => {
                let labels = lines.iter().map(|(labels, _)| labels.clone()).collect();
                self.lines.insert(point.labels.clone(), labels);
                lines
            }
        };
        for (labels, value) in lines {
            self.add(point, labels, value);
        }
    }

    fn histogram(&mut self, point: &Point) -> Result<()> {
        let mut lines = ends(point)?;
        let (bounds, counts) = (doubles(&point.rest[2])?, numbers(&point.rest[3])?);
        let mut sum = 0;
        for (place, count) in counts.iter().enumerate() {
            sum += count;
            let bound = bounds.get(place).copied().unwrap_or(f64::INFINITY);
            let mut labels = named(&point.labels, "_bucket");
            labels.insert("le".to_owned(), canonical(&bound.to_string()));
            lines.push((labels, Value::of(sum as f64)));
        }
        self.lines(point, lines);
        Ok(())
    }

    fn summary(&mut self, point: &Point) -> Result<()> {
        let mut lines = ends(point)?;
        let (quantiles, values) = (doubles(&point.rest[2])?, doubles(&point.rest[3])?);
        for (quantile, value) in quantiles.into_iter().zip(values) {
            let mut labels = point.labels.clone();
            labels.insert("quantile".to_owned(), canonical(&quantile.to_string()));
            lines.push((labels, Value::of(value)));
        }
        self.lines(point, lines);
        Ok(())
    }

    fn exemplars(&mut self, point: &Point, columns: &[Json]) -> Result<()> {
        let labels: Vec<Labels> = serde_json::from_str(text(&columns[0])?)?;
        let (times, values) = (numbers(&columns[1])?, numbers(&columns[2])?);
        let ids = columns[3].as_array().context("no array")?;
        for (place, mut labels) in labels.into_iter().enumerate() {
            let id = text(&ids[place])?;
            if !id.is_empty() {
                labels.insert("trace_id".to_owned(), id.to_owned());
            }
            self.exemplars.push(Exemplar {
                series: point.labels.clone(),
                labels,
                value: values[place],
                time_millis: times[place] as i64 / NANOS_PER_MILLI,
            });
        }
        Ok(())
    }
}

/// The sum and the count that histograms and summaries have.
fn ends(point: &Point) -> Result<Vec<(Labels, Value)>> {
    let count = Value::of(number(&point.rest[0])? as f64);
    let sum = Value::of(f64::from_bits(number(&point.rest[1])?));
    Ok(vec![(named(&point.labels, "_count"), count), (named(&point.labels, "_sum"), sum)])
}

fn named(labels: &Labels, end: &str) -> Labels {
    let mut labels = labels.clone();
    labels.entry("__name__".to_owned()).and_modify(|name| name.push_str(end));
    labels
}

/// OTLP's index of a bucket is one below Prometheus': it tells the lower bound.
fn native(rest: &[Json]) -> Result<Value> {
    let side = |offset: &Json, counts: &Json| {
        let offset = signed(offset)?;
        let counts = numbers(counts)?.into_iter().zip(offset + 1..);
        let counts = counts.filter(|(count, _)| *count > 0).map(|(count, index)| (index, count));
        anyhow::Ok(counts.collect())
    };
    Ok(Value::Native(Box::new(Native {
        schema: i32::try_from(signed(&rest[2])?)?,
        count: number(&rest[0])?,
        sum: number(&rest[1])?,
        zero_count: number(&rest[3])?,
        positive: side(&rest[4], &rest[5])?,
        negative: side(&rest[6], &rest[7])?,
    })))
}

fn text(cell: &Json) -> Result<&str> {
    cell.as_str().with_context(|| format!("no text: {cell}"))
}

fn number(cell: &Json) -> Result<u64> {
    text(cell)?.parse().with_context(|| format!("no number: {cell}"))
}

fn signed(cell: &Json) -> Result<i64> {
    text(cell)?.parse().with_context(|| format!("no number: {cell}"))
}

fn numbers(cell: &Json) -> Result<Vec<u64>> {
    cell.as_array().with_context(|| format!("no array: {cell}"))?.iter().map(number).collect()
}

fn doubles(cell: &Json) -> Result<Vec<f64>> {
    Ok(numbers(cell)?.into_iter().map(f64::from_bits).collect())
}

fn map(cell: &Json) -> Result<Labels> {
    serde_json::from_str(text(cell)?).with_context(|| format!("no map: {cell}"))
}
