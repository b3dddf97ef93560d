//! What it takes to make OTLP of a log file's bytes, on one thread, without reading the file:
//! megabytes of the file and records per second of CPU time.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use cpu_time::ThreadTime;
use millrace_lines::{
    Container, FileAttributes, LineReader, LogsRequest, MultilineRule, ParseRules, RecordRules,
    Roles, TextEncoding, TimestampFormat,
};
use serde_json::json;

use crate::case::Size;

/// Longer than any cache, so that lines come from memory.
const FILE_BYTES: usize = 128 * 1024 * 1024;
/// What a file is read by, and where a request is full.
const READ_BYTES: usize = 256 * 1024;
const REQUEST_BYTES: usize = 1024 * 1024;
const RECORD_BYTES: usize = 256 * 1024;
/// When lines are observed.
const NOW: u64 = 1_764_000_000_000_000_000;

/// Makes a file's record by its number.
type Make = fn(usize) -> String;
/// A name, the container's format, records of several lines, what a text becomes, and the lines.
type Case = (&'static str, Container, Option<MultilineRule>, Option<ParseRules>, Make);

/// Files, and how they are read: one line of JSON for each, of the best round.
pub(crate) fn run(size: Size) -> Result<Vec<String>> {
    let rounds = match size {
        Size::Full => 15,
        Size::Quick => 5,
    };
    let dated = MultilineRule::from_pattern(r"^\d{4}-\d{2}-\d{2}")?;
    let groups = r"^(?P<time>\S+) (?P<level>[A-Z]+) (?P<message>.*)$";
    let groups = Some(ParseRules::regex(groups, roles())?);
    let (json, logfmt) = (Some(ParseRules::json(roles())), Some(ParseRules::logfmt(roles())));
    let indented = Some(MultilineRule::Indented);
    let files: [Case; 9] = [
        ("plain-512", Container::None, None, None, plain),
        ("cri-216", Container::Detect, None, None, cri),
        ("docker-216", Container::Detect, None, None, docker),
        ("java-pattern", Container::None, Some(dated), None, trace),
        ("java-indented", Container::None, indented, None, trace),
        ("plain-512-regex", Container::None, None, groups, plain),
        ("cri-216-json", Container::Detect, None, json.clone(), cri),
        ("json-216", Container::None, None, json, object),
        ("logfmt-216", Container::None, None, logfmt, pairs),
    ];
    let mut lines = Vec::new();
    for (name, container, multiline, parse, make) in files {
        let file = made(make);
        let (encoding, max_record_bytes) = (TextEncoding::Utf8, RECORD_BYTES);
        let form = Arc::new(RecordRules {
            container,
            encoding,
            multiline,
            parse,
            max_record_bytes,
            timeout_nanos: u64::MAX,
        });
        let mut best = Duration::MAX;
        let mut records = 0;
        for _ in 0..rounds {
            let start = ThreadTime::now();
            records = read(&form, &file)?;
            best = best.min(start.elapsed());
        }
        let per_second = |count: f64| (count / best.as_secs_f64()).round();
        let line = json!({
            "case": "lines",
            "file": name,
            "records": records,
            "mb_per_cpu_second": per_second(file.len() as f64 / 1e6),
            "records_per_cpu_second": per_second(records as f64),
        });
        lines.push(line.to_string());
    }
    Ok(lines)
}

/// The settings' own, and a time.
fn roles() -> Roles {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Roles {
        body: names(&["message", "msg"]),
        timestamp: names(&["time"]),
        time_format: TimestampFormat::Rfc3339,
        severity: names(&["level", "severity", "lvl"]),
    }
}

fn made(make: Make) -> Vec<u8> {
    let mut file = Vec::with_capacity(FILE_BYTES + 4096);
    for number in 0.. {
        if file.len() >= FILE_BYTES {
            break;
        }
        file.extend_from_slice(make(number).as_bytes());
    }
    file
}

/// Reads a file as a caller with a buffer does. The number of its records.
fn read(form: &Arc<RecordRules>, file: &[u8]) -> Result<u64> {
    let source = FileAttributes::new(
        &[("k8s.namespace.name", "shop"), ("k8s.pod.name", "shop-5c7d9b6f4-x2x7q")],
        &[("log.file.path", "/var/log/pods/shop/shop/0.log")],
    );
    let mut reader = LineReader::new(Arc::clone(form), 0);
    let mut request = LogsRequest::with_limit(REQUEST_BYTES);
    let mut at = 0;
    let mut records = 0;
    while at < file.len() {
        let end = (at + READ_BYTES).min(file.len());
        let taken = reader.read_bytes(&file[at..end], NOW, &mut request.begin_records(&source));
        at += taken;
        if request.is_full() {
            records += request.record_count();
            request.clear();
        } else if taken == 0 {
            bail!("nothing was taken at byte {at}");
        }
    }
    let faults: u64 = reader.take_counts().parse_faults.iter().sum();
    if faults > 0 {
        bail!("{faults} records weren't parsed");
    }
    Ok(records + request.record_count())
}

/// Letters, different in each line.
fn letters(number: usize, length: usize) -> String {
    (0..length).map(|place| char::from(b'a' + ((place + number) % 26) as u8)).collect()
}

/// A line of `length` bytes with its end.
fn filled(head: &str, number: usize, tail: &str, length: usize) -> String {
    let rest = length.saturating_sub(head.len() + tail.len());
    format!("{head}{}{tail}", letters(number, rest))
}

fn plain(number: usize) -> String {
    let head = format!("2026-11-25T04:00:{:02}Z INFO request {number} ", number % 60);
    filled(&head, number, "\n", 512)
}

fn cri(number: usize) -> String {
    let time = format!("2026-11-25T04:00:{:02}.{:09}Z", number % 60, number);
    let head = format!("{time} stdout F {{\"level\":\"info\",\"seq\":{number},\"msg\":\"");
    filled(&head, number, "\"}\n", 216)
}

fn docker(number: usize) -> String {
    let time = format!("2026-11-25T04:00:{:02}.{:09}Z", number % 60, number);
    let tail = format!("\\n\",\"stream\":\"stdout\",\"time\":\"{time}\"}}\n");
    filled(&format!("{{\"log\":\"request {number} "), number, &tail, 216)
}

/// Seven fields: three with a place of their own, a number of each kind, two texts.
fn object(number: usize) -> String {
    let time = format!("2026-11-25T04:00:{:02}.{:09}Z", number % 60, number);
    let head = format!(
        "{{\"time\":\"{time}\",\"level\":\"info\",\"seq\":{number},\"path\":\"/cart/items\",\
         \"took\":0.25,\"user\":\"u{number}\",\"msg\":\""
    );
    filled(&head, number, "\"}\n", 216)
}

/// The same.
fn pairs(number: usize) -> String {
    let time = format!("2026-11-25T04:00:{:02}.{:09}Z", number % 60, number);
    let head = format!(
        "time={time} level=info seq={number} path=/cart/items took=0.25 user=u{number} msg=\""
    );
    filled(&head, number, "\"\n", 216)
}

/// An error of Java's: 22 lines.
fn trace(number: usize) -> String {
    let mut lines = format!(
        "2026-11-25 04:00:{:02},123 ERROR [main] com.example.Shop - request {number} failed\n\
         java.lang.IllegalStateException: no stock for item {number}\n",
        number % 60
    );
    for frame in 0..20 {
        let name = format!("com.example.shop.inventory.Warehouse.reserve{frame}");
        lines += &format!("\tat {name}(Warehouse.java:{})\n", 100 + frame);
    }
    lines
}
