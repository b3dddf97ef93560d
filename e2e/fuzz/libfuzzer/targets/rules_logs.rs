//! Fuzz target: `millrace_fuzz::rules::logs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millrace_fuzz::rules::logs(data));

millrace_libfuzzer::as_protobuf!();
