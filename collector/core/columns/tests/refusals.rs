//! Tests that invalid requests are refused and their neighbours stay complete: the lines of
//! `docs/signals.md` that say "refused".

use millrace_columns::{AppendError, BlockSet, BodyCompression, Options};
use millrace_schema::AttributeStorage;
use millrace_wire::limits::ATTRIBUTES;
use millrace_wire::protobuf::{FIXED64, LENGTH, VARINT, field_tag, put_varint};
use millrace_wire::{Signal, WireErrorKind};

use crate::native;

/// Returns a field of bytes.
fn field(number: u32, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, field_tag(number, LENGTH).into());
    put_varint(&mut out, value.len() as u64);
    out.extend_from_slice(value);
    out
}

fn attribute(key: &str) -> Vec<u8> {
    let truth = field(2, &[field_tag(2, VARINT) as u8, 1]);
    [field(1, key.as_bytes()), truth].concat()
}

/// Returns a request with a span whose message is `span`.
fn request(span: &[u8]) -> Vec<u8> {
    field(1, &field(2, &field(2, span)))
}

/// Appends a valid span, `bad`, and a valid span again; returns why `bad` was refused. Only the
/// valid ones are stored.
fn refusal(bad: &[u8], attributes: AttributeStorage) -> WireErrorKind {
    let good = request(&[field(5, b"good"), field(9, &attribute("key"))].concat());
    let options = Options { attributes, ..Options::default() };
    let mut set = BlockSet::new(Signal::Traces, &options);
    set.append(&good).unwrap();
    let refused = set.append(bad).unwrap_err();
    set.append(&good).unwrap();
    let rows = |set: &mut BlockSet| -> Vec<Vec<native::Value>> {
        let inserts = set.take_inserts(BodyCompression::None).into_iter();
        let blocks = inserts.flat_map(|insert| native::blocks(&insert.body.concat()));
        blocks.flat_map(|block| block.rows).collect()
    };
    let mut twice = BlockSet::new(Signal::Traces, &options);
    twice.append(&good).unwrap();
    twice.append(&good).unwrap();
    assert_eq!(rows(&mut set), rows(&mut twice));
    match refused {
        AppendError::Malformed(error) => error.kind(),
        other => panic!("{other}"),
    }
}

/// Guarantee: each kind of broken bytes is refused by its name, in both variants, and costs no
/// neighbour.
#[test]
fn broken_bytes_are_refused_and_cost_no_neighbour() {
    let name = field(5, b"name");
    let whole = request(&name);
    let mut long_length = field(5, b"");
    long_length.pop();
    put_varint(&mut long_length, u64::MAX);
    let overlong = [&[field_tag(6, VARINT) as u8][..], &[0xff; 10]].concat();
    let torn_attribute = [name.clone(), field(9, &field(1, b"key")[..3])].concat();
    let cases = [
        ("cut off", whole[..whole.len() - 1].to_vec(), WireErrorKind::Truncated),
        ("length past the end", request(&long_length), WireErrorKind::Truncated),
        ("over-long integer", request(&overlong), WireErrorKind::OverlongVarint),
        ("name as a number", request(&[field_tag(5, VARINT) as u8, 7]), WireErrorKind::WireType),
        ("time as text", request(&field(7, b"12:00")), WireErrorKind::WireType),
        ("field zero", request(&[2, 0]), WireErrorKind::InvalidTag),
        ("a group", request(&[field_tag(100, 3) as u8 | 0x80, 6]), WireErrorKind::Group),
        (
            "a torn attribute behind a good field",
            request(&torn_attribute),
            WireErrorKind::Truncated,
        ),
        (
            "an event's time in two bytes",
            request(&field(11, &[field_tag(1, FIXED64) as u8, 1, 2])),
            WireErrorKind::Truncated,
        ),
    ];
    for attributes in [AttributeStorage::Json, AttributeStorage::Map] {
        for (case, bad, kind) in &cases {
            assert_eq!(refusal(bad, attributes), *kind, "{case}");
        }
    }
}

/// Guarantee: as many attributes as the edge accepts are stored; one more on one record is refused.
#[test]
fn a_record_of_too_many_attributes_is_refused() {
    let with = |count: u32| {
        let span: Vec<u8> =
            (0..count).flat_map(|n| field(9, &attribute(&format!("k{n}")))).collect();
        request(&span)
    };
    for attributes in [AttributeStorage::Json, AttributeStorage::Map] {
        let mut set = BlockSet::new(Signal::Traces, &Options { attributes, ..Options::default() });
        assert_eq!(set.append(&with(ATTRIBUTES)).unwrap().rows, 1);
        assert_eq!(refusal(&with(ATTRIBUTES + 1), attributes), WireErrorKind::TooManyAttributes);
    }
}

/// Guarantee: a request of many small records with separate keys needs memory in proportion to its
/// bytes, over as many blocks as necessary; a single record whose events have more keys than a
/// block holds is refused.
#[test]
fn keys_beyond_a_block_are_stored_or_refused_but_never_pile_up() {
    let mut spans = Vec::new();
    for n in 0..200_000 {
        spans.extend(field(2, &field(9, &attribute(&format!("k{n}")))));
    }
    let wide = field(1, &field(2, &spans));
    let mut set = BlockSet::new(Signal::Traces, &Options::default());
    assert_eq!(set.append(&wide).unwrap().rows, 200_000);
    let held = set.memory_bytes();
    assert!(held < 40 * wide.len(), "{held} bytes for {}", wide.len());
    let mut events = Vec::new();
    for event in 0..90 {
        let keys: Vec<u8> =
            (0..1000).flat_map(|n| field(3, &attribute(&format!("{event}.{n}")))).collect();
        events.extend(field(11, &keys));
    }
    let kind = refusal(&request(&events), AttributeStorage::Json);
    assert_eq!(kind, WireErrorKind::TooManyAttributes);
}

/// Guarantee: at any depth of a value's lists, appending ends and uses no more of the stack than
/// the limit allows. Slow: creating a value of 20,000 levels copies it for each of them.
#[test]
fn values_of_any_depth_are_appended_without_running_out_of_stack() {
    let mut value = field(1, b"text");
    for depth in 0..20_000 {
        // A list's member or an array's element, in turn.
        let inner = if depth % 2 == 0 {
            field(6, &field(1, &[field(1, b"n"), field(2, &value)].concat()))
        } else {
            field(5, &field(1, &value))
        };
        value = inner;
    }
    let span = field(9, &[field(1, b"deep"), field(2, &value)].concat());
    for (attributes, nested_depth) in [
        (AttributeStorage::Json, u32::MAX),
        (AttributeStorage::Json, 0),
        (AttributeStorage::Map, 8),
    ] {
        let mut set = BlockSet::new(Signal::Traces, &Options { attributes, nested_depth });
        assert_eq!(set.append(&request(&span)).unwrap().rows, 1);
        assert_eq!(set.take_inserts(BodyCompression::None)[0].rows, 1);
    }
}
