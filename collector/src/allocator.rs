//! The allocator compiled in: exactly one of the features `system`, `jemalloc` and `mimalloc`; and
//! what glibc's allocator is told, which librdkafka uses in all three builds.

#[cfg(any(
    all(feature = "system", feature = "jemalloc"),
    all(feature = "system", feature = "mimalloc"),
    all(feature = "jemalloc", feature = "mimalloc"),
))]
compile_error!("choose one allocator: build with --no-default-features --features <one of them>");

#[cfg(not(any(feature = "system", feature = "jemalloc", feature = "mimalloc")))]
compile_error!("choose an allocator: one of the features system, jemalloc and mimalloc");

#[cfg(feature = "jemalloc")]
#[global_allocator]
static GLOBAL: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[cfg(feature = "mimalloc")]
#[global_allocator]
static GLOBAL: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Its name, as in image tags and metrics.
pub(crate) const NAME: &str = if cfg!(feature = "jemalloc") {
    "jemalloc"
} else if cfg!(feature = "mimalloc") {
    "mimalloc"
} else {
    "system"
};

/// A process with less than this has one arena. Each keeps what was freed in it, and a message is
/// allocated by one thread and freed by another: a gateway of 64 MiB with two workers held up to
/// 86 MiB with eight arenas a core, glibc's default, and up to 63 with one, in the same processor
/// time. Larger processes have the room, and more cores that would wait for each other.
const ONE_ARENA_BELOW_BYTES: u64 = 256 << 20;

/// Where targets are scraped, memory from this size on is asked of the kernel and given back to it.
/// glibc raises this size, 128 KiB at first, to that of whatever such memory is freed, 32 MiB at
/// most: lists that grow while a long body is read for the first time then stay in its arenas. With
/// this a collector of a body of 195 MB ended with 97 MiB instead of 121. What is longer than this
/// is allocated once in many scrapes, or lives as long as its target.
const SCRAPED_MMAP_BYTES: i32 = 1 << 20;

/// Fits glibc's allocator to the memory limit, and to targets if there are some. To be called
/// before the first thread starts: an arena that is there stays.
pub(crate) fn fit(limit_bytes: u64, scrapes: bool) {
    if limit_bytes < ONE_ARENA_BELOW_BYTES {
        set(Setting::OneArena);
    }
    if scrapes {
        set(Setting::MmapFrom(SCRAPED_MMAP_BYTES));
    }
}

/// What glibc's allocator can be told.
enum Setting {
    OneArena,
    /// From which size on memory is the kernel's own.
    MmapFrom(i32),
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code)]
fn set(setting: Setting) {
    let (parameter, value) = match setting {
        Setting::OneArena => (libc::M_ARENA_MAX, 1),
        Setting::MmapFrom(bytes) => (libc::M_MMAP_THRESHOLD, bytes),
    };
    // SAFETY: `mallopt` takes two numbers and touches only the allocator's own settings, under its
    // lock. It can't fail for these settings; if it did, the default would stay.
    unsafe { libc::mallopt(parameter, value) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn set(setting: Setting) {
    match setting {
        Setting::OneArena | Setting::MmapFrom(_) => {}
    }
}
