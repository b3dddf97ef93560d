//! Fuzz target: `millrace_fuzz::walk::metrics`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millrace_fuzz::walk::metrics(data));

millrace_libfuzzer::as_protobuf!();
