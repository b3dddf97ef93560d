//! Fuzz target: `millrace_fuzz::pods::events`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millrace_fuzz::pods::events(data));
