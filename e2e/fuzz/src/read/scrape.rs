//! Bodies of scraped targets: any bytes, in any pieces, come to the same points, counts and fault;
//! what is written is a request like any other; what is held is bounded; a fault says where it is.
//!
//! The first byte of an input chooses the length of the pieces and whether rules are applied, the
//! second one limits and how much of the body the target's second scrape has; the rest is the body.
//! [`escaping`] takes a name, a label's name and its value instead, a line each.

use std::sync::{Arc, LazyLock};

use millrace_scrape::relabel::{Action, MetricRules, Rule, Rules};
use millrace_scrape::{
    BodyFault, BodyFormat, BodyLimits, BodyPart, MetricsRequest, SampleCounts, Scrape,
    ScrapeBuffers, ScrapeReport, SeriesMemory, TargetAttributes,
};
use millrace_wire::Signal;
use millrace_wire::limits::WireLimits;
use millrace_wire::otlp::check_request;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use prost::Message;

use crate::meter::peak_bytes;
use crate::reference;
use crate::reuse::Kept;

const NOW: u64 = 1_764_000_000_000_000_000;
const INTERVAL: u64 = 15_000_000_000;

/// What three scrapes of a body of a kibibyte may take: the request that is filled and its copies
/// while it grows (4 x 512 KiB), open groups (2 MiB), a line, all twice, since requests of both
/// readings are kept here.
const HELD_BYTES_MAX: usize = 16 << 20;

thread_local! {
    static BUFFERS: Kept<Box<ScrapeBuffers>> = const { Kept::none() };
}

/// Rules that write each line anew, and change few.
static RULES: LazyLock<Arc<MetricRules>> = LazyLock::new(|| {
    let drop = Rule { action: Action::LabelDrop, regex: "d.*".to_owned(), ..Rule::default() };
    let rename = Rule {
        source_labels: vec!["__name__".to_owned()],
        regex: "r(.*)".to_owned(),
        target_label: "__name__".to_owned(),
        replacement: "s$1".to_owned(),
        ..Rule::default()
    };
    Arc::new(Rules::new([&drop, &rename]).map(MetricRules::from).unwrap_or_default())
});

/// A body of the text format.
pub fn text(data: &[u8]) {
    body(BodyFormat::Prometheus, data);
}

/// A body of OpenMetrics.
pub fn open_metrics(data: &[u8]) {
    body(BodyFormat::OpenMetrics, data);
}

/// A body of the protobuf format.
pub fn protobuf(data: &[u8]) {
    body(BodyFormat::Protobuf, data);
}

fn body(format: BodyFormat, data: &[u8]) {
    let &[control, limit, ref body @ ..] = data else { return };
    let limits = BodyLimits {
        body_bytes: if limit & 1 == 1 { u64::from(limit) * 4 } else { 1 << 20 },
        samples: if limit & 2 == 2 { u64::from(limit >> 5) } else { 1 << 20 },
        labels: 1 + usize::from(limit >> 4),
    };
    let labels = vec![("env".to_owned(), "fuzz".to_owned())];
    let mut target =
        TargetAttributes::new("node", ("http", "10.0.0.1", 9100), labels, control & 64 > 0, true);
    if control & 128 > 0 {
        target = target.with_metric_rules(Arc::clone(&RULES));
    }
    // The whole body, a part of it, which lacks series or is broken, and the whole one again.
    let part = &body[..body.len() * usize::from(limit) / 255];
    let work = || {
        let step = 1 + usize::from(control) % 64;
        [body.len().max(1), step].map(|step| {
            let mut memory = SeriesMemory::default();
            let mut buffers = match step {
                1.. if control & 1 > 0 => Box::default(),
                _ => BUFFERS.with(Kept::take).unwrap_or_default(),
            };
            let mut came = Vec::new();
            for (turn, body) in [body, part, body].into_iter().enumerate() {
                let time = NOW + turn as u64 * INTERVAL;
                let mut scrape = Scrape::new(&target, &mut memory, limits, time, buffers);
                scrape.set_format(format);
                came.push(read(&mut scrape, body, step));
                buffers = scrape.commit_memory();
            }
            BUFFERS.with(|kept| kept.put(buffers));
            (came, memory.series_count())
        })
    };
    let ([whole, pieces], held_bytes) = peak_bytes(work);
    assert_eq!(whole, pieces, "cut in pieces it is another");
    assert!(held_bytes <= HELD_BYTES_MAX, "{held_bytes} bytes were held");
    whole.0.iter().for_each(|came| came.judge(body));
}

/// What a scrape came to.
#[derive(Debug, PartialEq)]
struct Came {
    requests: Vec<(Vec<u8>, u64)>,
    counts: SampleCounts,
    fault: Option<BodyFault>,
}

impl Came {
    fn judge(&self, body: &[u8]) {
        for (request, points) in &self.requests {
            let checked = check_request(Signal::Metrics, request, &WireLimits::default());
            let checked = checked.map(|checked| checked.records);
            assert_eq!(checked, Ok(*points), "not the points that were counted");
            assert_eq!(reference::records(Signal::Metrics, request), Some(*points));
        }
        // Those of the scrape itself.
        assert!(self.requests.iter().map(|(_, points)| points).sum::<u64>() >= 5);
        if let Some(fault) = &self.fault {
            let lines = body.split(|byte| *byte == b'\n').count() as u64;
            let most = if fault.part == BodyPart::Line { lines } else { body.len() as u64 };
            let said = fault.to_string();
            assert!(fault.number <= most.max(1), "{said}: there is none");
            assert!(said.starts_with(&fault.part.to_string()) && said.len() > 15, "{said}");
        }
    }
}

/// Reads a body in pieces, to the end or to what is wrong with it.
fn read(scrape: &mut Scrape<'_>, body: &[u8], step: usize) -> Came {
    let mut requests = Vec::new();
    let fault = feed(scrape, body, step, &mut requests).err();
    if fault.is_some() {
        scrape.mark_failed();
    }
    loop {
        let is_over = scrape.write_remaining(&ScrapeReport { duration_seconds: 0.5 });
        keep(scrape, &mut requests);
        if is_over {
            break;
        }
    }
    Came { requests, counts: scrape.counts(), fault }
}

fn feed(
    scrape: &mut Scrape<'_>,
    body: &[u8],
    step: usize,
    requests: &mut Vec<(Vec<u8>, u64)>,
) -> Result<(), BodyFault> {
    for piece in body.chunks(step) {
        let mut rest = piece;
        while !rest.is_empty() {
            rest = &rest[scrape.feed(rest)?..];
            if scrape.is_full() {
                keep(scrape, requests);
            }
        }
    }
    scrape.end_body()
}

fn keep(scrape: &mut Scrape<'_>, requests: &mut Vec<(Vec<u8>, u64)>) {
    if let Some(MetricsRequest { bytes, points, .. }) = scrape.take_request() {
        requests.push((bytes, points));
    }
}

/// A gauge with any name and any label, written in each format by its own rules for escaping, is
/// read as what it is, or refused in each.
pub fn escaping(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut parts = text.splitn(3, '\u{1}');
    let [Some(name), Some(label), Some(value)] = [parts.next(), parts.next(), parts.next()] else {
        return;
    };
    // What the target says of itself, and what has a meaning in a label or a name.
    let is_other = ["job", "instance", "__name__", "le", "quantile"].contains(&label);
    if is_other || [name, label].contains(&"") || name == "target_info" {
        return;
    }
    let quoted = |text: &str| {
        format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
    };
    let (quoted_name, quoted_label) = (quoted(name), quoted(label));
    let line = format!(
        "# TYPE {quoted_name} gauge\n{{{quoted_name},{quoted_label}={}}} 1\n",
        quoted(value)
    );
    let open = format!("{line}# EOF\n");
    let bodies = [
        (BodyFormat::Prometheus, line.into_bytes()),
        (BodyFormat::OpenMetrics, open.into_bytes()),
        (BodyFormat::Protobuf, family(name, label, value)),
    ];
    let target = TargetAttributes::new("node", ("http", "10.0.0.1", 9100), Vec::new(), false, true);
    let limits = BodyLimits { body_bytes: 1 << 20, samples: 1, labels: 1 };
    let expected = (!value.is_empty()).then(|| (label.to_owned(), value.to_owned()));
    for (format, body) in bodies {
        let mut memory = SeriesMemory::default();
        let mut scrape = Scrape::new(&target, &mut memory, limits, NOW, Box::default());
        scrape.set_format(format);
        let came = read(&mut scrape, &body, body.len());
        assert_eq!(came.fault, None, "{format:?}: {name:?} {label:?} {value:?}");
        let (read_name, labels) =
            came.requests.first().and_then(|it| first(&it.0)).unwrap_or_default();
        assert_eq!(read_name, name, "{format:?}");
        assert_eq!(labels, Vec::from_iter(expected.clone()), "{format:?}");
    }
}

/// A metric family with one gauge, behind its length.
fn family(name: &str, label: &str, value: &str) -> Vec<u8> {
    let field = |tag: u8, bytes: &[u8]| {
        let mut out = vec![tag << 3 | 2];
        prost::encoding::encode_varint(bytes.len() as u64, &mut out);
        out.extend_from_slice(bytes);
        out
    };
    let pair = [field(1, label.as_bytes()), field(2, value.as_bytes())].concat();
    let gauge = [&[1 << 3 | 1][..], &1_f64.to_le_bytes()].concat();
    let metric = [field(1, &pair), field(2, &gauge)].concat();
    let message = [field(1, name.as_bytes()), vec![3 << 3, 1], field(4, &metric)].concat();
    let mut out = Vec::new();
    prost::encoding::encode_varint(message.len() as u64, &mut out);
    [out, message].concat()
}

/// Name and attributes of a request's first point.
fn first(request: &[u8]) -> Option<(String, Vec<(String, String)>)> {
    let request = ExportMetricsServiceRequest::decode(request).ok()?;
    let metric = request.resource_metrics.first()?.scope_metrics.first()?.metrics.first()?;
    let Some(Data::Gauge(gauge)) = &metric.data else { return None };
    let pair = |pair: &opentelemetry_proto::tonic::common::v1::KeyValue| {
        let value = pair.value.clone().and_then(|value| value.value);
        let Some(Value::StringValue(value)) = value else { return None };
        Some((pair.key.clone(), value))
    };
    let labels = gauge.data_points.first()?.attributes.iter().map(pair).collect::<Option<_>>()?;
    Some((metric.name.clone(), labels))
}
