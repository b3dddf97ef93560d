//! Tests of `frames.rs`.

use super::{Frames, HeaderEffect, ResponseFrames};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const ADDED: HeaderEffect = HeaderEffect { added: true, emptied: false };
const EMPTIED: HeaderEffect = HeaderEffect { added: false, emptied: true };
const NOTHING: HeaderEffect = HeaderEffect { added: false, emptied: false };

fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags, 0, 0, 0, 1], payload].concat()
}

/// Returns the effects of all blocks, reading the bytes in pieces of `piece`.
fn effects(bytes: &[u8], piece: usize, longest: usize) -> std::io::Result<Vec<HeaderEffect>> {
    let mut frames = Frames::new(longest);
    let mut effects = Vec::new();
    for mut part in bytes.chunks(piece) {
        while !part.is_empty() {
            let (read, effect) = frames.follow_bytes(part)?;
            part = &part[read..];
            effects.extend(effect);
        }
    }
    Ok(effects)
}

/// Scenario: every kind of header, with long and short numbers, in frames with padding, priorities
/// and continuations among frames of other kinds, in pieces of every size. Guarantee: each block is
/// found once, with its effect on the table.
#[test]
fn blocks_are_found_with_what_they_do_to_the_table() {
    let long = [&[0x7f, 0x80, 0x01][..], &[b'v'; 255]].concat();
    // Indexed headers, one with a long number; literals without indexing, by name and by a long
    // number, never indexed, and with a long value.
    let plain = [
        &[0x82, 0xff, 0x80, 0x7f][..],
        &[0x04, 1, b'/'],
        &[0x0f, 0x10, 2, 0x40, 0x40],
        &[0x10, 1, 0x40, 1, 0x40],
        &[0x00, 1, b'n'],
        &long,
    ]
    .concat();
    let added = [&[0x82][..], &[0x40, 1, b'n', 0], &[0x7f, 0x03, 1, b'v']].concat();
    let (first, second) = plain.split_at(17);
    let padded = [&[3][..], &[0x40, 1, b'n', 1, b'v'], &[0x40; 3]].concat();
    let ranked = [&[0x80, 0, 0, 0, 9][..], &[0x83]].concat();
    let both = [&[2][..], &[0x40, 0, 0, 0, 9], &[0x84], &[0x40; 2]].concat();
    let bytes = [
        PREFACE.to_vec(),
        frame(4, 0, &[0x40; 12]),
        frame(4, 1, &[]),
        frame(1, 0x4, &plain),
        frame(1, 0x4, &added),
        frame(0, 0, &[0x40; 300]),
        frame(1, 0, first),
        frame(9, 0, &[]),
        frame(9, 0x4, second),
        frame(1, 0x8 | 0x4, &padded),
        frame(1, 0x20 | 0x4 | 0x1, &ranked),
        frame(1, 0x20 | 0x8 | 0x4, &both),
        // The table's size: all of it, then none.
        frame(1, 0x4, &[0x3f, 0xe1, 0x1f, 0x82]),
        frame(1, 0x4, &[0x20, 0x82]),
        frame(1, 0x4, &[]),
    ]
    .concat();
    let expected = [NOTHING, ADDED, NOTHING, ADDED, NOTHING, NOTHING, NOTHING, EMPTIED, NOTHING];
    for piece in 1..=bytes.len() {
        assert_eq!(effects(&bytes, piece, 1000).unwrap(), expected, "in pieces of {piece}");
    }
}

/// Scenario: streams opened, with trailers, reset by the client, answered and reset by the server,
/// with frames in pieces of every size. Guarantee: each stream counts from its first frame to its
/// last.
#[test]
fn streams_count_from_their_first_frame_to_their_last() {
    let of = |stream: u8, mut frame: Vec<u8>| {
        frame[8] = stream;
        frame
    };
    let opened: Vec<u8> =
        [1, 3, 5, 7].into_iter().flat_map(|id| of(id, frame(1, 4, &[]))).collect();
    let asked = [
        PREFACE.to_vec(),
        opened,
        // Trailers; a body; a reset.
        of(3, frame(1, 5, &[0x82])),
        of(5, frame(0, 1, &[0; 40])),
        of(7, frame(3, 0, &[0, 0, 0, 8])),
    ]
    .concat();
    let answered = [
        frame(4, 0, &[0; 6]),
        // An answer whose head doesn't end it, and its body; a reset.
        of(1, frame(1, 4, &[0x88])),
        of(1, frame(0, 0, &[0; 30])),
        of(3, frame(3, 0, &[0; 4])),
        of(1, frame(0, 1, &[])),
        of(9, frame(1, 5, &[0x88])),
    ]
    .concat();
    for piece in 1..60 {
        let mut frames = Frames::new(1000);
        for mut part in asked.chunks(piece) {
            while !part.is_empty() {
                part = &part[frames.follow_bytes(part).unwrap().0..];
            }
        }
        assert_eq!((frames.streams().open_count(), frames.unfinished_bytes()), (3, 0));
        let mut answers = ResponseFrames::default();
        for part in answered.chunks(piece) {
            answers.follow_written(part, frames.streams());
        }
        assert_eq!(frames.streams().open_count(), 1, "in pieces of {piece}");
    }
}

/// Scenario: a block at the limit and one past it, in one frame and in several, without an end.
/// Guarantee: it is accepted at the limit, and a longer one is refused before its end.
#[test]
fn a_block_is_held_to_its_length() {
    let value = |length| [&[0x00, 1, b'n', 0x7f, 0xe1, 0x07][..], &vec![b'v'; length]].concat();
    let (fits, long) = (value(994), value(995));
    let whole = |block: &[u8]| [PREFACE, &frame(1, 0, block)].concat();
    let parts = |block: &[u8]| [whole(&block[..500]), frame(9, 0, &block[500..])].concat();
    assert_eq!(effects(&whole(&fits), 100, 1000).unwrap(), []);
    assert_eq!(effects(&parts(&fits), 100, 1000).unwrap(), []);
    assert!(effects(&whole(&long), 100, 1000).is_err());
    assert!(effects(&parts(&long), 100, 1000).is_err());
    // The limit applies to each block separately.
    let again = [whole(&fits), frame(9, 4, &[]), frame(1, 4, &fits)].concat();
    assert_eq!(effects(&again, 100, 1000).unwrap(), [NOTHING, NOTHING]);
}

/// Scenario: lengths and numbers that contradict each other. Guarantee: no panic, and the result is
/// the same in whatever pieces the bytes come.
#[test]
fn nonsense_is_followed_without_harm() {
    let mut seed = 7_u32;
    for _ in 0..2000 {
        let mut bytes = PREFACE.to_vec();
        for _ in 0..40 {
            let mut random = || {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (seed >> 24) as u8
            };
            let payload: Vec<u8> = (0..random() % 32).map(|_| random()).collect();
            let kind = [1, 9, 1, 0][usize::from(random() % 4)];
            bytes.extend(frame(kind, random(), &payload));
        }
        let whole = effects(&bytes, bytes.len(), 1000).unwrap();
        assert_eq!(effects(&bytes, 1, 1000).unwrap(), whole);
    }
}
