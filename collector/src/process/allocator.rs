//! The allocator compiled in, selected by exactly one of the features `system`, `jemalloc` and
//! `mimalloc`; and the settings of glibc's allocator, which librdkafka uses in all three builds.

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

/// The allocator's name, as in image tags and metrics.
pub(crate) const NAME: &str = if cfg!(feature = "jemalloc") {
    "jemalloc"
} else if cfg!(feature = "mimalloc") {
    "mimalloc"
} else {
    "system"
};

/// A process with at most this limit has one arena. An arena retains what was freed in it, and one
/// thread allocates a message that another frees: a gateway of 64 MiB with two workers held up to
/// 86 MiB with eight arenas a core, glibc's default, and up to 63 with one, in the same processor
/// time. Larger processes have more memory, and more cores that would wait for each other.
const ONE_ARENA_UP_TO_BYTES: u64 = 256 << 20;

/// The size from which memory comes directly from the kernel: 4 MiB. Messages, columns and
/// compressed blocks are shorter, and allocated all the time; memory from the kernel costs a fault
/// and zeroing for each page, on every allocation.
const MMAP_BYTES: i32 = 4 << 20;

/// The part of its memory limit that a process may retain as freed memory at the end of each arena:
/// 16 MiB of 256. By default glibc returns what exceeds twice the longest freed block. A gateway of
/// rich spans then had 212,000 page faults instead of 21,000 with this setting, and 0.66 M spans
/// per CPU-second instead of 0.76; an edge of one arena 1.7 M instead of 2.1.
const RETAINED_PART: u64 = 16;
/// At least a message and a compressed block; at most 64 MiB an arena, whatever the limit.
const RETAINED_BYTES: std::ops::RangeInclusive<u64> = (4 << 20)..=(64 << 20);

/// For scraped targets, memory from this size on is allocated from the kernel and returned to it.
/// glibc raises this size, at first 128 KiB, to that of each such block it frees, up to 32 MiB:
/// lists that grow while a long body is read for the first time then stay in its arenas. With this
/// setting a collector of a body of 195 MB ended with 97 MiB instead of 121. Longer blocks are
/// allocated once in many scrapes, or live as long as their target.
const SCRAPED_MMAP_BYTES: i32 = 1 << 20;

/// Adapts glibc's allocator to the memory limit, and to scraped targets if there are any. The
/// caller runs it before the first thread starts: an existing arena stays.
pub(crate) fn tune_allocator(limit_bytes: u64, scrapes: bool) {
    if limit_bytes <= ONE_ARENA_UP_TO_BYTES {
        set(Setting::OneArena);
    }
    if scrapes {
        set(Setting::MmapFrom(SCRAPED_MMAP_BYTES));
        return;
    }
    let (least, most) = RETAINED_BYTES.into_inner();
    let retained_bytes = (limit_bytes / RETAINED_PART).clamp(least, most);
    set(Setting::MmapFrom(MMAP_BYTES));
    set(Setting::TrimFrom(i32::try_from(retained_bytes).unwrap_or(i32::MAX)));
}

/// A setting of glibc's allocator.
enum Setting {
    OneArena,
    /// The size from which memory comes directly from the kernel.
    MmapFrom(i32),
    /// The size from which free memory at an arena's end is returned.
    TrimFrom(i32),
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code)]
fn set(setting: Setting) {
    let (parameter, value) = match setting {
        Setting::OneArena => (libc::M_ARENA_MAX, 1),
        Setting::MmapFrom(bytes) => (libc::M_MMAP_THRESHOLD, bytes),
        Setting::TrimFrom(bytes) => (libc::M_TRIM_THRESHOLD, bytes),
    };
    // SAFETY: `mallopt` takes two numbers and touches only the allocator's own settings, under its
    // lock. It can't fail for these settings; if it did, the default would stay.
    unsafe { libc::mallopt(parameter, value) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn set(setting: Setting) {
    match setting {
        Setting::OneArena | Setting::MmapFrom(_) | Setting::TrimFrom(_) => {}
    }
}
