//! The allocator compiled in: exactly one of the features `system`, `jemalloc` and `mimalloc`.

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
