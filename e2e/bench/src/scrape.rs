//! What it takes to make OTLP of a target's body, on one thread, without a socket: megabytes of the
//! body and samples per second of CPU time, and what each series is remembered in.

use std::fmt::Write;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use cpu_time::ThreadTime;
use millrace_scrape::{Buffers, Format, Limits, Memory, Report, Scrape, Target};
use serde_json::json;

use crate::case::Size;

/// Scrapes of a round: 64 of a body of some 150 kB are longer than a timer's ticks.
const SCRAPES: u64 = 64;
/// What comes from a socket at once.
const PIECE_BYTES: usize = 16 * 1024;
/// When the first one is.
const NOW: u64 = 1_764_000_000_000_000_000;
const INTERVAL: u64 = 15_000_000_000;
const LIMITS: Limits = Limits { body_bytes: 1 << 30, samples: 1 << 30, labels: 64 };

/// Makes a body by the number of its scrape.
type Make = fn(u64) -> String;

/// Bodies: one line of JSON for each, of the best round.
pub(crate) fn run(size: Size) -> Result<Vec<String>> {
    let rounds = match size {
        Size::Full => 15,
        Size::Quick => 5,
    };
    let bodies: [(&str, Format, Make); 3] = [
        ("node-exporter", Format::Prometheus, node_exporter),
        ("histograms", Format::Prometheus, histograms),
        ("counters-openmetrics", Format::OpenMetrics, counters),
    ];
    let mut lines = Vec::new();
    for (name, format, make) in bodies {
        let turns: Vec<String> = (0..SCRAPES).map(make).collect();
        let bytes: usize = turns.iter().map(String::len).sum();
        let mut best = Duration::MAX;
        let (mut samples, mut memory) = (0, Memory::default());
        for _ in 0..rounds {
            let start = ThreadTime::now();
            (samples, memory) = read(format, &turns)?;
            best = best.min(start.elapsed());
        }
        let per_second = |count: f64| (count / best.as_secs_f64()).round();
        let line = json!({
            "case": "scrape",
            "body": name,
            "samples": samples / SCRAPES,
            "bytes": bytes / turns.len(),
            "mib_per_cpu_second": per_second(bytes as f64 / (1 << 20) as f64),
            "samples_per_cpu_second": per_second(samples as f64),
            "remembered_bytes_per_series": memory.bytes() / memory.series().max(1) as u64,
        });
        lines.push(line.to_string());
    }
    Ok(lines)
}

/// Scrapes bodies of one target in turn, as a receiver does. The number of samples.
fn read(format: Format, turns: &[String]) -> Result<(u64, Memory)> {
    let labels = vec![("env".to_owned(), "production".to_owned())];
    let target = Target::new("node", ("http", "10.0.0.1", 9100), labels, false, true);
    let mut memory = Memory::default();
    let (mut samples, mut buffers) = (0, Box::<Buffers>::default());
    for (turn, body) in turns.iter().enumerate() {
        let time = NOW + turn as u64 * INTERVAL;
        let mut scrape = Scrape::new(&target, &mut memory, LIMITS, time, buffers);
        scrape.set_format(format);
        let mut written = 0;
        for piece in body.as_bytes().chunks(PIECE_BYTES) {
            let mut at = 0;
            while at < piece.len() {
                at += scrape.feed(&piece[at..])?;
                if scrape.is_full() {
                    written += take(&mut scrape)?;
                }
            }
        }
        scrape.end()?;
        while !scrape.settle(&Report { duration_seconds: 0.01 }) {
            written += take(&mut scrape)?;
        }
        written += take(&mut scrape)?;
        let counts = scrape.counts();
        if counts.dropped > 0 || written == 0 {
            bail!("{} samples were dropped", counts.dropped);
        }
        samples += counts.samples;
        buffers = scrape.remember();
    }
    Ok((samples, memory))
}

/// Takes what was written as if it was sent. How many points it has.
fn take(scrape: &mut Scrape<'_>) -> Result<u64> {
    let request = scrape.take().context("no request")?;
    let points = request.points;
    scrape.give_back(request);
    Ok(points)
}

fn head(body: &mut String, name: &str, help: &str, kind: &str) {
    let _ = write!(body, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
}

/// A node exporter's on a machine of 32 processors: the families that make most of its body, with
/// their names, labels and forms of values.
fn node_exporter(turn: u64) -> String {
    let mut body = String::new();
    put_processors(&mut body, turn);
    put_disks(&mut body, turn);
    put_networks(&mut body, turn);
    for family in 0..300 {
        let name = format!("node_memory_Figure{family}_bytes");
        head(&mut body, &name, "Memory information field, as the kernel has it.", "gauge");
        let _ = writeln!(body, "{name} {:e}", 1.234_567e9 + (family * turn) as f64);
    }
    let name = "go_gc_duration_seconds";
    head(
        &mut body,
        name,
        "A summary of the pause duration of garbage collection cycles.",
        "summary",
    );
    for quantile in ["0", "0.25", "0.5", "0.75", "1"] {
        let _ = writeln!(body, "{name}{{quantile=\"{quantile}\"}} 2.6785e-05");
    }
    let _ = write!(body, "{name}_sum 3.214\n{name}_count {}\n", 100 + turn);
    body
}

fn put_processors(body: &mut String, turn: u64) {
    let name = "node_cpu_seconds_total";
    head(body, name, "Seconds the CPUs spent in each mode.", "counter");
    for cpu in 0..32 {
        for (place, mode) in ["idle", "iowait", "irq", "nice", "softirq", "steal", "system", "user"]
            .iter()
            .enumerate()
        {
            let value = 1000.25 * (place + 1) as f64 + f64::from(cpu) + turn as f64 * 1.37;
            let _ = writeln!(body, "{name}{{cpu=\"{cpu}\",mode=\"{mode}\"}} {value:.2}");
        }
    }
}

fn put_disks(body: &mut String, turn: u64) {
    for family in [
        "reads_completed_total",
        "read_bytes_total",
        "writes_completed_total",
        "written_bytes_total",
        "io_time_seconds_total",
        "io_now",
        "read_time_seconds_total",
        "discards_completed_total",
        "flush_requests_total",
        "reads_merged_total",
    ] {
        let name = format!("node_disk_{family}");
        head(body, &name, "The total number of what the device did successfully.", "counter");
        for device in ["nvme0n1", "nvme1n1", "dm-0", "dm-1", "sda", "sdb"] {
            let value = 1.764_123_4e9 + turn as f64 * 4096.0;
            let _ = writeln!(body, "{name}{{device=\"{device}\"}} {value:e}");
        }
    }
    for family in ["avail_bytes", "device_error", "files", "files_free", "free_bytes", "size_bytes"]
    {
        let name = format!("node_filesystem_{family}");
        head(body, &name, "Filesystem space or inodes, as the kernel has it.", "gauge");
        for (device, kind, mount) in [
            ("/dev/nvme0n1p1", "vfat", "/boot/efi"),
            ("/dev/mapper/vg-root", "ext4", "/"),
            ("/dev/mapper/vg-var", "ext4", "/var/lib/containers/storage"),
            ("tmpfs", "tmpfs", "/run/user/1000"),
        ] {
            let labels = format!(
                "device=\"{device}\",device_error=\"\",fstype=\"{kind}\",mountpoint=\"{mount}\""
            );
            let _ = writeln!(body, "{name}{{{labels}}} {:e}", 8.123_456e10 - turn as f64 * 512.0);
        }
    }
}

fn put_networks(body: &mut String, turn: u64) {
    for family in [
        "receive_bytes_total",
        "receive_packets_total",
        "receive_errs_total",
        "receive_drop_total",
        "transmit_bytes_total",
        "transmit_packets_total",
        "transmit_errs_total",
        "mtu_bytes",
        "carrier_changes_total",
        "transmit_queue_length",
    ] {
        let name = format!("node_network_{family}");
        head(body, &name, "Network device statistic, as the kernel has it.", "counter");
        for device in 0..24 {
            let value = 4_294_967 * (device + 1) + turn * 1500;
            let _ = writeln!(body, "{name}{{device=\"veth{device:08x}\"}} {value}");
        }
    }
}

/// An API server's: histograms of twelve buckets, 500 sets of labels.
fn histograms(turn: u64) -> String {
    let mut body = String::new();
    let name = "apiserver_request_duration_seconds";
    head(&mut body, name, "Response latency distribution for each verb and resource.", "histogram");
    for number in 0..500 {
        let labels = format!("group=\"apps\",resource=\"r{number}\",verb=\"LIST\",version=\"v1\"");
        for (place, bound) in
            ["0.005", "0.025", "0.05", "0.1", "0.2", "0.4", "0.6", "1", "2", "5", "10", "+Inf"]
                .iter()
                .enumerate()
        {
            let count = 100 * (place as u64 + 1) + turn;
            let _ = writeln!(body, "{name}_bucket{{{labels},le=\"{bound}\"}} {count}");
        }
        let sum = 12.345_678_9 + turn as f64;
        let _ = write!(
            body,
            "{name}_sum{{{labels}}} {sum}\n{name}_count{{{labels}}} {}\n",
            1200 + turn
        );
    }
    body
}

/// Counters with times of creation.
fn counters(turn: u64) -> String {
    let mut body = String::new();
    let _ = write!(body, "# HELP http_requests Requests by path.\n# TYPE http_requests counter\n");
    for number in 0..2000 {
        let labels = format!("code=\"200\",handler=\"/api/v1/items/{number}\",method=\"get\"");
        let _ = writeln!(body, "http_requests_total{{{labels}}} {}.0", number + turn);
        let _ = writeln!(body, "http_requests_created{{{labels}}} 1763999000.123");
    }
    body.push_str("# EOF\n");
    body
}
