//! What each stage of building an insert costs: nanoseconds of CPU time per record, one thread.
//!
//! `cargo run --release -p millrace-columns --example columns-bench -- [--json] [--seconds N]
//! [--rounds N] [--write FILE] [case] [variant] [stage]`
//!
//! Cases: `lean` (spans of about 120 B), `rich` (6 resource and 15 span attributes), `mixed`
//! (10 to 14 span attributes, four kinds of spans in no order, values as instrumentation has them),
//! `logs` (280 B), `metrics` (all five kinds). Variants: `json`, `map`. Stages:
//! - `check`: the edge's walk, every byte looked at;
//! - `outline`: what a part of a checked request comes to, for the edge that cuts one;
//! - `written`: what a message is written as, before a gateway takes it;
//! - `walk`: the views alone, every field and attribute read, nothing kept;
//! - `joined`, `weighed`: `append` of messages of eight requests, as an edge joins them; the same
//!   after `written` of each, as a gateway does;
//! - `append`: walk and append to the builders, as a gateway does;
//! - `attributes`: what of `append` is attributes: its time less that of the same records without;
//! - `assemble`: a block written out uncompressed;
//! - `lz4`: compressing those bytes; `checksum`: summing the compressed ones;
//! - `take`: assemble, compress and sum at once, as a gateway does;
//! - `total`: append and take.
//!
//! A figure is the best of all rounds, so that a busy machine disturbs little. With `--rounds` a
//! stage runs exactly that often, which is what to count instructions with (callgrind). Each line
//! of `--json` is an object; sizes are lines of their own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod data;
mod mixed;
mod walk;

use std::hint::black_box;
use std::time::{Duration, Instant};

use cpu_time::ThreadTime;
use data::Case;
use lz4::block::CompressionMode;
use millrace_columns::{ACCELERATION, BlockSet, Compression, FRAME_BYTES, Options, checksum};
use millrace_schema::Attributes;
use millrace_wire::limits::Limits;
use millrace_wire::otlp;

/// What to run and how often.
struct Arguments {
    json: bool,
    seconds: f64,
    rounds: Option<u32>,
    /// Where to leave the plain blocks, to try other compressors on.
    write: Option<String>,
    /// Case, variant, stage: those given.
    wanted: Vec<String>,
}

impl Arguments {
    fn parse() -> Self {
        let mut arguments =
            Self { json: false, seconds: 2.0, rounds: None, write: None, wanted: Vec::new() };
        let mut rest = std::env::args().skip(1);
        while let Some(argument) = rest.next() {
            match argument.as_str() {
                "--json" => arguments.json = true,
                "--seconds" => arguments.seconds = rest.next().unwrap().parse().unwrap(),
                "--rounds" => arguments.rounds = Some(rest.next().unwrap().parse().unwrap()),
                "--write" => arguments.write = rest.next(),
                _ => arguments.wanted.push(argument),
            }
        }
        arguments
    }

    fn wants(&self, names: [&str; 3]) -> bool {
        self.wanted.iter().zip(names).all(|(wanted, name)| wanted == name)
    }
}

fn main() {
    let arguments = Arguments::parse();
    for case in data::cases() {
        Run { case: &case, arguments: &arguments }.all();
    }
}

/// One case under measurement.
struct Run<'a> {
    case: &'a Case,
    arguments: &'a Arguments,
}

impl Run<'_> {
    fn all(&self) {
        let Case { name, signal, requests, records, .. } = self.case;
        let bytes: usize = requests.iter().map(Vec::len).sum();
        if self.arguments.wants([name, "any", "wire_bytes"]) {
            self.report("any", "wire_bytes", bytes as f64 / *records as f64);
        }
        let limits = Limits::default();
        self.stage("any", "check", || {
            for request in requests {
                black_box(otlp::check(*signal, request, &limits).unwrap());
            }
        });
        self.stage("any", "outline", || {
            for request in requests {
                black_box(otlp::outline(*signal, request, &limits).unwrap());
            }
        });
        self.stage("any", "written", || {
            for request in requests {
                black_box(otlp::written_bytes(*signal, request).unwrap());
            }
        });
        self.stage("any", "walk", || {
            for request in requests {
                black_box(walk::all(*signal, request).unwrap());
            }
        });
        self.variant("json", Attributes::Json);
        self.variant("map", Attributes::Map);
    }

    fn variant(&self, variant: &str, attributes: Attributes) {
        let options = Options { attributes, ..Options::default() };
        let mut set = BlockSet::new(self.case.signal, &options);
        let mut append = |requests: &[Vec<u8>]| {
            set.clear();
            for request in requests {
                black_box(set.append(request).unwrap());
            }
        };
        let joined: Vec<Vec<u8>> = self.case.requests.chunks(8).map(|few| few.concat()).collect();
        self.stage(variant, "joined", || append(&joined));
        let signal = self.case.signal;
        let mut weighed = BlockSet::new(signal, &options);
        self.stage(variant, "weighed", || {
            weighed.clear();
            for message in &joined {
                black_box(otlp::written_bytes(signal, message).unwrap());
                black_box(weighed.append(message).unwrap());
            }
        });
        let full = self.stage(variant, "append", || append(&self.case.requests));
        if let Some(full) = full
            && let Some(bare) = self.measure(variant, "attributes", || append(&self.case.bare))
        {
            self.report(variant, "attributes", full - bare);
        }
        self.take(variant, &options, full);
    }

    fn take(&self, variant: &str, options: &Options, append: Option<f64>) {
        const STAGES: [&str; 8] = [
            "assemble",
            "take",
            "lz4",
            "checksum",
            "total",
            "plain_bytes",
            "body_bytes",
            "held_mib",
        ];
        if !STAGES.iter().any(|stage| self.arguments.wants([self.case.name, variant, stage])) {
            return;
        }
        let fill = |set: &mut BlockSet| {
            for request in &self.case.requests {
                set.append(request).unwrap();
            }
        };
        let mut set = BlockSet::new(self.case.signal, options);
        fill(&mut set);
        let plain: Vec<u8> = set
            .take(Compression::None)
            .into_iter()
            .flat_map(|insert| insert.body.concat())
            .collect();
        fill(&mut set);
        let framed: Vec<u8> = set
            .take(Compression::Lz4)
            .into_iter()
            .flat_map(|insert| insert.body.concat())
            .collect();
        if let Some(file) = &self.arguments.write {
            std::fs::write(file, &plain).unwrap();
        }
        let records = self.case.records as f64;
        for (figure, bytes) in [
            ("plain_bytes", plain.len() as f64 / records),
            ("body_bytes", framed.len() as f64 / records),
            ("held_mib", set.memory_bytes() as f64 / f64::from(1 << 20)),
        ] {
            if self.arguments.wants([self.case.name, variant, figure]) {
                self.report(variant, figure, bytes);
            }
        }
        let mut taken = |stage, compression| {
            self.filled(variant, stage, &mut set, fill, |set| {
                black_box(set.take(compression));
            })
        };
        taken("assemble", Compression::None);
        let take = taken("take", Compression::Lz4);
        let mut out = vec![0; 2 * FRAME_BYTES];
        self.stage(variant, "lz4", || {
            for chunk in plain.chunks(FRAME_BYTES) {
                let mode = Some(CompressionMode::FAST(ACCELERATION));
                black_box(lz4::block::compress_to_buffer(chunk, mode, false, &mut out).unwrap());
            }
        });
        self.stage(variant, "checksum", || {
            for chunk in framed.chunks(FRAME_BYTES / 4) {
                black_box(checksum(chunk));
            }
        });
        if let (Some(append), Some(take)) = (append, take) {
            self.report(variant, "total", append + take);
        }
    }

    /// Measures and reports a stage, if it is wanted.
    fn stage(&self, variant: &str, stage: &str, work: impl FnMut()) -> Option<f64> {
        let figure = self.measure(variant, stage, work)?;
        self.report(variant, stage, figure);
        Some(figure)
    }

    fn measure(&self, variant: &str, stage: &str, mut work: impl FnMut()) -> Option<f64> {
        self.rounds(variant, stage, || {
            let start = ThreadTime::now();
            work();
            start.elapsed()
        })
    }

    /// A stage that needs a filled set each round; filling isn't measured.
    fn filled(
        &self,
        variant: &str,
        stage: &str,
        set: &mut BlockSet,
        fill: impl Fn(&mut BlockSet),
        mut work: impl FnMut(&mut BlockSet),
    ) -> Option<f64> {
        let figure = self.rounds(variant, stage, || {
            set.clear();
            fill(set);
            let start = ThreadTime::now();
            work(set);
            start.elapsed()
        })?;
        self.report(variant, stage, figure);
        Some(figure)
    }

    /// The shortest of all rounds, in nanoseconds per record.
    fn rounds(
        &self,
        variant: &str,
        stage: &str,
        mut round: impl FnMut() -> Duration,
    ) -> Option<f64> {
        if !self.arguments.wants([self.case.name, variant, stage]) {
            return None;
        }
        let end = Instant::now() + Duration::from_secs_f64(self.arguments.seconds);
        let mut best = Duration::MAX;
        let mut done = 0;
        while self.arguments.rounds.map_or(Instant::now() < end, |rounds| done < rounds) {
            best = best.min(round());
            done += 1;
        }
        Some(best.as_nanos() as f64 / self.case.records as f64)
    }

    fn report(&self, variant: &str, figure: &str, value: f64) {
        let Case { name, records, .. } = self.case;
        if self.arguments.json {
            let version = env!("CARGO_PKG_VERSION");
            let unit = match figure {
                "wire_bytes" | "plain_bytes" | "body_bytes" => "bytes_per_record",
                "held_mib" => "mib",
                _ => "ns_per_record",
            };
            println!(
                "{{\"case\":\"{name}\",\"variant\":\"{variant}\",\"stage\":\"{figure}\",\
                 \"{unit}\":{value:.2},\"records\":{records},\"version\":\"{version}\"}}"
            );
        } else {
            println!("{name:8} {variant:5} {figure:12} {value:10.2}");
        }
    }
}
