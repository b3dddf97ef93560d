//! Buffers kept from batch to batch: how much memory one may keep.
//!
//! Batches of one kind are of like size, so a buffer that keeps what it has grown to makes no
//! further allocation. After an outlier it gives memory back by halves: a batch of ten times the
//! usual size is forgotten after four batches, and sizes that go up and down do no harm.

/// Capacity that is always kept: 64 KiB. With about 40 buffers to a block it is 3 MiB at the most.
const KEPT_BYTES: usize = 64 * 1024;

/// A buffer that was used to less than a quarter gives half of itself back.
const USED_PART: usize = 4;

/// Whether a buffer of `capacity_bytes` was used too little to keep all of it.
pub(crate) const fn is_wasteful(capacity_bytes: usize, used_bytes: usize) -> bool {
    capacity_bytes > KEPT_BYTES && used_bytes < capacity_bytes / USED_PART
}

/// Empties `buffer`, and shortens it if it was used too little.
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

    /// A buffer used alike keeps its memory; one that had an outlier gives it back in a few rounds.
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
        let kept = buffer.capacity();
        buffer.resize(10_000, 0);
        clear(&mut buffer);
        clear(&mut buffer);
        assert!(buffer.capacity() >= kept / 4);
    }
}
