//! Fuzz target: `millrace_fuzz::pods::annotations`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millrace_fuzz::pods::annotations(data));
