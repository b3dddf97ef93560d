//! Fuzz target: `millrace_fuzz::json::text`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millrace_fuzz::json::text(data));
