//! The allocator compiled in: exactly one of the features `system`, `jemalloc` and `mimalloc`; and
//! the number of arenas of glibc's allocator, which librdkafka uses in all three builds.

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

/// Fits glibc's allocator to the memory limit. To be called before the first thread starts: an
/// arena that is there stays.
pub(crate) fn fit(limit_bytes: u64) {
    if limit_bytes < ONE_ARENA_BELOW_BYTES {
        one_arena();
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code)]
fn one_arena() {
    // SAFETY: `mallopt` takes two numbers and touches only the allocator's own settings, under its
    // lock. It can't fail for this setting; if it did, the default would stay.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn one_arena() {}
