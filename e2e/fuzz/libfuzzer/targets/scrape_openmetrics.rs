//! Fuzz target: `millrace_fuzz::scrape::open_metrics`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millrace_fuzz::scrape::open_metrics(data));
