//! Unit tests of `files/unpack.rs`.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;

fn packed(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn open(bytes: &[u8]) -> io::Result<Unpack> {
    let mut file = tempfile::tempfile()?;
    file.write_all(bytes)?;
    std::io::Seek::rewind(&mut file)?;
    Unpack::new(file)
}

/// Reads everything from `offset` on, like a reader that consumes `step` bytes of each read.
fn read_all(unpack: &mut Unpack, mut offset: u64, step: usize) -> Vec<u8> {
    let (mut all, mut buffer) = (Vec::new(), vec![0; 1000]);
    loop {
        let UnpackedSlice { length, size } = unpack.read(offset, &mut buffer);
        let taken = length.min(step);
        all.extend_from_slice(&buffer[..taken]);
        offset += taken as u64;
        if offset >= size || taken == 0 && unpack.read_fault().is_some() {
            return all;
        }
    }
}

fn text(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|n| b'a' + (n * n / 7 % 26) as u8).collect()
}

/// Scenario: a text of 10 MB in two parts, read from several offsets in small steps; an empty one.
/// Guarantee: exactly the text from there on, and an end.
#[test]
fn text_comes_from_any_place_to_its_end() {
    let whole = text(10_000_000);
    let both = [packed(&whole[..6_000_000]), packed(&whole[6_000_000..])].concat();
    for offset in [0, 1, 5000, 9_990_000, 10_000_000] {
        let mut unpack = open(&both).unwrap();
        assert_eq!(unpack.head(), &whole[..FINGERPRINT_BYTES]);
        assert!(read_all(&mut unpack, offset as u64, 700) == whole[offset..], "{offset}");
        assert!(unpack.read_fault().is_none());
    }
    let mut empty = open(&packed(b"")).unwrap();
    assert!(read_all(&mut empty, 0, 700).is_empty() && empty.read_fault().is_none());
}

/// Scenario: a compressed file cut at every length, and with each of its last bytes changed.
/// Guarantee: it never reaches an end: the error comes at once, or after correct text.
#[test]
fn what_is_torn_or_damaged_has_no_end() {
    let whole = text(3000);
    let bytes = packed(&whole);
    for cut in 0..bytes.len() {
        let Ok(mut unpack) = open(&bytes[..cut]) else { continue };
        let came = read_all(&mut unpack, 0, 700);
        assert!(unpack.read_fault().is_some() && whole.starts_with(&came), "cut at {cut}");
    }
    for changed in bytes.len() - 8..bytes.len() {
        let mut bytes = bytes.clone();
        bytes[changed] ^= 1;
        let mut unpack = open(&bytes).unwrap();
        assert!(read_all(&mut unpack, 0, 700) == whole && unpack.read_fault().is_some());
    }
}
