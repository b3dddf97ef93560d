//! Timed waits of librdkafka that a step of the wall clock doesn't lengthen.
//!
//! Every thread of librdkafka waits for work with `cnd_timedwait` of C11, until a wall time that it
//! computes right before. When the clock goes back an hour during the wait, the wait takes an hour
//! longer unless work comes: timers and heartbeats stop, and joining a producer's thread hangs.
//! A program that links this crate has its own `cnd_timedwait`, which the linker takes before the C
//! library's: it turns the wall time into a length at once, and waits by the monotonic clock.
//! Observed with the fault `clock_step` (docs/internals/faults.md).
//!
//! Limits: Linux with glibc 2.30 or later, as the images have; elsewhere it is empty. It must hold
//! nothing else: it replaces a function of the C library in the entire process.

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod wait;

/// Called once by a program's `main`, so that the linker takes this crate in.
pub fn link_clock() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    std::hint::black_box(wait::LINKED_WAIT);
}
