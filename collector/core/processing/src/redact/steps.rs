//! Counts the bytes that detectors read, in tests alone: the proof that reading is linear.

#[cfg(test)]
thread_local! {
    static STEPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Counts bytes that a detector read.
#[inline]
pub(super) fn count(_bytes: usize) {
    #[cfg(test)]
    STEPS.set(STEPS.get() + _bytes as u64);
}

/// The bytes since the last call.
#[cfg(test)]
pub(super) fn take() -> u64 {
    STEPS.replace(0)
}
