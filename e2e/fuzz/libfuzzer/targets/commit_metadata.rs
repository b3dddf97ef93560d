//! Fuzz target: `millrace_fuzz::intent::metadata`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millrace_fuzz::intent::metadata(data));
