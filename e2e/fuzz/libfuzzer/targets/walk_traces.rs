//! Fuzz target: `millrace_fuzz::walk::traces`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millrace_fuzz::walk::traces(data));

millrace_libfuzzer::as_protobuf!();
