//! Tests of the private code of `decompress.rs`.

use super::*;
use flate2::{Compression, write::GzEncoder};
use proptest::prelude::*;
use std::io::Write;

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

fn pack(encoding: ContentEncoding, plain: &[u8]) -> Vec<u8> {
    match encoding {
        ContentEncoding::Gzip => gzip(plain),
        ContentEncoding::Zstd => zstd::bulk::compress(plain, 3).unwrap(),
    }
}

const BOTH: [ContentEncoding; 2] = [ContentEncoding::Gzip, ContentEncoding::Zstd];

/// A body of exactly the limit passes, one byte more doesn't, and the buffer stays bounded.
#[test]
fn the_limit_is_exact() {
    let mut decompressor = Decompressor::new();
    for encoding in BOTH {
        for length in [0, 1, STEP_BYTES, 3 * STEP_BYTES + 7] {
            let plain = vec![7; length];
            let body = pack(encoding, &plain);
            let mut out = Vec::new();
            decompressor.decompress(encoding, &body, length, &mut out).unwrap();
            assert_eq!(out, plain);
            if length > 0 {
                let mut out = Vec::new();
                let error =
                    decompressor.decompress(encoding, &body, length - 1, &mut out).unwrap_err();
                let limit_bytes = length - 1;
                assert_eq!(error, DecompressError::TooLong { encoding, limit_bytes });
                assert!(out.capacity() <= length, "{} > {length}", out.capacity());
            }
        }
    }
}

/// A gigabyte of zeros in a small body takes no more memory than the limit.
#[test]
fn a_bomb_stops_at_the_limit() {
    const LIMIT: usize = 1 << 20;
    let chunk = vec![0; 1 << 20];
    let mut gz = GzEncoder::new(Vec::new(), Compression::fast());
    let mut zs = zstd::Encoder::new(Vec::new(), 1).unwrap();
    for _ in 0..256 {
        gz.write_all(&chunk).unwrap();
        zs.write_all(&chunk).unwrap();
    }
    for (encoding, body) in [
        (ContentEncoding::Gzip, gz.finish().unwrap()),
        (ContentEncoding::Zstd, zs.finish().unwrap()),
    ] {
        let mut out = Vec::new();
        let result = Decompressor::new().decompress(encoding, &body, LIMIT, &mut out);
        assert_eq!(result, Err(DecompressError::TooLong { encoding, limit_bytes: LIMIT }));
        assert!(out.capacity() <= LIMIT + 1);
    }
}

/// A frame with a window over 8 MiB is refused: its memory would not be bounded.
#[test]
fn a_huge_zstd_window_is_refused() {
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.window_log(27).unwrap();
    encoder.write_all(b"plain").unwrap();
    let body = encoder.finish().unwrap();
    let mut out = Vec::new();
    let result = Decompressor::new().decompress(ContentEncoding::Zstd, &body, 1 << 30, &mut out);
    assert!(matches!(result, Err(DecompressError::Corrupt { .. })), "{result:?}");
}

/// Several gzip members or zstd frames in a row are one body.
#[test]
fn members_and_frames_in_a_row_are_one_body() {
    for encoding in BOTH {
        let body = [pack(encoding, b"one "), pack(encoding, b""), pack(encoding, b"two")].concat();
        let mut out = Vec::new();
        Decompressor::new().decompress(encoding, &body, 100, &mut out).unwrap();
        assert_eq!(out, b"one two");
    }
}

/// Scenario: as many empty members as allowed, and one more. Guarantee: few bytes can't cause much
/// work.
#[test]
fn a_gzip_body_has_so_many_members_at_most() {
    let limit = GZIP_MEMBERS_MAX as usize;
    let body = pack(ContentEncoding::Gzip, b"").repeat(limit + 1);
    let length = body.len() / (limit + 1) * limit;
    let mut out = Vec::new();
    let mut decompressor = Decompressor::new();
    decompressor.decompress(ContentEncoding::Gzip, &body[..length], 100, &mut out).unwrap();
    let error = decompressor.decompress(ContentEncoding::Gzip, &body, 100, &mut out).unwrap_err();
    assert!(error.to_string().contains("more than 4096 members"), "{error}");
}

/// Names are those of HTTP and gRPC.
#[test]
fn encodings_have_their_registered_names() {
    for encoding in BOTH {
        assert_eq!(ContentEncoding::from_name(encoding.as_str()), Some(encoding));
    }
    assert_eq!(ContentEncoding::from_name("br"), None);
}

proptest! {
    /// Compressed data comes back with reused contexts and buffers; a truncated body is refused and
    /// leaves the decompressor usable.
    #[test]
    fn bodies_round_trip_and_cut_ones_are_refused(
        plains in proptest::collection::vec(proptest::collection::vec(0_u8..8, 0..3000), 1..5),
        cut in any::<proptest::sample::Index>(),
    ) {
        let mut decompressor = Decompressor::new();
        let mut out = Vec::new();
        for plain in &plains {
            for encoding in BOTH {
                let body = pack(encoding, plain);
                let end = cut.index(body.len());
                let result = decompressor.decompress(encoding, &body[..end], 4000, &mut out);
                prop_assert!(result.is_err());
                decompressor.decompress(encoding, &body, 4000, &mut out).unwrap();
                prop_assert_eq!(&out, plain);
            }
        }
    }

    /// Any bytes give a result, within the limit.
    #[test]
    fn any_bytes_end_in_an_answer(body in proptest::collection::vec(any::<u8>(), 0..300)) {
        for encoding in BOTH {
            let mut out = Vec::new();
            let _ = Decompressor::new().decompress(encoding, &body, 1000, &mut out);
            prop_assert!(out.len() <= 1001);
        }
    }
}
