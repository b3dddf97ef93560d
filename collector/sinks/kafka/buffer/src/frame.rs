//! Encodes and decodes a frame's header. Pure.
//!
//! Little-endian: magic (4), CRC-32C of the 32 bytes behind it (4), CRC-32C of the payload (4),
//! length of the payload (4), number of the record (8), its time in milliseconds (8), its count of
//! items (4), kind (1), tag (1), two zero bytes. A segment's head has its [`AppendTotals`] as
//! payload, 24 bytes.

/// The length of a header.
pub const HEADER_BYTES: usize = 40;

/// The longest payload, in bytes: 1 GiB. A header with more is invalid.
pub const MAX_PAYLOAD_BYTES: u32 = 1 << 30;

const MAGIC: [u8; 4] = *b"MRB1";

/// The kind of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameKind {
    /// A record.
    Record,
    /// An acknowledgement of all records below its number.
    Ack,
    /// An acknowledgement at the beginning of a segment, with the queue's totals up to there.
    Head,
}

/// The length of a segment's first frame.
pub const HEAD_BYTES: usize = HEADER_BYTES + TOTALS_BYTES;

const TOTALS_BYTES: usize = 24;

/// Everything that was appended before a segment. The difference between two totals is a segment's
/// content, known without reading it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AppendTotals {
    /// The number of the next record.
    pub next_number: u64,
    /// Records.
    pub records: u64,
    /// The sum of the records' counts.
    pub count: u64,
}

impl AppendTotals {
    /// Returns a segment's first frame, with the lowest number that isn't acknowledged.
    #[must_use]
    pub fn head_frame(&self, number: u64) -> [u8; HEAD_BYTES] {
        let Self { next_number, records, count } = *self;
        let mut payload = Vec::with_capacity(TOTALS_BYTES);
        [next_number, records, count].iter().for_each(|total| payload.extend(total.to_le_bytes()));
        let header = FrameHeader::encode_mark(FrameKind::Head, number, &payload);
        let mut frame = [0; HEAD_BYTES];
        frame[..HEADER_BYTES].copy_from_slice(&header);
        frame[HEADER_BYTES..].copy_from_slice(&payload);
        frame
    }

    /// Reads a segment's first frame: the totals, and the lowest number that isn't acknowledged.
    /// `None` if the bytes are no such frame.
    #[must_use]
    pub fn decode(frame: &[u8; HEAD_BYTES]) -> Option<(Self, u64)> {
        let header = FrameHeader::decode(frame.first_chunk()?)?;
        let payload = &frame[HEADER_BYTES..];
        if header.kind != FrameKind::Head || header.payload_crc != crc32c::crc32c(payload) {
            return None;
        }
        let total = |at: usize| Some(u64::from_le_bytes(*payload.get(at..)?.first_chunk()?));
        let totals = Self { next_number: total(0)?, records: total(8)?, count: total(16)? };
        Some((totals, header.number))
    }
}

/// A frame without its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// The frame's kind.
    pub kind: FrameKind,
    /// The record's number, or the lowest number that isn't acknowledged.
    pub number: u64,
    /// When it was appended, in milliseconds since 1970.
    pub at_millis: u64,
    /// The number of items in the payload, for sums.
    pub count: u32,
    /// The caller's own value.
    pub tag: u8,
    /// The length of the payload.
    pub payload_bytes: u32,
    /// CRC-32C of the payload.
    pub payload_crc: u32,
}

impl FrameHeader {
    /// Returns the header of a frame that isn't a record, as bytes.
    pub(crate) fn encode_mark(kind: FrameKind, number: u64, payload: &[u8]) -> [u8; HEADER_BYTES] {
        let (payload_bytes, payload_crc) = (payload.len() as u32, crc32c::crc32c(payload));
        let (at_millis, count, tag) = (0, 0, 0);
        Self { kind, number, at_millis, count, tag, payload_bytes, payload_crc }.encode()
    }

    /// Returns the header as bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let Self { kind, number, at_millis, count, tag, payload_bytes, payload_crc } = self;
        let mut body = Vec::with_capacity(HEADER_BYTES - 8);
        body.extend(payload_crc.to_le_bytes());
        body.extend(payload_bytes.to_le_bytes());
        body.extend(number.to_le_bytes());
        body.extend(at_millis.to_le_bytes());
        body.extend(count.to_le_bytes());
        body.extend([*kind as u8, *tag, 0, 0]);
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..8].copy_from_slice(&crc32c::crc32c(&body).to_le_bytes());
        bytes[8..].copy_from_slice(&body);
        bytes
    }

    /// Reads a header; `None` if the bytes are no header.
    #[must_use]
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Option<Self> {
        let u32_at = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        let u64_at = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        if bytes[..4] != MAGIC || u32_at(4)? != crc32c::crc32c(&bytes[8..]) {
            return None;
        }
        let [kind, tag, 0, 0] = *bytes.last_chunk::<4>()? else { return None };
        let header = Self {
            kind: match kind {
                0 => FrameKind::Record,
                1 => FrameKind::Ack,
                2 => FrameKind::Head,
                _ => return None,
            },
            payload_crc: u32_at(8)?,
            payload_bytes: u32_at(12)?,
            number: u64_at(16)?,
            at_millis: u64_at(24)?,
            count: u32_at(32)?,
            tag,
        };
        (header.payload_bytes <= MAX_PAYLOAD_BYTES).then_some(header)
    }

    /// Returns the length of the complete frame.
    #[must_use]
    pub fn frame_bytes(&self) -> u64 {
        HEADER_BYTES as u64 + u64::from(self.payload_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::{AppendTotals, FrameHeader, FrameKind, HEAD_BYTES, HEADER_BYTES};

    fn header() -> FrameHeader {
        FrameHeader {
            kind: FrameKind::Record,
            number: 7,
            at_millis: 1_767_225_600_000,
            count: 100,
            tag: 2,
            payload_bytes: 5,
            payload_crc: crc32c::crc32c(b"hello"),
        }
    }

    /// Scenario: headers of each kind. Guarantee: they read back as written.
    #[test]
    fn a_header_reads_back_as_written() {
        for kind in [FrameKind::Record, FrameKind::Ack, FrameKind::Head] {
            let header = FrameHeader { kind, ..header() };
            assert_eq!(FrameHeader::decode(&header.encode()), Some(header));
        }
        assert_eq!(header().frame_bytes(), 45);
    }

    /// Scenario: a segment's head, and each bit of it flipped. Guarantee: it reads back as written,
    /// and a flipped one is rejected.
    #[test]
    fn a_head_reads_back_as_written_or_not_at_all() {
        let totals = AppendTotals { next_number: 9, records: 8, count: 7_000_000_000 };
        assert_eq!(AppendTotals::decode(&totals.head_frame(5)), Some((totals, 5)));
        for bit in 0..HEAD_BYTES * 8 {
            let mut bytes = totals.head_frame(5);
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(AppendTotals::decode(&bytes), None, "bit {bit}");
        }
    }

    /// Scenario: each bit of a header is flipped. Guarantee: each result is rejected.
    #[test]
    fn a_flipped_bit_is_no_header() {
        for bit in 0..HEADER_BYTES * 8 {
            let mut bytes = header().encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(FrameHeader::decode(&bytes), None, "bit {bit}");
        }
        assert_eq!(FrameHeader::decode(&[0; HEADER_BYTES]), None);
    }
}
