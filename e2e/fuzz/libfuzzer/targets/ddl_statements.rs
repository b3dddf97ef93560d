//! Fuzz target: `millrace_fuzz::ddl::statements`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millrace_fuzz::ddl::statements(data));
