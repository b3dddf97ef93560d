//! The function itself, and nothing else: the only unsafe code of the crate.
#![allow(unsafe_code)]

use libc::{
    CLOCK_MONOTONIC, CLOCK_REALTIME, ETIMEDOUT, c_int, c_long, clockid_t, pthread_cond_t,
    pthread_mutex_t, time_t, timespec,
};

/// As glibc numbers what C11's functions answer.
const THRD_SUCCESS: c_int = 0;
const THRD_ERROR: c_int = 2;
const THRD_TIMEDOUT: c_int = 4;
const NANOS: i128 = 1_000_000_000;

type TimedWait =
    unsafe extern "C" fn(*mut pthread_cond_t, *mut pthread_mutex_t, *const timespec) -> c_int;
/// Its holder has the function in the program.
pub(crate) const LINKED_WAIT: TimedWait = cnd_timedwait;

unsafe extern "C" {
    /// glibc 2.30: waits by a clock that the caller names, whatever the condition's own is.
    fn pthread_cond_clockwait(
        condition: *mut pthread_cond_t,
        mutex: *mut pthread_mutex_t,
        clock: clockid_t,
        until: *const timespec,
    ) -> c_int;
}

fn now_nanos(clock: clockid_t) -> i128 {
    let mut time = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a `timespec` to write to; both clocks exist on every Linux.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    nanos_of(time)
}

fn nanos_of(time: timespec) -> i128 {
    i128::from(time.tv_sec) * NANOS + i128::from(time.tv_nsec)
}

/// As C11's: waits until `until`, a wall time, as far away as it is at the call. In glibc a `cnd_t`
/// is a `pthread_cond_t` and a `mtx_t` a `pthread_mutex_t`, which its own function relies on too.
///
/// # Safety
/// As the C library requires: all three are valid and initialised, the mutex is held by the caller.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cnd_timedwait(
    condition: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    until: *const timespec,
) -> c_int {
    // SAFETY: the caller's promise.
    let until = nanos_of(unsafe { until.read() });
    let left = (until - now_nanos(CLOCK_REALTIME)).max(0);
    let steady = now_nanos(CLOCK_MONOTONIC) + left;
    let Ok(seconds) = time_t::try_from(steady / NANOS) else { return THRD_ERROR };
    // Less than a billion.
    let steady = timespec { tv_sec: seconds, tv_nsec: (steady % NANOS) as c_long };
    // SAFETY: the caller's promise; `steady` is a valid time.
    let end =
        unsafe { pthread_cond_clockwait(condition, mutex, CLOCK_MONOTONIC, &raw const steady) };
    match end {
        0 => THRD_SUCCESS,
        ETIMEDOUT => THRD_TIMEDOUT,
        _ => THRD_ERROR,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    const WAIT: Duration = Duration::from_millis(50);

    fn waited(until: timespec) -> (c_int, Duration) {
        let mut condition = libc::PTHREAD_COND_INITIALIZER;
        let mut mutex = libc::PTHREAD_MUTEX_INITIALIZER;
        let began = Instant::now();
        // SAFETY: both are initialised and outlive the calls; the mutex is held during the wait.
        let answer = unsafe {
            libc::pthread_mutex_lock(&raw mut mutex);
            let answer = cnd_timedwait(&raw mut condition, &raw mut mutex, &raw const until);
            libc::pthread_mutex_unlock(&raw mut mutex);
            answer
        };
        (answer, began.elapsed())
    }

    fn wall(nanos: i128) -> timespec {
        timespec { tv_sec: (nanos / NANOS) as time_t, tv_nsec: (nanos % NANOS) as c_long }
    }

    /// Scenario: a wait for a wall time a little ahead, and for one long past. Guarantee: both end
    /// by time-out, the first no earlier than asked, the second at once.
    #[test]
    fn a_wait_is_as_long_as_it_is_at_the_call() {
        let now = now_nanos(CLOCK_REALTIME);
        let (answer, took) = waited(wall(now + WAIT.as_nanos() as i128));
        assert_eq!(answer, THRD_TIMEDOUT);
        assert!(took + Duration::from_millis(1) >= WAIT, "{took:?}");
        let (answer, took) = waited(wall(now - 3_600 * NANOS));
        assert_eq!(answer, THRD_TIMEDOUT);
        assert!(took < Duration::from_secs(30), "{took:?}");
    }
}
