//! Measures each stage of building an insert: nanoseconds of CPU time per record, one thread.
//!
//! `cargo run --release -p millrace-columns --example columns-bench -- [--json] [--seconds N]
//! [--rounds N] [--write FILE] [case] [variant] [stage]`
//!
//! Cases: `lean` (spans of about 120 B), `rich` (6 resource and 15 span attributes), `mixed` (10 to
//! 14 span attributes, four kinds of spans in no order, values as instrumentation has them), `logs`
//! (280 B), `metrics` (all five kinds, two attributes), `series` (the same, eight attributes in no
//! order). Variants: `json`, `map`. Stages:
//! - `check`: the edge's walk over every byte;
//! - `outline`: the sizes of a part of a checked request, for an edge that cuts one;
//! - `written`: a message's written size, before a gateway accepts it;
//! - `walk`: the views alone; they read every field and attribute and store nothing;
//! - `joined`, `weighed`: `append` of messages of eight requests, as an edge joins them; the same
//!   after `written` of each, as a gateway does;
//! - `append`: walk and append to the builders, as a gateway does;
//! - `attributes`: the attributes' part of `append`: its time less that of the same records
//!   without;
//! - `assemble`: writing a block uncompressed;
//! - `lz4`: compressing those bytes; `checksum`: summing the compressed ones;
//! - `take`: assemble, compress and sum at once, as a gateway does;
//! - `total`: append and take.
//!
//! A figure is the best of all rounds, so that a busy machine disturbs little. With `--rounds` a
//! stage runs exactly that often, for counting instructions (callgrind). Each line of `--json` is
//! an object; sizes have their own lines.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod attribute;
mod data;
mod mixed;
mod walk;

use std::hint::black_box;
use std::time::{Duration, Instant};

use cpu_time::ThreadTime;
use data::Case;
use lz4::block::CompressionMode;
use millrace_columns::{
    ACCELERATION, BlockSet, BodyCompression, FRAME_BYTES, Options, frame_checksum,
};
use millrace_schema::AttributeStorage;
use millrace_wire::limits::WireLimits;
use millrace_wire::otlp;

/// The selected measurements and their number of rounds.
struct Arguments {
    json: bool,
    seconds: f64,
    rounds: Option<u32>,
    /// The file for the plain blocks, to try other compressors on.
    write: Option<String>,
    /// The given case, variant and stage.
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

    fn is_selected(&self, names: [&str; 3]) -> bool {
        self.wanted.iter().zip(names).all(|(wanted, name)| wanted == name)
    }
}

fn main() {
    let arguments = Arguments::parse();
    for case in data::build_cases() {
        Run { case: &case, arguments: &arguments }.run_all();
    }
}

/// One case under measurement.
struct Run<'a> {
    case: &'a Case,
    arguments: &'a Arguments,
}

impl Run<'_> {
    fn run_all(&self) {
        let Case { name, signal, requests, records, .. } = self.case;
        let bytes: usize = requests.iter().map(Vec::len).sum();
        if self.arguments.is_selected([name, "any", "wire_bytes"]) {
            self.report_figure("any", "wire_bytes", bytes as f64 / *records as f64);
        }
        let limits = WireLimits::default();
        self.run_stage("any", "check", || {
            for request in requests {
                black_box(otlp::check_request(*signal, request, &limits).unwrap());
            }
        });
        self.run_stage("any", "outline", || {
            for request in requests {
                black_box(otlp::outline_request(*signal, request, &limits).unwrap());
            }
        });
        self.run_stage("any", "written", || {
            for request in requests {
                black_box(otlp::written_bytes(*signal, request).unwrap());
            }
        });
        self.run_stage("any", "walk", || {
            for request in requests {
                black_box(walk::walk_request(*signal, request).unwrap());
            }
        });
        self.run_variant("json", AttributeStorage::Json);
        self.run_variant("map", AttributeStorage::Map);
    }

    fn run_variant(&self, variant: &str, attributes: AttributeStorage) {
        let options = Options { attributes, ..Options::default() };
        let mut set = BlockSet::new(self.case.signal, &options);
        let mut append = |requests: &[Vec<u8>]| {
            set.clear();
            for request in requests {
                black_box(set.append(request).unwrap());
            }
        };
        let joined: Vec<Vec<u8>> = self.case.requests.chunks(8).map(|few| few.concat()).collect();
        self.run_stage(variant, "joined", || append(&joined));
        let signal = self.case.signal;
        let mut weighed = BlockSet::new(signal, &options);
        self.run_stage(variant, "weighed", || {
            weighed.clear();
            for message in &joined {
                black_box(otlp::written_bytes(signal, message).unwrap());
                black_box(weighed.append(message).unwrap());
            }
        });
        let full = self.run_stage(variant, "append", || append(&self.case.requests));
        if let Some(full) = full
            && let Some(bare) =
                self.measure_stage(variant, "attributes", || append(&self.case.bare))
        {
            self.report_figure(variant, "attributes", full - bare);
        }
        self.measure_inserts(variant, &options, full);
    }

    fn measure_inserts(&self, variant: &str, options: &Options, append: Option<f64>) {
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
        if !STAGES.iter().any(|stage| self.arguments.is_selected([self.case.name, variant, stage]))
        {
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
            .take_inserts(BodyCompression::None)
            .into_iter()
            .flat_map(|insert| insert.body.concat())
            .collect();
        fill(&mut set);
        let framed: Vec<u8> = set
            .take_inserts(BodyCompression::Lz4)
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
            if self.arguments.is_selected([self.case.name, variant, figure]) {
                self.report_figure(variant, figure, bytes);
            }
        }
        let mut taken = |stage, compression| {
            self.measure_filled(variant, stage, &mut set, fill, |set| {
                black_box(set.take_inserts(compression));
            })
        };
        taken("assemble", BodyCompression::None);
        let take = taken("take", BodyCompression::Lz4);
        let mut out = vec![0; 2 * FRAME_BYTES];
        self.run_stage(variant, "lz4", || {
            for chunk in plain.chunks(FRAME_BYTES) {
                let mode = Some(CompressionMode::FAST(ACCELERATION));
                black_box(lz4::block::compress_to_buffer(chunk, mode, false, &mut out).unwrap());
            }
        });
        self.run_stage(variant, "checksum", || {
            for chunk in framed.chunks(FRAME_BYTES / 4) {
                black_box(frame_checksum(chunk));
            }
        });
        if let (Some(append), Some(take)) = (append, take) {
            self.report_figure(variant, "total", append + take);
        }
    }

    /// Measures and reports a stage, if it is selected.
    fn run_stage(&self, variant: &str, stage: &str, work: impl FnMut()) -> Option<f64> {
        let figure = self.measure_stage(variant, stage, work)?;
        self.report_figure(variant, stage, figure);
        Some(figure)
    }

    fn measure_stage(&self, variant: &str, stage: &str, mut work: impl FnMut()) -> Option<f64> {
        self.run_rounds(variant, stage, || {
            let start = ThreadTime::now();
            work();
            start.elapsed()
        })
    }

    /// Measures a stage that needs a filled set each round; filling isn't measured.
    fn measure_filled(
        &self,
        variant: &str,
        stage: &str,
        set: &mut BlockSet,
        fill: impl Fn(&mut BlockSet),
        mut work: impl FnMut(&mut BlockSet),
    ) -> Option<f64> {
        let figure = self.run_rounds(variant, stage, || {
            set.clear();
            fill(set);
            let start = ThreadTime::now();
            work(set);
            start.elapsed()
        })?;
        self.report_figure(variant, stage, figure);
        Some(figure)
    }

    /// Returns the shortest of all rounds, in nanoseconds per record.
    fn run_rounds(
        &self,
        variant: &str,
        stage: &str,
        mut round: impl FnMut() -> Duration,
    ) -> Option<f64> {
        if !self.arguments.is_selected([self.case.name, variant, stage]) {
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

    fn report_figure(&self, variant: &str, figure: &str, value: f64) {
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
