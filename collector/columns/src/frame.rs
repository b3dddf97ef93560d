//! ClickHouse's compression frames: a checksum, a method byte, two sizes and an LZ4 block.
//!
//! This is what a body holds under `decompress=1`, and what the native protocol compresses with.

use cityhash_rs::cityhash_102_128;
use lz4::block::CompressionMode;

/// Plain bytes in one frame: 1 MiB. Large frames compress better and cost fewer calls; the server
/// reads up to 1 GiB, and 1 MiB stays inside a core's second-level cache.
pub const FRAME_BYTES: usize = 1024 * 1024;

/// Bytes of the checksum before the header.
const CHECKSUM_BYTES: usize = 16;

/// Method byte, compressed size and plain size.
const HEADER_BYTES: usize = 9;

/// Method byte of LZ4.
const METHOD_LZ4: u8 = 0x82;

/// Method byte of a frame that isn't compressed.
const METHOD_NONE: u8 = 0x02;

/// LZ4's acceleration; 1 is the plain algorithm. 2 takes 26 % less time for lean spans, 17 % for
/// log records and 5 to 9 % for longer spans, where bodies have 0.04 to 1.2 % more bytes; points
/// take as long, and their 9 bytes become 7 % more. 4 and 8 save no more (columns-bench, `take`).
pub const ACCELERATION: i32 = 2;

/// Appends one frame with `plain` in it to `out`. `plain` has at most [`FRAME_BYTES`]; `scratch`
/// is kept by the caller between frames.
///
/// LZ4 writes into `scratch` and the result is copied: a frame's worth of fresh zeros behind `out`
/// for each frame costs more, and would make `out` grow to several times what it holds.
pub(crate) fn append_lz4(plain: &[u8], scratch: &mut Vec<u8>, out: &mut Vec<u8>) {
    debug_assert!(plain.len() <= FRAME_BYTES);
    let start = out.len();
    // As long as this frame may need: a set of few rows, of which there may be one for every
    // partition, doesn't keep a whole frame's worth.
    if scratch.len() < bound(plain.len()) {
        scratch.resize(bound(plain.len()), 0);
    }
    out.extend_from_slice(&[0; CHECKSUM_BYTES + HEADER_BYTES]);
    let mode = Some(CompressionMode::FAST(ACCELERATION));
    match lz4::block::compress_to_buffer(plain, mode, false, scratch) {
        Ok(written) => {
            out.extend_from_slice(&scratch[..written]);
            seal(METHOD_LZ4, plain.len(), &mut out[start..]);
        }
        // Can't be: the buffer has the size that LZ4 itself asks for. A stored frame is as good.
        Err(_) => {
            out.truncate(start);
            append_stored(plain, scratch, out);
        }
    }
}

/// Appends one frame with `plain` in it as it is.
pub(crate) fn append_stored(plain: &[u8], _scratch: &mut Vec<u8>, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; CHECKSUM_BYTES + HEADER_BYTES]);
    out.extend_from_slice(plain);
    seal(METHOD_NONE, plain.len(), &mut out[start..]);
}

/// LZ4's own formula for the most bytes that `plain_bytes` can become.
const fn bound(plain_bytes: usize) -> usize {
    plain_bytes + plain_bytes / 255 + 16
}

/// Fills in the header and checksum of a frame whose body is in place.
fn seal(method: u8, plain_bytes: usize, frame: &mut [u8]) {
    // The stored size counts the header but not the checksum. Both fit: a frame holds 1 MiB.
    let stored_bytes = (frame.len() - CHECKSUM_BYTES) as u32;
    let header = &mut frame[CHECKSUM_BYTES..];
    header[0] = method;
    header[1..5].copy_from_slice(&stored_bytes.to_le_bytes());
    header[5..9].copy_from_slice(&(plain_bytes as u32).to_le_bytes());
    let sum = checksum(&frame[CHECKSUM_BYTES..]);
    frame[..CHECKSUM_BYTES].copy_from_slice(&sum);
}

/// The checksum of a frame's header and body: CityHash128 in its version 1.0.2, which ClickHouse
/// froze; the low half first, each half little-endian.
#[must_use]
pub fn checksum(bytes: &[u8]) -> [u8; 16] {
    let hash = cityhash_102_128(bytes);
    // The crate gives the first half in the high bits.
    hash.rotate_left(64).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sums that the server's own implementation gives (through its Python binding).
    #[test]
    fn checksums_are_the_servers() {
        let numbers: Vec<u8> = (0..200).collect();
        for (bytes, sum) in [
            (&b""[..], 82_332_263_323_914_296_566_372_529_678_324_145_705_u128),
            (b"moscow", 86_132_672_424_131_727_657_450_373_531_709_766_134),
            (&numbers, 52_293_982_789_717_144_737_874_227_164_181_112_988),
        ] {
            // The binding gives the first half in the high bits.
            assert_eq!(checksum(bytes), sum.rotate_left(64).to_le_bytes());
        }
    }

    /// Bytes that LZ4 can't shorten still make a frame of the size its header says.
    #[test]
    fn incompressible_bytes_make_a_frame() {
        let mut state = 1_u64;
        let noise: Vec<u8> = (0..FRAME_BYTES)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            })
            .collect();
        let mut out = Vec::new();
        append_lz4(&noise, &mut Vec::new(), &mut out);
        let stored = u32::from_le_bytes(out[17..21].try_into().unwrap()) as usize;
        assert_eq!(out.len(), CHECKSUM_BYTES + stored);
        let body = &out[CHECKSUM_BYTES + HEADER_BYTES..];
        let plain = lz4::block::decompress(body, Some(FRAME_BYTES as i32)).unwrap();
        assert!(plain == noise);
    }
}
