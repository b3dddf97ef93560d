//! Fuzz target: `millrace_fuzz::scrape::escaping`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millrace_fuzz::scrape::escaping(data));
