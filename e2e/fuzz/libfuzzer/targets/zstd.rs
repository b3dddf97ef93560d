//! Fuzz target: `millrace_fuzz::decompress::zstd`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millrace_fuzz::decompress::zstd(data));
