//! Fuzz target: `millrace_fuzz::columns::metrics`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millrace_fuzz::columns::metrics(data));

millrace_libfuzzer::as_protobuf!();
