//! Limits how much memory a buffer retains from batch to batch.
//!
//! Batches of one kind have similar sizes, so a buffer that retains its capacity needs no further
//! allocation. After an outlier it frees memory by halves: a batch of ten times the usual size is
//! forgotten after four batches, and varying sizes do no harm.

/// The capacity that is always retained: 64 KiB. With about 40 buffers to a block it is 3 MiB at
/// most.
const RETAINED_BYTES: usize = 64 * 1024;

/// A buffer of which less than a quarter was used frees half of itself.
const USED_PART: usize = 4;

/// Returns whether too little of a buffer of `capacity_bytes` was used to retain all of it.
pub(crate) const fn is_wasteful(capacity_bytes: usize, used_bytes: usize) -> bool {
    capacity_bytes > RETAINED_BYTES && used_bytes < capacity_bytes / USED_PART
}

/// Empties `buffer`, and shrinks it if too little of it was used.
pub(crate) fn clear<T>(buffer: &mut Vec<T>) {
    let used_bytes = buffer.len() * size_of::<T>();
    let capacity_bytes = buffer.capacity() * size_of::<T>();
    buffer.clear();
    if is_wasteful(capacity_bytes, used_bytes) {
        buffer.shrink_to(buffer.capacity() / 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Guarantee: a buffer with similar batches retains its memory; one with an outlier frees it in
    /// a few rounds.
    #[test]
    fn an_outlier_is_forgotten_in_a_few_rounds() {
        let mut buffer: Vec<u64> = vec![0; 1 << 20];
        clear(&mut buffer);
        assert_eq!(buffer.capacity(), 1 << 20);
        let mut rounds = 0;
        while buffer.capacity() > 64 * 1024 {
            buffer.extend_from_slice(&[1; 10_000]);
            clear(&mut buffer);
            rounds += 1;
        }
        assert_eq!(rounds, 4);
        let capacity = buffer.capacity();
        buffer.resize(10_000, 0);
        clear(&mut buffer);
        clear(&mut buffer);
        assert!(buffer.capacity() >= capacity / 4);
    }
}
