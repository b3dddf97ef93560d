//! Decompressors: any bytes end in an answer within the cap; well-made bodies come back whole.
//!
//! The first byte of an input chooses the cap and whether the rest is the compressed body itself,
//! or plain text to be wrapped in a valid stream first. Plain bytes alone would hardly ever get
//! past gzip's check sum.

use millrace_wire::decompress::{ContentEncoding, DecompressError, Decompressor};

use crate::meter::peak_bytes;
use crate::reuse::Kept;

thread_local! {
    /// The context that all inputs use in turn, as a worker of the receiver does.
    static KEPT: Kept<Decompressor> = const { Kept::none() };
}

/// What a context takes beside its output: gzip's window and tables.
const CONTEXT_BYTES: usize = 128 * 1024;

/// A gzip body.
pub fn gzip(data: &[u8]) {
    run(ContentEncoding::Gzip, data, gzip_of);
}

/// A zstd body.
pub fn zstd(data: &[u8]) {
    run(ContentEncoding::Zstd, data, zstd_of);
}

fn run(encoding: ContentEncoding, data: &[u8], wrap: fn(&[u8], usize) -> Vec<u8>) {
    let Some((&control, rest)) = data.split_first() else { return };
    // Up to four times what a fuzzer's inputs hold, and small ones for refusals.
    let limit_bytes = [0, 1, 100, 4000][usize::from(control & 3)];
    let mut kept = KEPT.with(Kept::take).unwrap_or_default();
    if control & 4 == 0 {
        let first = answer(&mut kept, encoding, rest, limit_bytes);
        if control & 24 == 0 {
            let fresh = answer(&mut Decompressor::new(), encoding, rest, limit_bytes);
            assert_same(&first, &fresh);
        }
        // Whatever happened before, a good body is read.
        if control & 24 == 8 {
            let good = answer(&mut kept, encoding, &wrap(b"fine", 2), 4);
            assert_eq!(good.as_deref(), Ok(&b"fine"[..]), "a good body after another one");
        }
    } else {
        let body = wrap(rest, 1 + usize::from(control >> 3));
        let answer = answer(&mut kept, encoding, &body, limit_bytes);
        if rest.len() <= limit_bytes {
            assert_eq!(answer.as_deref(), Ok(rest), "a good body");
        } else {
            assert_eq!(answer, Err(DecompressError::TooLong { encoding, limit_bytes }));
        }
    }
    KEPT.with(|place| place.put(kept));
}

/// Both give the same bytes, or both refuse. Why libzstd refuses a corrupt body, and whether it does
/// before or after the cap is met, depends on what its context has read before.
fn assert_same(used: &Result<Vec<u8>, DecompressError>, fresh: &Result<Vec<u8>, DecompressError>) {
    if used.is_ok() || fresh.is_ok() {
        assert_eq!(used, fresh, "a used context answers otherwise");
    }
}

fn answer(
    decompressor: &mut Decompressor,
    encoding: ContentEncoding,
    body: &[u8],
    limit_bytes: usize,
) -> Result<Vec<u8>, DecompressError> {
    let (answer, bytes) = peak_bytes(|| {
        let mut out = Vec::new();
        let result = decompressor.decompress(encoding, body, limit_bytes, &mut out);
        assert!(out.capacity() <= limit_bytes + 1, "the buffer outgrew the cap");
        result.map(|()| out)
    });
    assert!(bytes <= limit_bytes + CONTEXT_BYTES, "{bytes} bytes for a cap of {limit_bytes}");
    if let Ok(plain) = &answer {
        assert!(plain.len() <= limit_bytes, "longer than the cap");
    }
    answer
}

/// `plain` as gzip members of stored blocks, `pieces` of them; every other one with a name.
fn gzip_of(plain: &[u8], pieces: usize) -> Vec<u8> {
    let mut body = Vec::new();
    for (index, piece) in chunks(plain, pieces).enumerate() {
        let named = index % 2 == 1;
        body.extend([0x1f, 0x8b, 8, if named { 8 } else { 0 }, 0, 0, 0, 0, 0, 255]);
        if named {
            body.extend(b"name\0");
        }
        let length = piece.len() as u16;
        body.push(1);
        body.extend(length.to_le_bytes());
        body.extend((!length).to_le_bytes());
        body.extend(piece);
        body.extend(crc32(piece).to_le_bytes());
        body.extend((piece.len() as u32).to_le_bytes());
    }
    body
}

/// `plain` as zstd frames of one raw block each, `pieces` of them; every other one behind a frame
/// to skip.
fn zstd_of(plain: &[u8], pieces: usize) -> Vec<u8> {
    let mut body = Vec::new();
    for (index, piece) in chunks(plain, pieces).enumerate() {
        if index % 2 == 1 {
            body.extend(0x184d_2a50_u32.to_le_bytes());
            body.extend(3_u32.to_le_bytes());
            body.extend(b"any");
        }
        body.extend(0xfd2f_b528_u32.to_le_bytes());
        // No content size, no check sum, a window of 16 KiB.
        body.extend([0, 4 << 3]);
        let header = (piece.len() as u32) << 3 | 1;
        body.extend(&header.to_le_bytes()[..3]);
        body.extend(piece);
    }
    body
}

/// At least one piece, so that there is a stream.
fn chunks(plain: &[u8], pieces: usize) -> impl Iterator<Item = &[u8]> {
    let length = plain.len().div_ceil(pieces).clamp(1, 8192);
    let none = plain.is_empty().then_some(plain);
    none.into_iter().chain(plain.chunks(length))
}

/// The check sum of RFC 1952, by a table of what each byte does.
fn crc32(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut index = 0;
        while index < 256 {
            let (mut crc, mut bit) = (index as u32, 0);
            while bit < 8 {
                crc = (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
                bit += 1;
            }
            table[index] = crc;
            index += 1;
        }
        table
    };
    let step = |crc: u32, &byte: &u8| (crc >> 8) ^ TABLE[usize::from(crc as u8 ^ byte)];
    !bytes.iter().fold(!0, step)
}
