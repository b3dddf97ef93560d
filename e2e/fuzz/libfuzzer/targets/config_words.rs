//! Fuzz target: `millrace_fuzz::config::words`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millrace_fuzz::config::words(data));
