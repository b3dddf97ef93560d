//! Fuzz target: `millrace_fuzz::rules::text`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millrace_fuzz::rules::text(data));
