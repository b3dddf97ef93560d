//! Fuzz target: `millrace_fuzz::positions::document`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millrace_fuzz::positions::document(data));
