//! Fuzz target: `millrace_fuzz::columns::logs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millrace_fuzz::columns::logs(data));

millrace_libfuzzer::as_protobuf!();
