//! A wall clock that a test moves, for the programs that it starts with this library preloaded
//! (`LD_PRELOAD`). The file named by `MILLRACE_CLOCK` holds how far the clock is off, eight bytes,
//! nanoseconds, little-endian on the machines this is for; whoever writes them steps the clock.
//!
//! Stepped are the functions that tell the wall time, and waits for a wall time: one that a thread
//! is in when the clock steps ends sooner or later for it, as it does with a clock of the machine's.
//! The monotonic clock is never touched. Without the file the time is the machine's.
//!
//! Limits: Linux; waits on condition variables, which is what librdkafka has; no file times.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicI64, AtomicPtr, Ordering};

use libc::{
    CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_REALTIME_COARSE, ETIMEDOUT, c_int, c_void, clockid_t,
    pthread_cond_t, pthread_mutex_t, time_t, timespec, timeval,
};

/// What C11's functions answer, as glibc numbers it.
const THRD_ERROR: c_int = 2;
const THRD_TIMEDOUT: c_int = 4;
const NANOS: i128 = 1_000_000_000;
/// A thread that waits looks this often whether the clock has stepped.
const LOOK_EVERY_NANOS: i128 = 50_000_000;
/// Wall times lie beyond this many seconds, and times since the machine's start below: 30 years.
const WALL_TIMES_FROM_SECONDS: time_t = 1_000_000_000;

unsafe extern "C" {
    /// glibc 2.30: waits by a clock that the caller names.
    fn pthread_cond_clockwait(
        condition: *mut pthread_cond_t,
        mutex: *mut pthread_mutex_t,
        clock: clockid_t,
        until: *const timespec,
    ) -> c_int;
}

/// How far the clock is off where there is no file.
static NOT_AT_ALL: AtomicI64 = AtomicI64::new(0);
/// Where that stands; null until it is asked for first.
static OFF_BY: AtomicPtr<AtomicI64> = AtomicPtr::new(std::ptr::null_mut());

fn off_by_nanos() -> i128 {
    let mut place = OFF_BY.load(Ordering::Acquire);
    if place.is_null() {
        place = mapped().unwrap_or(std::ptr::from_ref(&NOT_AT_ALL).cast_mut());
        OFF_BY.store(place, Ordering::Release);
    }
    // SAFETY: it points to a static, or to a mapped page that is never unmapped; an `AtomicI64` may
    // be read while others write to it.
    i128::from(unsafe { &*place }.load(Ordering::Relaxed))
}

/// The first eight bytes of the file, shared with whoever writes it.
fn mapped() -> Option<*mut AtomicI64> {
    // SAFETY: the name is a C string; what comes back is one too, and stays while nobody changes the
    // environment, which programs under test don't. The page is mapped for reading, and kept.
    unsafe {
        let path = libc::getenv(c"MILLRACE_CLOCK".as_ptr());
        if path.is_null() {
            return None;
        }
        let file = libc::open(path, libc::O_RDONLY | libc::O_CLOEXEC);
        if file < 0 {
            return None;
        }
        let length = size_of::<AtomicI64>();
        let (read, shared) = (libc::PROT_READ, libc::MAP_SHARED);
        let page = libc::mmap(std::ptr::null_mut(), length, read, shared, file, 0);
        libc::close(file);
        (page != libc::MAP_FAILED).then_some(page.cast())
    }
}

/// A clock of the machine's, in nanoseconds.
fn true_nanos(clock: clockid_t) -> Option<i128> {
    let mut time = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a `timespec` to write to. The call goes past the function below.
    let failed = unsafe { libc::syscall(libc::SYS_clock_gettime, clock, &raw mut time) };
    (failed == 0).then(|| i128::from(time.tv_sec) * NANOS + i128::from(time.tv_nsec))
}

fn time_of(nanos: i128) -> timespec {
    timespec { tv_sec: (nanos / NANOS) as time_t, tv_nsec: (nanos % NANOS) as libc::c_long }
}

fn wall_nanos() -> i128 {
    true_nanos(CLOCK_REALTIME).unwrap_or(0) + off_by_nanos()
}

/// As `clock_gettime(3)`.
///
/// # Safety
/// `time` is valid for a write, as the C library asks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: clockid_t, time: *mut timespec) -> c_int {
    let Some(mut nanos) = true_nanos(clock) else { return -1 };
    if matches!(clock, CLOCK_REALTIME | CLOCK_REALTIME_COARSE) {
        nanos += off_by_nanos();
    }
    // SAFETY: the caller's promise.
    unsafe { time.write(time_of(nanos)) };
    0
}

/// As `timespec_get(3)` for `TIME_UTC`.
///
/// # Safety
/// `time` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn timespec_get(time: *mut timespec, base: c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { time.write(time_of(wall_nanos())) };
    base
}

/// As `gettimeofday(2)`.
///
/// # Safety
/// `time` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gettimeofday(time: *mut timeval, _zone: *mut c_void) -> c_int {
    let timespec { tv_sec, tv_nsec } = time_of(wall_nanos());
    if !time.is_null() {
        // SAFETY: the caller's promise.
        unsafe { time.write(timeval { tv_sec, tv_usec: tv_nsec / 1_000 }) };
    }
    0
}

/// As `time(2)`.
///
/// # Safety
/// `time` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn time(time: *mut time_t) -> time_t {
    let seconds = time_of(wall_nanos()).tv_sec;
    if !time.is_null() {
        // SAFETY: the caller's promise.
        unsafe { time.write(seconds) };
    }
    seconds
}

/// As `cnd_timedwait` of C11, which in glibc doesn't go through the function below.
///
/// # Safety
/// As for `pthread_cond_timedwait`; in glibc the types are the same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cnd_timedwait(
    condition: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    until: *const timespec,
) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { pthread_cond_timedwait(condition, mutex, until) } {
        0 => 0,
        ETIMEDOUT => THRD_TIMEDOUT,
        _ => THRD_ERROR,
    }
}

/// As `pthread_cond_timedwait(3)`. Ends at `until` by the stepped clock, whenever it steps.
///
/// # Safety
/// As the C library asks: both initialised, the mutex held by the caller.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_timedwait(
    condition: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    until: *const timespec,
) -> c_int {
    // SAFETY: the caller's promise.
    let timespec { tv_sec, tv_nsec } = unsafe { until.read() };
    if tv_sec < WALL_TIMES_FROM_SECONDS {
        // SAFETY: the caller's promise.
        return unsafe { pthread_cond_clockwait(condition, mutex, CLOCK_MONOTONIC, until) };
    }
    let until = i128::from(tv_sec) * NANOS + i128::from(tv_nsec);
    loop {
        let left = until - wall_nanos();
        if left <= 0 {
            return ETIMEDOUT;
        }
        let now = true_nanos(CLOCK_MONOTONIC).unwrap_or(0);
        let look = time_of(now + left.min(LOOK_EVERY_NANOS));
        // SAFETY: the caller's promise.
        let end =
            unsafe { pthread_cond_clockwait(condition, mutex, CLOCK_MONOTONIC, &raw const look) };
        if end != ETIMEDOUT {
            return end;
        }
    }
}
