//! Clients made to hurt, against the collector as a process with little memory: whatever they send,
//! it stays inside its limit, others are served beside them, and its metrics tell.
//!
//! Each attack has a collector of its own: an edge with a memory limit of 128 MiB and one of
//! librdkafka's mock brokers. Where root may make a memory cgroup, the process is also in one of
//! that size, so that the kernel ends it when it takes more. What is compared with a row's peak is
//! the memory that it wrote itself (`RssAnon`), looked at every few milliseconds: a debug build's
//! code would take half of the limit.

mod attacks;
mod frames;
mod process;

use std::net::TcpStream;
use std::time::{Duration, Instant};

use process::{Collector, Limits};

/// What a collector at rest takes, in MiB: half of it was seen, on two cores.
const AT_REST_MIB: u64 = 8;

/// What an attack leaves behind: connections that stay open until the row has been judged.
type Held = Vec<TcpStream>;

/// One attack and what must hold meanwhile.
struct Row {
    name: &'static str,
    limits: Limits,
    attack: fn(&mut Collector) -> Held,
    /// The most it may take beside what a collector takes at rest, in MiB.
    peak_mib: u64,
    /// How long a well-behaved client's request may take to be stored, tried again and again.
    served_within: Duration,
    /// A metric and the least that it must have come to. Where the metrics themselves are struck it
    /// is enough that they are answered.
    shown_by: (&'static str, u64),
}

/// Where nobody else is held up.
const QUICKLY: Duration = Duration::from_secs(5);

/// Where the time limits of [`Limits::SHORT`] must have ended something first.
const SOON: Duration = Duration::from_secs(10);

/// What the budget covers.
const IN_FLIGHT: &str = "millrace_bytes_in_flight";

/// What was refused or hung up on.
const REFUSED: &str = "millrace_records_refused_total";
const CLOSED: &str = "millrace_connections_closed_total";

const ROWS: &[Row] = &[
    Row::new("lists too long", attacks::lists_too_long, 8, (IN_FLIGHT, 3 << 20)),
    Row::new("longest lists", attacks::longest_lists, 16, (IN_FLIGHT, 24 << 20)),
    Row::new("endless lists", attacks::lists_too_long_without_end, 8, (IN_FLIGHT, 3 << 20)),
    Row::new("long trailers", attacks::long_trailers, 16, (REFUSED, 2000)),
    Row::new("endless continuations", attacks::endless_continuations, 8, (CLOSED, 60)),
    Row::new("pinned header table", attacks::pinned_header_table, 8, (CLOSED, 20)),
    Row::new("rapid resets", attacks::rapid_resets, 8, (CLOSED, 40)),
    Row::new("settings and pings", attacks::settings_and_pings, 8, (IN_FLIGHT, 3 << 20)),
    Row::new("acknowledgements", attacks::acknowledgements, 8, (CLOSED, 40)),
    Row::new("tiny frames", attacks::tiny_frames, 8, (CLOSED, 40)),
    Row::new("dripping bodies", attacks::dripping_bodies, 32, (REFUSED, 1000)).waits(),
    Row::new("bodies without end", attacks::bodies_without_end, 56, (REFUSED, 1000)).waits(),
    Row::new("silent connections", attacks::silent_connections, 8, (CLOSED, 500)).waits(),
    Row::new("long heads", attacks::long_heads, 16, (CLOSED, 200)).waits(),
    Row::new("unread answers", attacks::unread_answers, 8, (IN_FLIGHT, 6 << 20)),
    Row::new("admin: long heads", attacks::long_heads_at_the_admin_port, 8, (IN_FLIGHT, 0)),
    Row::new("admin: unread metrics", attacks::unread_metrics, 8, (IN_FLIGHT, 0)),
];

impl Row {
    const fn new(
        name: &'static str,
        attack: fn(&mut Collector) -> Held,
        peak_mib: u64,
        shown_by: (&'static str, u64),
    ) -> Self {
        let limits = Limits::USUAL;
        Self { name, limits, attack, peak_mib, served_within: QUICKLY, shown_by }
    }

    /// With short times, which a client may have to wait for.
    const fn waits(self) -> Self {
        Self { limits: Limits::SHORT, served_within: SOON, ..self }
    }
}

/// Scenario: each attack of the table, against a collector with a memory limit of 128 MiB.
/// Guarantee: the process lives, takes no more than the row allows, stores a well-behaved client's
/// request while the attack's connections are there, and shows it in a metric. Slow: 17 attacks run
/// one after the other, each on a collector of its own.
#[test]
fn no_client_takes_memory_past_the_limit() {
    let mut broken = Vec::new();
    for row in ROWS {
        let began = Instant::now();
        let verdict = judge(row);
        eprintln!("{}: {verdict:?} after {:?}", row.name, began.elapsed());
        broken.extend(verdict.err().map(|why| format!("{}: {why}", row.name)));
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// Scenario: 450 connections with HTTP/2, three times as many as had room when each took all that
/// it may come to, each with a request that was answered. Guarantee: all of them are kept while
/// another client is served, none is closed for want of room, and their memory is inside the limit.
#[test]
fn idle_connections_are_kept_while_others_are_served() {
    let mut collector = Collector::start(Limits::USUAL);
    let held = attacks::idle_connections(&mut collector);
    assert_eq!(held.len(), 450);
    // 52 KiB each, which are 23 of the 32 MiB that connections have; 2 MiB are for lists.
    collector.wait_for_metric(IN_FLIGHT, 450 * (52 << 10)).unwrap();
    for _ in 0..5 {
        collector.serves_a_client(QUICKLY).unwrap();
    }
    assert_eq!(collector.metric(CLOSED), 0);
    assert!(collector.is_alive() && held.iter().all(attacks::is_open));
    let peak_mib = collector.peak_bytes() >> 20;
    assert!(peak_mib <= 40, "{peak_mib} MiB");
}

/// Runs one attack: the peak in MiB, or what didn't hold.
fn judge(row: &Row) -> Result<u64, String> {
    let mut collector = Collector::start(row.limits);
    let held = (row.attack)(&mut collector);
    let (metric, least) = row.shown_by;
    let shown = collector.wait_for_metric(metric, least);
    let served = collector.serves_a_client(row.served_within);
    drop(held);
    let peak_mib = collector.peak_bytes() >> 20;
    let most_mib = row.peak_mib + AT_REST_MIB;
    let verdict = match (collector.is_alive(), shown, served) {
        (false, ..) => Err("the process was ended".to_owned()),
        (true, Err(why), _) | (true, Ok(()), Err(why)) => Err(why),
        (true, Ok(()), Ok(())) if peak_mib > most_mib => Err("it took too much".to_owned()),
        (true, Ok(()), Ok(())) => Ok(peak_mib),
    };
    verdict.map_err(|why| format!("{why}; its peak was {peak_mib} MiB of {most_mib}"))
}
