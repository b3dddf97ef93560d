//! Reads how many rows a block holds from its first bytes, framed or plain.
//!
//! Pure. No decompression: in a raw LZ4 block the bytes before the first repetition stand as they
//! are, and a block's head (two numbers, then a column's name) repeats nothing.

/// Checksum (16), method (1), sizes (4 + 4).
const FRAME_HEAD_BYTES: usize = 25;
const METHOD_AT: usize = 16;
const METHOD_LZ4: u8 = 0x82;
const METHOD_NONE: u8 = 0x02;

/// Rows of the first block of a body, whose `head` is given; `None` when that is no block.
pub(super) fn rows(head: &[u8], is_framed: bool) -> Option<u64> {
    if !is_framed {
        return native_rows(head);
    }
    let content = head.get(FRAME_HEAD_BYTES..)?;
    match *head.get(METHOD_AT)? {
        METHOD_NONE => native_rows(content),
        METHOD_LZ4 => native_rows(first_literals(content)?),
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

/// Columns, then rows, each in LEB128.
fn native_rows(mut block: &[u8]) -> Option<u64> {
    let columns = varint(&mut block)?;
    let rows = varint(&mut block)?;
    (columns > 0).then_some(rows)
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
    use millrace_columns::{BlockSet, Compression, Options};
    use millrace_loadgen::{Plan, request};
    use millrace_wire::Signal;

    use super::rows;

    /// Scenario: blocks that the collector's own encoder made of 1,000 spans. Guarantee: the rows
    /// are read right, compressed or not.
    #[test]
    fn rows_of_real_blocks_are_read() {
        for (compression, is_framed) in [(Compression::Lz4, true), (Compression::None, false)] {
            let mut set = BlockSet::new(Signal::Traces, &Options::default());
            set.append(&request(&Plan::lean(7, 1_000, 0), 0)).unwrap();
            let inserts = set.take(compression);
            assert_eq!(inserts.len(), 1);
            assert_eq!(rows(&inserts[0].body[..64], is_framed), Some(1_000));
        }
    }

    /// Scenario: too short, an unknown method, no columns. Guarantee: not taken for a block.
    #[test]
    fn other_bytes_are_no_block() {
        assert_eq!(rows(b"", false), None);
        assert_eq!(rows(&[0, 0], false), None);
        assert_eq!(rows(&[0x90; 64], true), None);
        assert_eq!(rows(&[0x82; 20], true), None);
    }
}
