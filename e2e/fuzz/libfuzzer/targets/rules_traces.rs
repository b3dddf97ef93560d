//! Fuzz target: `millrace_fuzz::rules::traces`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millrace_fuzz::rules::traces(data));

millrace_libfuzzer::as_protobuf!();
