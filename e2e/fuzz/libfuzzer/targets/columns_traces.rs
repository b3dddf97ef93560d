//! Fuzz target: `millrace_fuzz::columns::traces`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millrace_fuzz::columns::traces(data));

millrace_libfuzzer::as_protobuf!();
