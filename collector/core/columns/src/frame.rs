//! ClickHouse's compression frames: a checksum, a method byte, two sizes and an LZ4 block.
//!
//! A body under `decompress=1` consists of them, and the native protocol uses them too.

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
/// log records and 5 to 9 % for longer spans, with bodies that are 0.04 to 1.2 % longer; points
/// take the same time, and their 9 bytes grow by 7 %. 4 and 8 save no more (columns-bench, `take`).
pub const ACCELERATION: i32 = 2;

/// Appends one frame with `plain` to `out`. `plain` has at most [`FRAME_BYTES`]; the caller retains
/// `scratch` between frames.
///
/// LZ4 writes into `scratch` and the result is copied: fresh zeros for a frame behind `out` would
/// cost more for each frame, and make `out` grow to several times its contents.
pub(crate) fn append_lz4(plain: &[u8], scratch: &mut Vec<u8>, out: &mut Vec<u8>) {
    debug_assert!(plain.len() <= FRAME_BYTES);
    let start = out.len();
    // It is as long as this frame may need: a set of few rows, of which every partition may have
    // one, doesn't hold a complete frame's buffer.
    if scratch.len() < compress_bound(plain.len()) {
        scratch.resize(compress_bound(plain.len()), 0);
    }
    out.extend_from_slice(&[0; CHECKSUM_BYTES + HEADER_BYTES]);
    let mode = Some(CompressionMode::FAST(ACCELERATION));
    match lz4::block::compress_to_buffer(plain, mode, false, scratch) {
        Ok(written) => {
            out.extend_from_slice(&scratch[..written]);
            seal_frame(METHOD_LZ4, plain.len(), &mut out[start..]);
        }
        // This can't happen: the buffer has the size that LZ4 requires. A stored frame is correct
        // too.
        Err(_) => {
            out.truncate(start);
            append_stored(plain, scratch, out);
        }
    }
}

/// Appends one frame with `plain` uncompressed.
pub(crate) fn append_stored(plain: &[u8], _scratch: &mut Vec<u8>, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; CHECKSUM_BYTES + HEADER_BYTES]);
    out.extend_from_slice(plain);
    seal_frame(METHOD_NONE, plain.len(), &mut out[start..]);
}

/// LZ4's own formula for the maximum compressed length of `plain_bytes`.
const fn compress_bound(plain_bytes: usize) -> usize {
    plain_bytes + plain_bytes / 255 + 16
}

/// Fills in the header and checksum of a frame whose body is in place.
fn seal_frame(method: u8, plain_bytes: usize, frame: &mut [u8]) {
    // The stored size counts the header but not the checksum. Both fit: a frame has at most 1 MiB.
    let stored_bytes = (frame.len() - CHECKSUM_BYTES) as u32;
    let header = &mut frame[CHECKSUM_BYTES..];
    header[0] = method;
    header[1..5].copy_from_slice(&stored_bytes.to_le_bytes());
    header[5..9].copy_from_slice(&(plain_bytes as u32).to_le_bytes());
    let sum = frame_checksum(&frame[CHECKSUM_BYTES..]);
    frame[..CHECKSUM_BYTES].copy_from_slice(&sum);
}

/// Returns the checksum of a frame's header and body: CityHash128 in its version 1.0.2, which
/// ClickHouse froze; the low half first, each half little-endian.
#[must_use]
pub fn frame_checksum(bytes: &[u8]) -> [u8; 16] {
    let hash = cityhash_102_128(bytes);
    // The crate returns the first half in the high bits.
    hash.rotate_left(64).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Guarantee: checksums equal those of the server's own implementation (from its Python
    /// binding).
    #[test]
    fn checksums_are_the_servers() {
        let numbers: Vec<u8> = (0..200).collect();
        for (bytes, sum) in [
            (&b""[..], 82_332_263_323_914_296_566_372_529_678_324_145_705_u128),
            (b"moscow", 86_132_672_424_131_727_657_450_373_531_709_766_134),
            (&numbers, 52_293_982_789_717_144_737_874_227_164_181_112_988),
        ] {
            // The binding returns the first half in the high bits.
            assert_eq!(frame_checksum(bytes), sum.rotate_left(64).to_le_bytes());
        }
    }

    /// Guarantee: bytes that LZ4 can't shorten still make a frame of the size in its header.
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
