//! Fuzz target: `millrace_fuzz::rules::metrics`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millrace_fuzz::rules::metrics(data));

millrace_libfuzzer::as_protobuf!();
