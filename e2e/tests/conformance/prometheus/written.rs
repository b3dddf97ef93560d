//! Where Prometheus writes its samples to (remote write 1.0): a server of the protocol, which keeps
//! all of them. Unlike queries it shows the marks of series that have ended.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, bail, ensure};
use prost::Message;

use super::samples::{Exemplar, Labels, Native, Sample, Value, canonical};
use super::targets::head;

/// Over what Prometheus sends at once, 2,000 samples.
const BODY_BYTES_MAX: usize = 16 << 20;

#[derive(Clone, PartialEq, Message)]
struct Request {
    #[prost(message, repeated, tag = "1")]
    series: Vec<Series>,
}

#[derive(Clone, PartialEq, Message)]
struct Series {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<Label>,
    #[prost(message, repeated, tag = "2")]
    samples: Vec<Number>,
    #[prost(message, repeated, tag = "3")]
    exemplars: Vec<Example>,
    #[prost(message, repeated, tag = "4")]
    histograms: Vec<Histogram>,
}

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, Message)]
struct Number {
    #[prost(double, tag = "1")]
    value: f64,
    #[prost(int64, tag = "2")]
    time_millis: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Example {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<Label>,
    #[prost(double, tag = "2")]
    value: f64,
    #[prost(int64, tag = "3")]
    time_millis: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Histogram {
    #[prost(uint64, tag = "1")]
    count: u64,
    #[prost(double, tag = "3")]
    sum: f64,
    #[prost(sint32, tag = "4")]
    schema: i32,
    #[prost(uint64, tag = "6")]
    zero_count: u64,
    #[prost(message, repeated, tag = "8")]
    negative_spans: Vec<Span>,
    #[prost(sint64, repeated, tag = "9")]
    negative_deltas: Vec<i64>,
    #[prost(message, repeated, tag = "11")]
    positive_spans: Vec<Span>,
    #[prost(sint64, repeated, tag = "12")]
    positive_deltas: Vec<i64>,
    #[prost(int64, tag = "15")]
    time_millis: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Span {
    #[prost(sint32, tag = "1")]
    offset: i32,
    #[prost(uint32, tag = "2")]
    length: u32,
}

/// What was written, or the first request that couldn't be read.
#[derive(Debug, Default)]
pub(crate) struct Written {
    pub(crate) samples: Vec<Sample>,
    pub(crate) exemplars: Vec<Exemplar>,
    fault: Option<String>,
}

/// The running server. Its threads end with it, and with their connections.
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    written: Arc<Mutex<Written>>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Receiver {
    pub(crate) fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").context("no port for remote write")?;
        let address = listener.local_addr()?;
        let (written, ends) = (Arc::default(), Arc::new(AtomicBool::new(false)));
        let (kept, stop) = (Arc::clone(&written), Arc::clone(&ends));
        let thread = Some(thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let kept = Arc::clone(&kept);
                thread::spawn(move || serve(stream, &kept));
            }
        }));
        Ok(Self { address, written, ends, thread })
    }

    /// Ends the server; all that was written.
    pub(crate) fn end(&self) -> Result<Written> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let written = std::mem::take(&mut *written);
        match written.fault {
            Some(fault) => bail!("remote write: {fault}"),
            None => Ok(written),
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        // Wakes the thread.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(mut stream: TcpStream, written: &Mutex<Written>) -> io::Result<()> {
    loop {
        let head = head(&mut stream)?.to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
        let length: usize = length.and_then(|it| it.trim().parse().ok()).unwrap_or(0);
        let mut body = vec![0; length.min(BODY_BYTES_MAX)];
        stream.read_exact(&mut body)?;
        let read = take(&body);
        let mut written = written.lock().unwrap_or_else(PoisonError::into_inner);
        match read {
            Ok((samples, exemplars)) => {
                written.samples.extend(samples);
                written.exemplars.extend(exemplars);
            }
            Err(error) => written.fault = Some(format!("{error:#}")),
        }
        stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n")?;
    }
}

fn take(body: &[u8]) -> Result<(Vec<Sample>, Vec<Exemplar>)> {
    let request = Request::decode(&unpacked(body)?[..]).context("no request")?;
    let (mut samples, mut exemplars) = (Vec::new(), Vec::new());
    for series in request.series {
        let labels = labels(&series.labels);
        for Number { value, time_millis } in series.samples {
            let (labels, value) = (labels.clone(), Value::of(value));
            samples.push(Sample { labels, time_millis, value });
        }
        for histogram in series.histograms {
            let (labels, time_millis) = (labels.clone(), histogram.time_millis);
            samples.push(Sample { labels, time_millis, value: native(&histogram)? });
        }
        for example in series.exemplars {
            exemplars.push(Exemplar {
                series: labels.clone(),
                labels: self::labels(&example.labels),
                value: example.value.to_bits(),
                time_millis: example.time_millis,
            });
        }
    }
    Ok((samples, exemplars))
}

/// Labels, with bounds and quantiles in one form.
fn labels(labels: &[Label]) -> Labels {
    let each = labels.iter().map(|label| {
        let is_bound = ["le", "quantile"].contains(&label.name.as_str());
        let value = if is_bound { canonical(&label.value) } else { label.value.clone() };
        (label.name.clone(), value)
    });
    each.collect()
}

fn native(written: &Histogram) -> Result<Value> {
    if Value::of(written.sum) == Value::Stale {
        return Ok(Value::Stale);
    }
    let side = |spans: &[Span], deltas: &[i64]| {
        let (mut index, mut count, mut deltas) = (0_i64, 0_i64, deltas.iter());
        let mut buckets = std::collections::BTreeMap::new();
        for span in spans {
            index += i64::from(span.offset);
            for _ in 0..span.length {
                count += deltas.next().context("fewer deltas than buckets")?;
                if count != 0 {
                    buckets.insert(index, u64::try_from(count).context("a count below zero")?);
                }
                index += 1;
            }
        }
        anyhow::Ok(buckets)
    };
    Ok(Value::Native(Box::new(Native {
        schema: written.schema,
        count: written.count,
        sum: written.sum.to_bits(),
        zero_count: written.zero_count,
        positive: side(&written.positive_spans, &written.positive_deltas)?,
        negative: side(&written.negative_spans, &written.negative_deltas)?,
    })))
}

/// Snappy's block format.
fn unpacked(packed: &[u8]) -> Result<Vec<u8>> {
    let mut rest = packed;
    let length = prost::decode_length_delimiter(&mut rest).context("no length")?;
    ensure!(length <= BODY_BYTES_MAX, "a body of {length} bytes");
    let mut bytes = Vec::with_capacity(length);
    let number =
        |bytes: &[u8]| bytes.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
    let mut next = |count: usize| -> Result<&[u8]> {
        let (taken, left) = rest.split_at_checked(count).context("cut off")?;
        rest = left;
        Ok(taken)
    };
    while bytes.len() < length {
        let tag = usize::from(next(1)?[0]);
        let (count, offset) = match tag & 3 {
            0 => {
                let count = match tag >> 2 {
                    short @ 0..60 => short,
                    long => number(next(long - 59)?),
                };
                bytes.extend_from_slice(next(count + 1)?);
                continue;
            }
            1 => ((tag >> 2 & 7) + 4, (tag >> 5) << 8 | number(next(1)?)),
            2 => ((tag >> 2) + 1, number(next(2)?)),
            _ => ((tag >> 2) + 1, number(next(4)?)),
        };
        let from = bytes.len().checked_sub(offset).filter(|_| offset > 0);
        let from = from.context("a copy from before the beginning")?;
        // What is copied may reach into what this copies.
        for place in from..from + count {
            bytes.push(bytes[place]);
        }
    }
    ensure!(bytes.len() == length, "{} bytes instead of {length}", bytes.len());
    Ok(bytes)
}
