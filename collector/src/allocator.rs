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

/// A process with at most this has one arena. Each keeps what was freed in it, and a message is
/// allocated by one thread and freed by another: a gateway of 64 MiB with two workers held up to
/// 86 MiB with eight arenas a core, glibc's default, and up to 63 with one, in the same processor
/// time. Larger processes have the room, and more cores that would wait for each other.
const ONE_ARENA_UP_TO_BYTES: u64 = 256 << 20;

/// From which size on memory is the kernel's own: 4 MiB. Messages, columns and compressed blocks
/// are shorter, and made all the time; of the kernel's own memory each page costs a fault and its
/// zeros, each time anew.
const MMAP_BYTES: i32 = 4 << 20;

/// The part of its memory limit that a process may keep at the end of each arena of what was freed:
/// of 256 MiB 16. By itself glibc gives back what is more than twice the longest freed. A gateway
/// of rich spans then had 212,000 page faults where it has 21,000 with this, and 0.66 M spans per
/// CPU-second instead of 0.76; an edge of one arena 1.7 M instead of 2.1.
const KEPT_PART: u64 = 16;
/// At least a message and a compressed block; at most 64 MiB an arena, whatever the limit.
const KEPT_BYTES: std::ops::RangeInclusive<u64> = (4 << 20)..=(64 << 20);

/// Where targets are scraped, memory from this size on is asked of the kernel and given back to it.
/// glibc raises this size, 128 KiB at first, to that of whatever such memory is freed, 32 MiB at
/// most: lists that grow while a long body is read for the first time then stay in its arenas. With
/// this a collector of a body of 195 MB ended with 97 MiB instead of 121. What is longer than this
/// is allocated once in many scrapes, or lives as long as its target.
const SCRAPED_MMAP_BYTES: i32 = 1 << 20;

/// Fits glibc's allocator to the memory limit, and to targets if there are some. To be called
/// before the first thread starts: an arena that is there stays.
pub(crate) fn fit(limit_bytes: u64, scrapes: bool) {
    if limit_bytes <= ONE_ARENA_UP_TO_BYTES {
        set(Setting::OneArena);
    }
    if scrapes {
        set(Setting::MmapFrom(SCRAPED_MMAP_BYTES));
        return;
    }
    let (least, most) = KEPT_BYTES.into_inner();
    let kept_bytes = (limit_bytes / KEPT_PART).clamp(least, most);
    set(Setting::MmapFrom(MMAP_BYTES));
    set(Setting::TrimFrom(i32::try_from(kept_bytes).unwrap_or(i32::MAX)));
}

/// What glibc's allocator can be told.
enum Setting {
    OneArena,
    /// From which size on memory is the kernel's own.
    MmapFrom(i32),
    /// From which size on what is free at an arena's end is given back.
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
