//! Fuzz target: `millrace_fuzz::request::otlp`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millrace_fuzz::request::otlp(data));
