//! Reads how many rows blocks hold from their first bytes, framed or plain.
//!
//! Pure. No decompression: in a raw LZ4 block the bytes before the first repetition stand as they
//! are, and a block's head (two numbers, then a column's name) repeats nothing.

use super::frames::FRAME_HEAD_BYTES;

const METHOD_AT: usize = 16;
const METHOD_LZ4: u8 = 0x82;
const METHOD_NONE: u8 = 0x02;

/// Rows of a plain body's block; `None` when its `head` begins none.
pub(super) fn rows_of_plain(head: &[u8]) -> Option<u64> {
    Some(Head::read(head)?.rows)
}

/// Rows of all blocks of a body, whose frames begin with `heads`; `None` when the first begins none.
/// A frame inside of a block begins with data: what has the first block's columns and first name is
/// a block.
pub(super) fn rows_of_frames(heads: &[Vec<u8>]) -> Option<u64> {
    let mut blocks = heads.iter().map(|head| content(head).and_then(Head::read));
    let first = blocks.next()??;
    let like = |it: &Head<'_>| it.columns == first.columns && it.name == first.name;
    let more = blocks.flatten().filter(|it| !first.name.is_empty() && like(it));
    Some(first.rows + more.map(|it| it.rows).sum::<u64>())
}

/// The first bytes of a frame's content.
fn content(head: &[u8]) -> Option<&[u8]> {
    let content = head.get(FRAME_HEAD_BYTES..)?;
    match *head.get(METHOD_AT)? {
        METHOD_NONE => Some(content),
        METHOD_LZ4 => first_literals(content),
        _ => None,
    }
}

/// The literals of the first sequence: their length is in the token's high half, and in bytes after
/// it when that is full.
fn first_literals(block: &[u8]) -> Option<&[u8]> {
    let (token, mut rest) = block.split_first()?;
    let mut length = usize::from(token >> 4);
    if length == 15 {
        loop {
            let (more, after) = rest.split_first()?;
            rest = after;
            length += usize::from(*more);
            if *more != u8::MAX {
                break;
            }
        }
    }
    Some(&rest[..length.min(rest.len())])
}

/// A block's beginning: columns, then rows, each in LEB128, and the first column's name.
struct Head<'a> {
    columns: u64,
    rows: u64,
    /// Empty where it isn't whole.
    name: &'a [u8],
}

impl<'a> Head<'a> {
    fn read(mut block: &'a [u8]) -> Option<Self> {
        let (columns, rows) = (varint(&mut block)?, varint(&mut block)?);
        let length = varint(&mut block).and_then(|length| usize::try_from(length).ok());
        let name = length.and_then(|length| block.get(..length)).unwrap_or_default();
        (columns > 0).then_some(Self { columns, rows, name })
    }
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use millrace_columns::{BlockSet, BodyCompression, Options};
    use millrace_loadgen::{LoadPlan, encode_request};
    use millrace_wire::Signal;

    use super::{rows_of_frames, rows_of_plain};
    use crate::sink::frames::Frames;

    fn frames(body: &[u8], piece_bytes: usize) -> Vec<Vec<u8>> {
        let mut frames = Frames::default();
        body.chunks(piece_bytes).for_each(|piece| frames.feed(piece));
        frames.heads().to_vec()
    }

    /// Scenario: blocks that the collector's own encoder made of 1,000 spans, three in one insert
    /// too, in pieces of every kind. Guarantee: the rows are read right, compressed or not.
    #[test]
    fn rows_of_real_blocks_are_read() {
        let mut set = BlockSet::new(Signal::Traces, &Options::default());
        let message = encode_request(&LoadPlan::lean_spans(7, 1_000, 0), 0);
        set.append(&message).unwrap();
        let inserts = set.take_inserts(BodyCompression::None);
        assert_eq!(rows_of_plain(&inserts[0].body[0][..64]), Some(1_000));
        for blocks in 1..=3 {
            for _ in 0..blocks {
                set.append(&message).unwrap();
                set.seal_blocks(BodyCompression::Lz4);
            }
            let inserts = set.take_inserts(BodyCompression::Lz4);
            assert_eq!(inserts.len(), 1);
            for piece_bytes in [1, 24, 25, 26, 1_000, 1 << 20] {
                let heads = frames(&inserts[0].body.concat(), piece_bytes);
                assert!(heads.len() >= blocks, "{} frames", heads.len());
                assert_eq!(rows_of_frames(&heads), Some(1_000 * blocks as u64));
            }
        }
    }

    /// Scenario: too short, an unknown method, no columns. Guarantee: not taken for a block.
    #[test]
    fn other_bytes_are_no_block() {
        assert_eq!(rows_of_plain(b""), None);
        assert_eq!(rows_of_plain(&[0, 0]), None);
        assert_eq!(rows_of_frames(&[]), None);
        assert_eq!(rows_of_frames(&frames(&[0x90; 64], 64)), None);
        assert_eq!(rows_of_frames(&frames(&[0x82; 20], 20)), None);
    }
}
