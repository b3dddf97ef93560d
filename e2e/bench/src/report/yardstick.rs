//! The yardstick: a fixed piece of work whose CPU time says how fast the machine is just now.
//!
//! The same build costs up to 2.6 times as much on one machine as on another of the same kind, so a
//! figure without its machine says little. Every line of results carries what the yardstick cost in
//! that run, and its own figures as multiples of it; those compare between machines and commits.
//!
//! The work is what the collector itself spends most time with: zstd and LZ4, there and back, a hash
//! and a copy, over a block that is the same for ever. One yardstick is all of it for one KiB.

use std::hint::black_box;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use cityhash_rs::cityhash_102_128;
use cpu_time::ThreadTime;
use lz4::block::CompressionMode;
use serde_json::{Map, Value, json};

use crate::report::{median, rounded};

/// Longer than the caches that a core has for itself.
const BLOCK_BYTES: usize = 4 * 1024 * 1024;
/// What the collector's exporters use.
const ZSTD_LEVEL: i32 = 1;
/// Passes of one measurement, a tenth of a second in all; the median counts.
const PASSES: usize = 3;
/// Digits kept of a figure in yardsticks.
const DIGITS: i32 = 4;

/// CPU time of each part, in nanoseconds for one KiB.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Parts {
    zstd: f64,
    lz4: f64,
    hash: f64,
    copy: f64,
}

impl Parts {
    fn sum(&self) -> f64 {
        self.zstd + self.lz4 + self.hash + self.copy
    }
}

/// What the yardstick has cost since the last line of results.
pub(crate) struct Yardstick {
    block: Vec<u8>,
    seen: Vec<Parts>,
    /// Whether a line was told with what was seen: the next measurement is for other lines.
    is_told: bool,
}

impl Yardstick {
    pub(crate) fn new() -> Self {
        Self { block: block(), seen: Vec::new(), is_told: false }
    }

    /// Measures once more, for the lines that are told next.
    pub(crate) fn measure(&mut self) -> Result<()> {
        if std::mem::take(&mut self.is_told) {
            self.seen.clear();
        }
        let passes = (0..PASSES).map(|_| pass(&self.block)).collect::<Result<Vec<_>>>()?;
        self.seen.extend(middle(&passes));
        Ok(())
    }

    /// A line of results with the yardstick in it.
    pub(crate) fn line(&mut self, line: &str) -> Result<String> {
        self.is_told = true;
        let mut fields: Map<String, Value> =
            serde_json::from_str(line).with_context(|| format!("no line of results: {line}"))?;
        if let Some(parts) = middle(&self.seen) {
            mark(&mut fields, &parts);
        }
        Ok(serde_json::to_string(&fields)?)
    }
}

/// Adds the yardstick to a line, and the line's figures as multiples of it. A line without such
/// figures, as a ratio, stays as it is.
fn mark(fields: &mut Map<String, Value>, parts: &Parts) {
    let mut multiples = Map::new();
    for (name, value) in fields.iter() {
        if let Some(value) = multiple(name, value, parts.sum()) {
            multiples.insert(name.clone(), value);
        }
    }
    if multiples.is_empty() {
        return;
    }
    let Parts { zstd, lz4, hash, copy } = *parts;
    let each = |nanos: f64| rounded(nanos, 1);
    fields.insert("yardstick_ns".to_owned(), json!(each(parts.sum())));
    let parts = json!({
        "zstd": each(zstd), "lz4": each(lz4), "hash": each(hash), "copy": each(copy),
    });
    fields.insert("yardstick_parts_ns".to_owned(), parts);
    fields.insert("in_yardsticks".to_owned(), Value::Object(multiples));
}

/// What a figure is, by its name's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// So much for a second of CPU time.
    Rate,
    /// Nanoseconds of CPU time.
    Time,
    /// Seconds of CPU time in a second, under a load that is the same everywhere.
    Cores,
}

impl Kind {
    /// `None` of what isn't by CPU time: times on the clock, memory, counts.
    fn of(name: &str) -> Option<Self> {
        let name = name.strip_suffix("_range").unwrap_or(name);
        let is = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end));
        if is(&["_per_cpu_s", "_per_cpu_second", "_per_thread_s"]) {
            Some(Self::Rate)
        } else if name == "ns" || is(&["_ns", "ns_per_record"]) {
            Some(Self::Time)
        } else {
            matches!(name, "cores" | "idle_cores").then_some(Self::Cores)
        }
    }
}

/// A rate as so much a yardstick, a time as so many yardsticks, cores as so many a second; of a list
/// each.
fn multiple(name: &str, value: &Value, yardstick_ns: f64) -> Option<Value> {
    let kind = Kind::of(name)?;
    if let Some(values) = value.as_array() {
        let each = values.iter().map(|value| multiple(name, value, yardstick_ns));
        return each.collect::<Option<Vec<_>>>().map(Value::Array);
    }
    let value = value.as_f64()?;
    let multiple = match kind {
        Kind::Rate => value * yardstick_ns / 1e9,
        Kind::Time => value / yardstick_ns,
        Kind::Cores => value * 1e9 / yardstick_ns,
    };
    Some(json!(rounded(multiple, DIGITS)))
}

/// Everything once.
#[expect(clippy::disallowed_methods, reason = "the bytes are its own, and `wire` may change")]
fn pass(block: &[u8]) -> Result<Parts> {
    let kibibytes = (block.len() / 1024) as f64;
    let each = |took: Duration| took.as_nanos() as f64 / kibibytes;
    let start = ThreadTime::now();
    let packed = zstd::bulk::compress(black_box(block), ZSTD_LEVEL)?;
    let plain = zstd::bulk::decompress(&packed, block.len())?;
    let zstd = each(start.elapsed());
    ensure!(plain == block, "zstd gave other bytes back");
    let start = ThreadTime::now();
    let packed = lz4::block::compress(black_box(block), Some(CompressionMode::DEFAULT), false)?;
    let mut plain = lz4::block::decompress(&packed, i32::try_from(block.len()).ok())?;
    let lz4 = each(start.elapsed());
    ensure!(plain == block, "LZ4 gave other bytes back");
    let start = ThreadTime::now();
    black_box(cityhash_102_128(black_box(block)));
    let hash = each(start.elapsed());
    let start = ThreadTime::now();
    plain.copy_from_slice(black_box(block));
    black_box(&plain);
    let copy = each(start.elapsed());
    Ok(Parts { zstd, lz4, hash, copy })
}

/// The median of each part; `None` of none.
fn middle(parts: &[Parts]) -> Option<Parts> {
    let of = |part: fn(&Parts) -> f64| median(&parts.iter().map(part).collect::<Vec<_>>());
    Some(Parts {
        zstd: of(|parts| parts.zstd)?,
        lz4: of(|parts| parts.lz4)?,
        hash: of(|parts| parts.hash)?,
        copy: of(|parts| parts.copy)?,
    })
}

/// Lines as services log them, with numbers that differ: packed to a fifth by zstd.
/// Never change it: every figure ever written down in yardsticks would lose its meaning.
fn block() -> Vec<u8> {
    let mut block = Vec::with_capacity(BLOCK_BYTES + 256);
    // Marsaglia's xorshift64 (Journal of Statistical Software 8, 2003), with its own triple.
    let mut state: u64 = 88_172_645_463_325_252;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    while block.len() < BLOCK_BYTES {
        let (id, number) = (next(), next());
        let line = format!(
            "trace_id={id:016x} service=shop-{} route=/cart/items/{} status={} took_ms={}\n",
            number % 20,
            number % 997,
            [200, 200, 200, 404, 500][(number >> 16) as usize % 5],
            (number >> 32) % 5_000,
        );
        block.extend_from_slice(line.as_bytes());
    }
    block.truncate(BLOCK_BYTES);
    block
}

#[cfg(test)]
mod tests {
    use super::{BLOCK_BYTES, Parts, Yardstick, block, mark, middle, multiple};
    use cityhash_rs::cityhash_102_128;
    use serde_json::{Map, Value, json};

    const PARTS: Parts = Parts { zstd: 3_000.0, lz4: 1_500.0, hash: 400.0, copy: 100.0 };

    /// Scenario: the block is made anew. Guarantee: the bytes that all figures stand on.
    #[test]
    fn the_work_is_the_same_for_ever() {
        let block = block();
        assert_eq!(block.len(), BLOCK_BYTES);
        assert_eq!(format!("{:032x}", cityhash_102_128(&block)), HASH);
    }
    const HASH: &str = "4fedab8cb67d3d8a0fbbe098efb5d05c";

    /// Scenario: rates, times, pairs of them, memory, and words. Guarantee: rates and times by CPU
    /// are given in yardsticks too, nothing else is; a line without any stays as it is.
    #[test]
    fn figures_by_cpu_time_are_given_in_yardsticks() {
        let line = json!({
            "case": "gateway-lean", "records_per_cpu_s": 3_000_000, "broker_ns": [500.0, 250.0],
            "engine_ns_per_record": 5_000.0, "rss_mib": 87.0, "wall_s": 2.0,
            "mb_per_cpu_s_range": [100.0, 200.0], "cores": 0.05,
        });
        let Value::Object(mut fields) = line else { unreachable!() };
        mark(&mut fields, &PARTS);
        assert_eq!(fields["yardstick_ns"], json!(5_000.0));
        let multiples = json!({
            "records_per_cpu_s": 15.0, "broker_ns": [0.1, 0.05], "engine_ns_per_record": 1.0,
            "mb_per_cpu_s_range": [0.0005, 0.001], "cores": 10_000.0,
        });
        assert_eq!(fields["in_yardsticks"], multiples);
        assert_eq!(multiple("records_per_cpu_s", &Value::Null, 5_000.0), None);
        let mut ratio: Map<String, Value> = Map::new();
        ratio.insert("ratio".to_owned(), json!(12.8));
        mark(&mut ratio, &PARTS);
        assert_eq!(ratio.len(), 1);
    }

    /// Scenario: two measurements, two lines, then a third measurement. Guarantee: both lines have
    /// the median of the first two; what comes later knows nothing of them.
    #[test]
    fn lines_have_what_was_measured_since_the_last_ones() {
        let mut stick = Yardstick::new();
        let line = r#"{"ns":1}"#;
        assert_eq!(stick.line(line).unwrap(), line, "nothing was measured yet");
        stick.measure().unwrap();
        stick.measure().unwrap();
        let two = middle(&stick.seen).unwrap();
        let told = stick.line(line).unwrap();
        assert_eq!((stick.seen.len(), told == line), (2, false));
        assert_eq!(told, stick.line(line).unwrap());
        stick.measure().unwrap();
        assert_eq!(stick.seen.len(), 1);
        assert!(two.sum() > 0.0);
    }
}
