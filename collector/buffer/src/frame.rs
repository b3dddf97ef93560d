//! A frame's header as bytes. Pure.
//!
//! Little-endian: magic (4), CRC-32C of the 32 bytes behind it (4), CRC-32C of the payload (4),
//! length of the payload (4), number of the record (8), its time in milliseconds (8), how many
//! things are in it (4), kind (1), tag (1), two zero bytes.

/// Bytes of a header.
pub const HEADER_BYTES: usize = 40;

/// The longest payload, in bytes: 1 GiB. More is a header that isn't one.
pub const MAX_PAYLOAD_BYTES: u32 = 1 << 30;

const MAGIC: [u8; 4] = *b"MRB1";

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A record.
    Record,
    /// All records below its number are acknowledged.
    Ack,
}

/// A frame without its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// What it is.
    pub kind: Kind,
    /// The record's number, or the lowest that isn't acknowledged.
    pub number: u64,
    /// When it was appended, in milliseconds since 1970.
    pub at_millis: u64,
    /// How many things are in the payload, for sums.
    pub count: u32,
    /// The caller's own.
    pub tag: u8,
    /// Bytes of the payload.
    pub payload_bytes: u32,
    /// CRC-32C of the payload.
    pub payload_crc: u32,
}

impl Header {
    /// The header as bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let Self { kind, number, at_millis, count, tag, payload_bytes, payload_crc } = self;
        let mut body = Vec::with_capacity(HEADER_BYTES - 8);
        body.extend(payload_crc.to_le_bytes());
        body.extend(payload_bytes.to_le_bytes());
        body.extend(number.to_le_bytes());
        body.extend(at_millis.to_le_bytes());
        body.extend(count.to_le_bytes());
        body.extend([u8::from(*kind == Kind::Ack), *tag, 0, 0]);
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..8].copy_from_slice(&crc32c::crc32c(&body).to_le_bytes());
        bytes[8..].copy_from_slice(&body);
        bytes
    }

    /// Reads a header; none if these bytes aren't one.
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
                0 => Kind::Record,
                1 => Kind::Ack,
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

    /// Bytes of the whole frame.
    #[must_use]
    pub fn frame_bytes(&self) -> u64 {
        HEADER_BYTES as u64 + u64::from(self.payload_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::{HEADER_BYTES, Header, Kind};

    fn header() -> Header {
        Header {
            kind: Kind::Record,
            number: 7,
            at_millis: 1_767_225_600_000,
            count: 100,
            tag: 2,
            payload_bytes: 5,
            payload_crc: crc32c::crc32c(b"hello"),
        }
    }

    /// Scenario: headers of both kinds. Guarantee: they read back as written.
    #[test]
    fn a_header_reads_back_as_written() {
        for kind in [Kind::Record, Kind::Ack] {
            let header = Header { kind, ..header() };
            assert_eq!(Header::decode(&header.encode()), Some(header));
        }
        assert_eq!(header().frame_bytes(), 45);
    }

    /// Scenario: each bit of a header flipped. Guarantee: none of them is a header any more.
    #[test]
    fn a_flipped_bit_is_no_header() {
        for bit in 0..HEADER_BYTES * 8 {
            let mut bytes = header().encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Header::decode(&bytes), None, "bit {bit}");
        }
        assert_eq!(Header::decode(&[0; HEADER_BYTES]), None);
    }
}
