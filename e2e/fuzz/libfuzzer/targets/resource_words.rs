//! Fuzz target: `millrace_fuzz::resource::word`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millrace_fuzz::resource::word(data));
