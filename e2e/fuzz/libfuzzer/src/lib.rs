//! What the fuzz targets share: how their inputs are changed.

/// Has a target's inputs changed as protobuf behind a first byte of their own.
#[macro_export]
macro_rules! as_protobuf {
    () => {
        libfuzzer_sys::fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
            let room = data.len().min(max_size);
            millrace_fuzz::mutate::protobuf(&mut data[..room], size, 1, seed, |data, length| {
                libfuzzer_sys::fuzzer_mutate(data, length, data.len())
            })
        });
    };
}
