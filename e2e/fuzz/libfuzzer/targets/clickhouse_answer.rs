//! Fuzz target: `millrace_fuzz::answer::clickhouse`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millrace_fuzz::answer::clickhouse(data));
