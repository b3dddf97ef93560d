//! Measures how fast texts are redacted: bodies of 300 bytes, made of ordinary log lines, of which
//! one in a hundred has a secret, with all ready sets on, on one thread.
//!
//! `cargo run --release -p millrace-processing --example redact`
#![allow(clippy::print_stdout, clippy::expect_used)]

use std::hint::black_box;
use std::time::Duration;

use cpu_time::ThreadTime;
use millrace_processing::redact::{ReadySet, RedactConfig, RedactScratch, Redactor};

const BODY_BYTES: usize = 300;
const BODIES: usize = 10_000;
const ROUND_TIME: Duration = Duration::from_millis(400);
const ROUNDS: usize = 5;

const SECRETS: [&str; 8] = [
    " user=anna@example.com ",
    " from 192.0.2.17 ",
    " card 4111 1111 1111 1111 ",
    " iban GB82 WEST 1234 5698 7654 32 ",
    " Authorization: Bearer abcdef0123456789abcdef ",
    " peer [2001:db8::17]:80 ",
    " Authorization: Basic dXNlcjpwYXNzd29yZA== ",
    " bob@example.org logged in from 198.51.100.7 ",
];

fn bodies(one_in: usize) -> Vec<Vec<u8>> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/redact/corpus/ordinary.txt");
    let file = std::fs::read_to_string(path).expect("the corpus");
    let lines: Vec<&str> = file.lines().filter_map(|line| line.strip_prefix("- ")).collect();
    let body = |index: usize| {
        let mut body = Vec::with_capacity(2 * BODY_BYTES);
        let mut line = index * 7;
        while body.len() < BODY_BYTES {
            body.extend_from_slice(lines[line % lines.len()].as_bytes());
            body.push(b' ');
            line += 13;
        }
        body.truncate(BODY_BYTES);
        if one_in > 0 && index.is_multiple_of(one_in) {
            let secret = SECRETS[index / one_in % SECRETS.len()].as_bytes();
            body[100..100 + secret.len()].copy_from_slice(secret);
        }
        body
    };
    (0..BODIES).map(body).collect()
}

/// The best of some rounds: processor time in nanoseconds for each text, and hits of all texts.
fn measure(config: &RedactConfig, bodies: &[Vec<u8>]) -> (f64, usize) {
    let redactor = Redactor::compile(config, None).expect("usable settings");
    let (mut scratch, mut out) = (RedactScratch::default(), Vec::new());
    let (mut best, mut hits) = (f64::INFINITY, 0);
    for _ in 0..ROUNDS {
        let (start, mut texts) = (ThreadTime::now(), 0_u32);
        while start.elapsed() < ROUND_TIME {
            hits = 0;
            for body in bodies {
                out.clear();
                black_box(redactor.redact(black_box(body), &mut scratch, &mut out));
                hits += scratch.hits().len();
            }
            texts += bodies.len() as u32;
        }
        best = best.min(start.elapsed().as_secs_f64() * 1e9 / f64::from(texts));
    }
    (best, hits)
}

fn main() {
    let all = RedactConfig::default();
    let show = |name: &str, config: &RedactConfig, bodies: &[Vec<u8>]| {
        let (nanos, hits) = measure(config, bodies);
        let records = 1e3 / nanos;
        println!("{name:<28} {nanos:7.1} ns  {records:6.2} M texts/s  {hits} hits");
    };
    let usual = bodies(100);
    show("all sets, 1 % with hits", &all, &usual);
    if std::env::args().nth(1).is_some() {
        return;
    }
    show("all sets, no hits", &all, &bodies(0));
    show("all sets, all with hits", &all, &bodies(1));
    let short: Vec<Vec<u8>> = usual.iter().map(|body| body[..16].to_vec()).collect();
    show("all sets, 16 bytes", &all, &short);
    for set in ReadySet::ALL {
        let config = RedactConfig { sets: Some(vec![set]), ..RedactConfig::default() };
        show(set.name(), &config, &usual);
    }
    for pattern in ["password=\\\\S+", "[a-z]+-secret-[0-9]+"] {
        let text =
            format!(r#"{{"sets": [], "patterns": [{{"name": "p", "pattern": "{pattern}"}}]}}"#);
        let config: RedactConfig = serde_json::from_str(&text).expect("settings");
        show(pattern, &config, &usual);
    }
}
