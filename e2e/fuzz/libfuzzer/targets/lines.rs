//! Fuzz target: `millrace_fuzz::lines::file`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millrace_fuzz::lines::file(data));
