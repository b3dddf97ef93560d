//! The data sets: seeded requests of each kind, and the messages they are packed into.
//!
//! A topic is filled by going round a pool of distinct messages, so that making them never limits
//! the filling. Every record of a pool is its own; after one round the ids come again, which no
//! Null table and no null sink minds.

use anyhow::{Context, Result};
use millrace_loadgen::{LoadPlan, LoadShape, RECORDS_MAX, encode_request};
use millrace_wire::Signal;
use millrace_wire::limits::WireLimits;
use millrace_wire::otlp;

/// From what every record is derived.
pub(crate) const SEED: u64 = 3;
/// 2026-01-01 12:00 UTC: all records of a pool lie within one day, hence within one partition.
const START_UNIX_NANOS: u64 = 1_767_268_800_000_000_000;

/// What an edge packs into one message: Kafka's own limit less room for headers.
const MESSAGE_MAX_BYTES: usize = 1_000_000;
/// Distinct messages of a pool: 64 MB, some half a million lean spans.
const POOL_MESSAGES: usize = 64;

/// Which records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Dataset {
    /// Spans of about 120 B: one attribute, one event.
    Lean,
    /// Spans with 6 resource and 15 span attributes.
    Rich,
    /// Log records of about 300 B.
    Logs,
    /// Points of all five kinds of metrics.
    Metrics,
}

impl Dataset {
    /// Its name in topics and cases.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Lean => "lean",
            Self::Rich => "rich",
            Self::Logs => "logs",
            Self::Metrics => "metrics",
        }
    }

    fn shape(self) -> LoadShape {
        match self {
            Self::Lean => LoadShape::Lean,
            Self::Rich => LoadShape::Rich,
            Self::Logs => LoadShape::Logs,
            Self::Metrics => LoadShape::Metrics,
        }
    }

    /// The signal of its requests.
    pub(crate) fn signal(self) -> Signal {
        self.shape().signal()
    }

    /// The signal's name in settings of collectors.
    pub(crate) fn signal_name(self) -> &'static str {
        match self.signal() {
            Signal::Traces => "traces",
            Signal::Logs => "logs",
            Signal::Metrics => "metrics",
        }
    }

    /// The pool: requests concatenated into messages as an edge does it.
    pub(crate) fn messages(self) -> Result<Vec<Message>> {
        let plan = LoadPlan::new(self.shape(), SEED, RECORDS_MAX, START_UNIX_NANOS);
        let mut messages = Vec::with_capacity(POOL_MESSAGES);
        let mut open = Message::default();
        for number in 0.. {
            let request = encode_request(&plan, number);
            let records = records(self.signal(), &request)?;
            if !open.bytes.is_empty() && open.bytes.len() + request.len() > MESSAGE_MAX_BYTES {
                messages.push(std::mem::take(&mut open));
                if messages.len() == POOL_MESSAGES {
                    break;
                }
            }
            open.bytes.extend_from_slice(&request);
            open.records += records;
        }
        Ok(messages)
    }
}

/// The value of a Kafka message.
#[derive(Debug, Default)]
pub(crate) struct Message {
    /// An OTLP request, in protobuf.
    pub(crate) bytes: Vec<u8>,
    /// Records in it: spans, log records or points.
    pub(crate) records: u64,
}

/// Counts the records of a request.
pub(crate) fn records(signal: Signal, request: &[u8]) -> Result<u64> {
    let summary = otlp::check_request(signal, request, &WireLimits::default());
    Ok(summary.context("a request that is no OTLP")?.records)
}
