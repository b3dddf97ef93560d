//! Fuzz target: `millrace_fuzz::walk::logs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millrace_fuzz::walk::logs(data));

millrace_libfuzzer::as_protobuf!();
