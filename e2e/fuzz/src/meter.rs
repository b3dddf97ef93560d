//! Counts the memory that a piece of work takes, so that "bounded" can be asserted.
//!
//! It is the allocator of whatever links this crate: fuzz targets and the replay. Each thread
//! counts its own; memory that C libraries take for themselves isn't seen.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static HELD_BYTES: Cell<isize> = const { Cell::new(0) };
    static PEAK_BYTES: Cell<isize> = const { Cell::new(0) };
}

struct Metered;

#[global_allocator]
static ALLOCATOR: Metered = Metered;

fn add(bytes: isize) {
    let held = HELD_BYTES.get() + bytes;
    HELD_BYTES.set(held);
    if held > PEAK_BYTES.get() {
        PEAK_BYTES.set(held);
    }
}

// SAFETY: everything is the system allocator's own doing; counting allocates nothing, because the
// counters are plain cells that need neither construction nor destruction.
unsafe impl GlobalAlloc for Metered {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size() as isize);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(layout.size() as isize);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        add(-(layout.size() as isize));
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both may exist for a moment.
        add(size as isize);
        add(-(layout.size() as isize));
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// Does `work`, and says how many bytes more than before were allocated at its worst moment.
pub fn peak_bytes<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD_BYTES.get();
    PEAK_BYTES.set(before);
    let result = work();
    (result, usize::try_from(PEAK_BYTES.get() - before).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::peak_bytes;

    /// Scenario: memory taken and given back. Guarantee: the peak is seen, what follows isn't.
    #[test]
    fn the_peak_is_seen() {
        let (length, peak) = peak_bytes(|| vec![7_u8; 100_000].len());
        assert_eq!(length, 100_000);
        assert!((100_000..110_000).contains(&peak), "{peak}");
        assert!(peak_bytes(|| ()).1 < 1000);
    }
}
