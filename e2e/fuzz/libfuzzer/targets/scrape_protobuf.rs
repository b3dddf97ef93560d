//! Fuzz target: `millrace_fuzz::scrape::protobuf`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millrace_fuzz::scrape::protobuf(data));
