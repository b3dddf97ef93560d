//! Many targets that answer in every bad way at once, beside many that answer well.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use millrace_config::{ByteSize, ScrapeJob, TargetAddress};
use millrace_source_prometheus::{HostNames, LOOKUPS_MAX, SLOW_LOOKUPS_MAX};

use crate::prometheus::gzip;
use crate::prometheus::rig::{Answer, PATIENCE, Rig, Target, job, own_loopback};

/// Of each kind of bad ones.
const OF_A_KIND: usize = 5;
const GOOD: usize = 100;
const INTERVAL: Duration = Duration::from_secs(2);
/// Of each good target: eight seconds.
const SCRAPES: usize = 5;
/// What 210 targets need at once: 96 KiB each while they are asked, 20 MiB, and what is read of
/// those that answer.
const BUDGET_BYTES: u64 = 32 << 20;
/// Threads of look-ups.
const THREADS_MAX: usize = LOOKUPS_MAX + SLOW_LOOKUPS_MAX;
/// Endless bodies end here.
const BODY_KIB: u64 = 256;

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n";

/// An answer whose head ends with `head`, and what follows.
fn said(head: &str, body: &[u8]) -> Vec<u8> {
    [OK.as_bytes(), head.as_bytes(), b"\r\n\r\n", body].concat()
}

/// Every bad way, and what it is.
fn bad() -> Vec<(&'static str, Answer)> {
    let bomb = gzip(&"a 1\n".repeat(4 << 20));
    let packed = said(&format!("content-encoding: gzip\r\ncontent-length: {}", bomb.len()), &bomb);
    let chunked = "transfer-encoding: chunked";
    let of_type = |kind: &str, body: &[u8]| {
        let length = body.len();
        let head = format!("content-type: {kind}\r\ncontent-length: {length}\r\n\r\n");
        [b"HTTP/1.1 200 OK\r\n", head.as_bytes(), body].concat()
    };
    let protobuf = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; \
                    encoding=delimited";
    let turns = vec![
        of_type("text/plain", b"a 1\n"),
        of_type("application/openmetrics-text", b"a 1\n# EOF\n"),
        of_type(protobuf, b"a 1\n"),
        of_type("text/plain", &gzip("a 1\n")),
        of_type("text/plain\r\ncontent-encoding: gzip", b"a 1\n"),
        of_type("text/html", b"<p>a 1</p>"),
        of_type(protobuf, b"\xff\xff\xff\xff\x7f"),
    ];
    vec![
        ("says nothing", Answer::Hang(Vec::new())),
        ("stops in the head", Answer::Hang(OK.into())),
        ("stops behind the head", Answer::Hang(said("content-length: 100", b""))),
        ("stops in the body", Answer::Hang(said("content-length: 100", b"a 1\nb"))),
        ("stops in a chunk", Answer::Hang(said(chunked, b"ff\r\na 1\n"))),
        ("a byte a second", Answer::Drip(Vec::new(), said("content-length: 4", b"a 1\n"))),
        (
            "a byte of the body a second",
            Answer::Drip(said("content-length: 4", b""), b"a 1\n".into()),
        ),
        ("lines without end", Answer::Endless),
        ("a line without end", Answer::Repeated(said("connection: close", b""), b"a".into())),
        ("a head without end", Answer::Repeated(OK.into(), b"x-more: x\r\n".into())),
        ("comments without end", Answer::Repeated(said("a: b", b""), b"# a\n".into())),
        ("a length too long", Answer::Bytes(said("content-length: 1000", b"a 1\n"))),
        ("a length too short", Answer::Bytes(said("content-length: 2", b"a 1\nb 1\n"))),
        (
            "the longest length",
            Answer::Hang(said(&format!("content-length: {}", u64::MAX - 1), b"a 1\n")),
        ),
        ("a length below zero", Answer::Bytes(said("content-length: -1", b"a 1\n"))),
        ("two lengths", Answer::Bytes(said("content-length: 4\r\ncontent-length: 8", b"a 1\n"))),
        ("the longest chunk", Answer::Hang(said(chunked, b"fffffffffffffff\r\na 1\n"))),
        ("a chunk of no number", Answer::Bytes(said(chunked, b"zz\r\na 1\n"))),
        ("a compressed body of 16 MiB", Answer::Bytes(packed)),
        ("another format each time", Answer::Turns(turns)),
    ]
}

/// Scenario: 100 targets that answer well, half of them by name, beside five of each bad kind: that
/// hang, send a byte a second, send without end, lie about length, switch formats; and beside names
/// that don't resolve and ports that refuse. Guarantee: no scrape of a good one fails, and none
/// comes over an interval late; every bad one is down at each of its scrapes; the budget is never
/// passed, and all of it is given back. Slow: each target is scraped five times, every 2 s.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_targets_of_every_kind_make_no_good_one_late() {
    let mut good = Vec::new();
    for number in 0..GOOD {
        // Every second one is scraped by the name localhost.
        let address = if number % 2 == 0 { own_loopback() } else { Ipv4Addr::LOCALHOST.into() };
        let answer = Answer::text(&format!("number {number}\n"));
        good.push(Target::at(address, answer).await);
    }
    let (mut beside, mut addresses) = (Vec::new(), Vec::new());
    for (kind, answer) in bad() {
        for _ in 0..OF_A_KIND {
            let target = Target::new(answer.clone()).await;
            addresses.push(target.name());
            beside.push((kind, target));
        }
    }
    for number in 0..OF_A_KIND {
        addresses.push(format!("no-such-name-{number}.invalid:80"));
        let closed = Target::new(Answer::Endless).await;
        closed.close();
        addresses.push(closed.name());
    }
    let named = |(number, target): (usize, &Target)| match number % 2 {
        0 => target.name(),
        _ => format!("localhost:{}", target.address.port()),
    };
    let names: Vec<String> = good.iter().enumerate().map(named).collect();
    let address = |name: &String| TargetAddress::new(name.clone()).unwrap();
    let mut scraped = ScrapeJob {
        targets: names.iter().chain(&addresses).map(address).collect(),
        interval_seconds: 2,
        ..job("chaos", &[])
    };
    scraped.limits.body_bytes = ByteSize::kib(BODY_KIB);
    let rig = Rig::start(vec![scraped], BUDGET_BYTES);
    let (mut peak_bytes, deadline) = (0, Instant::now() + PATIENCE);
    while good.iter().any(|target| target.scrapes().began.len() < SCRAPES) {
        peak_bytes = peak_bytes.max(rig.budget.used_bytes());
        assert!(Instant::now() < deadline, "some targets are not asked");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let late = latest(&good, INTERVAL);
    println!("the latest scrape is {late:?} late; the budget's peak is {peak_bytes} bytes");
    assert!(late < INTERVAL, "a good target was asked {late:?} late");
    assert!(peak_bytes <= BUDGET_BYTES);
    let came = rig.came();
    for (kind, target) in &beside {
        let name = target.name();
        let ups = came.iter().filter(|point| point.name == "up" && point.instance == name);
        let ups: Vec<f64> = ups.map(|point| point.value).collect();
        let is_sometimes_well = matches!(*kind, "another format each time" | "a length too short");
        assert!(ups.len() >= SCRAPES - 2, "{kind}: {ups:?}");
        assert!(is_sometimes_well || ups.iter().all(|up| *up == 0.0), "{kind}: {ups:?}");
    }
    for name in &names {
        let ups = came.iter().filter(|point| point.name == "up" && point.instance == *name);
        let ups: Vec<f64> = ups.map(|point| point.value).collect();
        assert!(ups.len() >= SCRAPES - 1 && ups.iter().all(|up| *up == 1.0), "{name}: {ups:?}");
    }
    rig.stop().await;
}

/// How much later than its interval the latest of all scrapes came, or would come.
pub(crate) fn latest<'a>(
    targets: impl IntoIterator<Item = &'a Target>,
    interval: Duration,
) -> Duration {
    let ends = Instant::now();
    let late = targets.into_iter().map(|target| {
        let began = target.scrapes().began;
        let gaps = began.windows(2).map(|pair| pair[1] - pair[0]);
        let open = began.last().map(|last| ends.saturating_duration_since(*last));
        gaps.chain(open).max().unwrap().saturating_sub(interval)
    });
    late.max().unwrap_or_default()
}

/// A name server that knows names that begin with `good`, and says nothing of others, as soon as it
/// hangs nothing at all; as a resolver it then blocks its caller.
#[derive(Default)]
struct NameServer {
    state: Mutex<NameServerState>,
    changed: Condvar,
}

#[derive(Default)]
struct NameServerState {
    hangs: bool,
    is_over: bool,
    asked: usize,
    open: usize,
    most: usize,
}

impl NameServer {
    fn find(&self, name: &str) -> io::Result<Vec<SocketAddr>> {
        let mut state = self.state.lock().unwrap();
        state.asked += 1;
        if name.starts_with("good") && !state.hangs {
            return Ok(vec![SocketAddr::new(own_loopback(), 0)]);
        }
        state.open += 1;
        state.most = state.most.max(state.open);
        let mut state = self.changed.wait_while(state, |state| !state.is_over).unwrap();
        state.open -= 1;
        Err(io::ErrorKind::TimedOut.into())
    }

    fn set(&self, change: impl FnOnce(&mut NameServerState)) {
        change(&mut self.state.lock().unwrap());
        self.changed.notify_all();
    }
}

/// Its threads end when this is dropped.
struct Over(Arc<NameServer>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.set(|state| state.is_over = true);
    }
}

/// Scenario: 100 targets by names of their own, whose connections close after each answer, so that
/// each scrape asks for the name; beside 100 names of which the name server says nothing; then it
/// says nothing of any name. Guarantee: no scrape of the former fails, and none comes over an
/// interval late; the latter are down at each of their scrapes; look-ups take no more threads than
/// they may. Slow: each target is scraped ten times, every 2 s.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_server_that_hangs_makes_no_good_target_late() {
    let server = Arc::new(NameServer::default());
    let _over = Over(Arc::clone(&server));
    let mut good = Vec::new();
    for number in 0..GOOD {
        good.push(Target::new(Answer::text(&format!("number {number}\n"))).await);
    }
    let name = |(number, target): (usize, &Target)| {
        format!("good-{number}.test:{}", target.address.port())
    };
    let names: Vec<String> = good.iter().enumerate().map(name).collect();
    let unknown: Vec<String> = (0..GOOD).map(|number| format!("other-{number}.test:80")).collect();
    let address = |name: &String| TargetAddress::new(name.clone()).unwrap();
    let scraped = ScrapeJob {
        targets: names.iter().chain(&unknown).map(address).collect(),
        interval_seconds: 2,
        timeout_seconds: 2,
        ..job("names", &[])
    };
    let own = Arc::clone(&server);
    let hosts = HostNames::new(move |name| own.find(name));
    let rig = Rig::with_names(vec![scraped], BUDGET_BYTES, hosts);
    for scrapes in [SCRAPES, 2 * SCRAPES] {
        rig.until(|_| good.iter().all(|target| target.scrapes().began.len() >= scrapes)).await;
        let late = latest(&good, INTERVAL);
        println!("the latest scrape is {late:?} late");
        assert!(late < INTERVAL, "a target was asked {late:?} late");
        server.set(|state| state.hangs = true);
    }
    let ups = |name: &String| -> Vec<f64> {
        let came = rig.came();
        let ups = came.iter().filter(|point| point.name == "up" && point.instance == *name);
        ups.map(|point| point.value).collect()
    };
    for name in &names {
        let ups = ups(name);
        assert!(ups.len() >= SCRAPES && ups.iter().all(|up| *up == 1.0), "{name}: {ups:?}");
    }
    for name in &unknown {
        let ups = ups(name);
        assert!(ups.len() >= SCRAPES && ups.iter().all(|up| *up == 0.0), "{name}: {ups:?}");
    }
    {
        let state = server.state.lock().unwrap();
        assert!(state.asked >= GOOD * SCRAPES, "{} look-ups", state.asked);
        assert!(
            state.open >= GOOD && state.most <= THREADS_MAX,
            "{} of {}",
            state.open,
            state.most
        );
    }
    rig.stop().await;
}
