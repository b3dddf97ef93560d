//! Values that records share are written with each of them, so a small request could need any
//! amount of memory. Both the check and the columns refuse such requests, and accepted ones stay
//! within the limit.

use millrace_columns::{BlockSet, BodyCompression, INSERT_BYTES, Insert, Options};
use millrace_schema::AttributeStorage;
use millrace_wire::limits::{WRITTEN_BYTES, WireLimits};
use millrace_wire::protobuf::{LENGTH, VARINT, field_tag, put_varint};
use millrace_wire::{Signal, WireErrorKind, otlp};

use crate::heap::peak_bytes;

fn field(number: u32, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, field_tag(number, LENGTH).into());
    put_varint(&mut out, value.len() as u64);
    out.extend_from_slice(value);
    out
}

fn attribute(key: &[u8], value: &[u8]) -> Vec<u8> {
    [field(1, key), field(2, value)].concat()
}

fn text(value: &[u8]) -> Vec<u8> {
    field(1, value)
}

/// Returns printable bytes that don't repeat.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        b'0' + (state >> 58) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// The position of the long value.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    Resource,
    /// In a list of an array, which is written as text.
    ResourceArray,
    ScopeName,
    ScopeAttribute,
    Description,
}

/// Returns a request with `rows` empty records that share a long value.
fn bomb(signal: Signal, place: Place, value: &[u8], rows: usize) -> Vec<u8> {
    let mut resource = Vec::new();
    let mut scope = Vec::new();
    let mut metric = field(1, b"m");
    match place {
        Place::Resource => resource = field(1, &field(1, &attribute(b"long", &text(value)))),
        Place::ResourceArray => {
            let list = field(6, &field(1, &attribute(b"in", &text(value))));
            let array = field(5, &field(1, &list));
            resource = field(1, &field(1, &attribute(b"long", &array)));
        }
        Place::ScopeName => scope = field(1, &field(1, value)),
        Place::ScopeAttribute => scope = field(1, &field(3, &attribute(b"long", &text(value)))),
        Place::Description => metric.extend(field(2, value)),
    }
    let records = match signal {
        Signal::Metrics => {
            metric.extend(field(5, &[10, 0].repeat(rows)));
            field(2, &metric)
        }
        Signal::Traces | Signal::Logs => [18, 0].repeat(rows),
    };
    field(1, &[resource, field(2, &[scope, records].concat())].concat())
}

fn places(signal: Signal) -> &'static [Place] {
    match signal {
        // Attributes of scopes have no column here.
        Signal::Traces => &[Place::Resource, Place::ResourceArray, Place::ScopeName],
        Signal::Logs => {
            &[Place::Resource, Place::ResourceArray, Place::ScopeName, Place::ScopeAttribute]
        }
        Signal::Metrics => &[
            Place::Resource,
            Place::ResourceArray,
            Place::ScopeName,
            Place::ScopeAttribute,
            Place::Description,
        ],
    }
}

fn each_case(mut case: impl FnMut(Signal, Place, Options)) {
    for signal in Signal::ALL {
        for &place in places(signal) {
            for attributes in [AttributeStorage::Json, AttributeStorage::Map] {
                case(signal, place, Options { attributes, ..Options::default() });
            }
        }
    }
}

fn refusal(signal: Signal, request: &[u8]) -> Option<WireErrorKind> {
    otlp::check_request(signal, request, &WireLimits::default()).err().map(|error| error.kind())
}

fn check_inserts(inserts: &[Insert]) -> u64 {
    for insert in inserts {
        // Repeats count an eighth in the written size.
        assert!(insert.plain_bytes <= 9 * INSERT_BYTES, "{} bytes plain", insert.plain_bytes);
    }
    inserts.iter().map(|insert| insert.body.concat().len() as u64).sum()
}

/// Scenario: a request of 412 kB whose 6,000 empty records share 400 kB: 2.4 GB of rows. Of every
/// signal, with the long value at every position, in both variants. Guarantee: the check and the
/// columns refuse it; the columns hold little more than the request during this, and continue as
/// before.
#[test]
fn a_value_shared_by_thousands_of_records_is_refused() {
    let value = noise(400_000);
    each_case(|signal, place, options| {
        let request = bomb(signal, place, &value, 6_000);
        assert_eq!(refusal(signal, &request), Some(WireErrorKind::TooMuchWritten), "{place:?}");
        let mut set = BlockSet::new(signal, &options);
        let (refused, peak) = peak_bytes(|| set.append(&request).unwrap_err());
        assert_eq!(refused.reason(), "too_much_written", "{signal} {place:?}");
        assert!(peak < 8 << 20, "{signal} {place:?} {options:?}: {peak} bytes");
        assert_eq!((set.row_count(), set.batch_bytes()), (0, 0));
        set.append(&bomb(signal, place, b"short", 3)).unwrap();
        assert_eq!(set.take_inserts(BodyCompression::Lz4)[0].rows, 3);
    });
}

/// Scenario: the same value on as many records as the limit allows. Guarantee: they are accepted,
/// and encoder, compressor and bodies together hold no more than the limit and the request's own
/// memory.
#[test]
fn as_much_as_is_taken_stays_within_the_limit() {
    let value = noise(400_000);
    let rows = (WRITTEN_BYTES / 400_200) as usize;
    for (signal, place) in [
        (Signal::Traces, Place::Resource),
        (Signal::Logs, Place::ScopeAttribute),
        (Signal::Metrics, Place::Description),
    ] {
        for attributes in [AttributeStorage::Json, AttributeStorage::Map] {
            let request = bomb(signal, place, &value, rows);
            assert_eq!(refusal(signal, &request), None, "{signal} {place:?}");
            let mut set = BlockSet::new(signal, &Options { attributes, ..Options::default() });
            let (inserts, peak) = peak_bytes(|| {
                set.append(&request).unwrap();
                set.take_inserts(BodyCompression::Lz4)
            });
            let bodies = check_inserts(&inserts);
            assert!(bodies <= WRITTEN_BYTES, "{signal} {place:?}: {bodies} bytes");
            // A growing body may reserve twice its contents, of which half was never touched.
            assert!(peak as u64 <= 2 * WRITTEN_BYTES + (8 << 20), "{signal} {place:?}: {peak}");
        }
    }
}

/// Scenario: harmless data: a command line of 30 kB on each resource, 50,000 spans in requests of
/// 512, one request of 8,192 in between. Guarantee: all of it is accepted; bodies stay small, since
/// repeats are compressed, and no insert is longer than a server accepts at once.
#[test]
fn a_long_command_line_makes_small_bodies_and_bounded_inserts() {
    let value = noise(30_000);
    for attributes in [AttributeStorage::Json, AttributeStorage::Map] {
        let mut set = BlockSet::new(Signal::Traces, &Options { attributes, ..Options::default() });
        let mut rows = 0;
        let mut inserts = Vec::new();
        let (bodies, peak) = peak_bytes(|| {
            while rows < 50_000 {
                let count = if rows == 5_120 { 8_192 } else { 512 };
                let request = bomb(Signal::Traces, Place::Resource, &value, count);
                assert_eq!(refusal(Signal::Traces, &request), None);
                rows += set.append(&request).unwrap().rows;
                // The usual size of a batch.
                if set.batch_bytes() >= 16 << 20 {
                    inserts.extend(set.take_inserts(BodyCompression::Lz4));
                }
            }
            inserts.extend(set.take_inserts(BodyCompression::Lz4));
            check_inserts(&inserts)
        });
        assert_eq!(inserts.iter().map(|insert| insert.rows).sum::<u64>(), rows);
        assert!(inserts.len() >= 10, "{} inserts", inserts.len());
        let longest = inserts.iter().map(|insert| insert.plain_bytes).max().unwrap();
        assert!(longest < 400 << 20, "{longest} bytes plain");
        assert!(bodies < 96 << 20, "{bodies} bytes");
        assert!(peak < 128 << 20, "{peak} bytes");
    }
}

/// Scenario: rows that exceed one insert's bytes arrive in one set, and in another with a refused
/// request in between. Guarantee: both are cut into the same inserts, by their rows alone.
#[test]
fn inserts_are_cut_by_what_is_written_wherever_requests_end() {
    let value = noise(30_000);
    let request = |rows| bomb(Signal::Logs, Place::Resource, &value, rows);
    let cut = |requests: &[usize]| {
        let mut set = BlockSet::new(Signal::Logs, &Options::default());
        for (number, &rows) in requests.iter().enumerate() {
            if number == 1 {
                set.append(&bomb(Signal::Logs, Place::Resource, &noise(400_000), 6_000))
                    .unwrap_err();
            }
            set.append(&request(rows)).unwrap();
        }
        let inserts = set.take_inserts(BodyCompression::Lz4);
        check_inserts(&inserts);
        inserts.iter().map(|insert| (insert.number, insert.rows)).collect::<Vec<_>>()
    };
    let whole = cut(&[15_000, 10_000]);
    assert_eq!(whole.iter().map(|(_, rows)| rows).sum::<u64>(), 25_000);
    assert_eq!(whole.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(cut(&[5_000, 5_000, 15_000]), whole);
}

/// Scenario: a list's key of 100 kB, which prefixes the names of its 16,000 members: 1.6 GB. On a
/// record and on a resource. Guarantee: both check and columns refuse it, in bounded memory; the
/// Map variant has no such names.
#[test]
fn keys_repeated_for_each_member_of_a_list_are_bounded() {
    let members: Vec<u8> = (0..16_000)
        .flat_map(|n| {
            field(1, &attribute(format!("{n}").as_bytes(), &[field_tag(2, VARINT) as u8, 1]))
        })
        .collect();
    let listed = attribute(&noise(100_000), &field(6, &members));
    // The value comes before its key: the name is the same.
    let turned = [field(2, &field(6, &members)), field(1, &noise(100_000))].concat();
    let on_span = |listed: &[u8]| field(1, &field(2, &field(2, &field(9, listed))));
    let on_resource = field(1, &[field(1, &field(1, &listed)), field(2, &[18, 0])].concat());
    for request in [on_span(&listed), on_span(&turned), on_resource] {
        let refused = refusal(Signal::Traces, &request);
        assert_eq!(refused, Some(WireErrorKind::TooMuchWritten));
        let mut set = BlockSet::new(Signal::Traces, &Options::default());
        let (error, peak) = peak_bytes(|| set.append(&request).unwrap_err());
        assert_eq!(error.reason(), "too_much_written");
        assert!(peak < 160 << 20, "{peak} bytes");
        set.clear();
        assert!(set.memory_bytes() < 16 << 20, "{} bytes kept", set.memory_bytes());
        let attributes = AttributeStorage::Map;
        let mut set = BlockSet::new(Signal::Traces, &Options { attributes, ..Options::default() });
        let (_, peak) = peak_bytes(|| drop(set.append(&request)));
        assert!(peak < 8 << 20, "{peak} bytes");
    }
}

/// Scenario: a million exemplars and quantiles of two bytes each, on separate points and on one.
/// Guarantee: memory is proportional to the request, at most twenty times its length.
#[test]
fn empty_exemplars_and_quantiles_take_memory_in_proportion() {
    let request = |kind: u32, number: u32, each: usize, points: usize| {
        let point = [(number << 3 | LENGTH) as u8, 0].repeat(each);
        let points: Vec<u8> = (0..points).flat_map(|_| field(1, &point)).collect();
        field(1, &field(2, &field(2, &field(kind, &points))))
    };
    // The field numbers of the parts of gauge, sum, histogram, exponential histogram, summary.
    for (kind, number) in [(5, 5), (7, 5), (9, 8), (10, 11), (11, 6)] {
        for (each, points) in [(1_000_000, 1), (100, 10_000)] {
            let request = request(kind, number, each, points);
            assert_eq!(refusal(Signal::Metrics, &request), None);
            for attributes in [AttributeStorage::Json, AttributeStorage::Map] {
                let options = Options { attributes, ..Options::default() };
                let mut set = BlockSet::new(Signal::Metrics, &options);
                let (_, peak) = peak_bytes(|| {
                    set.append(&request).unwrap();
                    set.take_inserts(BodyCompression::Lz4)
                });
                assert!(peak < 40 * request.len(), "{kind} {each}: {peak} bytes");
            }
        }
    }
}
