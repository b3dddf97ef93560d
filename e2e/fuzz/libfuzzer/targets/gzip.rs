//! Fuzz target: `millrace_fuzz::decompress::gzip`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millrace_fuzz::decompress::gzip(data));
