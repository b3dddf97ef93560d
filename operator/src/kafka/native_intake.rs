//! Calls inside the client library that go through [`super::intake`] first: what it reads from
//! brokers, the buffers that it frees, the brokers that it adds, the threads that it starts.
//!
//! The library has no setting that bounds any of these for all clients together. The linker routes
//! the first three here (`build.rs`: `--wrap`), in every program of this package; a version of the
//! library without one of them does not link. `thrd_create` stands in for the C library's, so that
//! a thread counts for the client of the thread that starts it. Threads of other clients, such as
//! tests have, pass unchanged. The declarations are those of librdkafka 2.12: compare
//! `rdkafka_transport.h`, `rdbuf.h` and `rdkafka_broker.h` when it is updated.
//!
//! Limits: Linux with glibc; elsewhere nothing is counted.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_ulong, c_void};

use rdkafka::bindings as sys;

use super::intake;

/// A result that is negative on failure, as `ssize_t`.
type Size = isize;
type Start = unsafe extern "C" fn(*mut c_void) -> c_int;

unsafe extern "C" {
    fn __real_rd_kafka_transport_recv(
        transport: *mut c_void,
        buffer: *mut c_void,
        error: *mut c_char,
        error_size: usize,
    ) -> Size;
    fn __real_rd_buf_destroy(buffer: *mut c_void);
    fn pthread_create(
        thread: *mut c_ulong,
        attributes: *const c_void,
        start: extern "C" fn(*mut c_void) -> *mut c_void,
        argument: *mut c_void,
    ) -> c_int;
    fn __real_rd_kafka_broker_update(
        client: *mut sys::rd_kafka_t,
        protocol: c_int,
        broker: *const sys::rd_kafka_metadata_broker,
        added: *mut *mut c_void,
    );
}

/// Reads a part of an answer, unless there is no room; then the connection is closed.
///
/// # Safety
/// The library's own call: all pointers are valid, `error` has room for `error_size` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn __wrap_rd_kafka_transport_recv(
    transport: *mut c_void,
    buffer: *mut c_void,
    error: *mut c_char,
    error_size: usize,
) -> Size {
    let reading = match intake::read(buffer.addr()) {
        Ok(reading) => reading,
        Err(why) => {
            let length = why.len().min(error_size.saturating_sub(1));
            // SAFETY: `error` has room for `error_size` bytes, which is more than `length`.
            unsafe {
                std::ptr::copy_nonoverlapping(why.as_ptr(), error.cast::<u8>(), length);
                if error_size > 0 {
                    *error.add(length) = 0;
                }
            }
            return -1;
        }
    };
    // SAFETY: the caller's own arguments.
    let size = unsafe { __real_rd_kafka_transport_recv(transport, buffer, error, error_size) };
    if let Some(reading) = reading {
        reading.done(usize::try_from(size).unwrap_or(0));
    }
    size
}

/// # Safety
/// The library's own call.
#[unsafe(no_mangle)]
unsafe extern "C" fn __wrap_rd_buf_destroy(buffer: *mut c_void) {
    // SAFETY: the caller's own argument.
    unsafe { __real_rd_buf_destroy(buffer) };
    intake::freed(buffer.addr());
}

/// Adds a broker that a cluster names, or changes its address, unless that isn't allowed. Callers
/// take no broker for an answer: the library gives none while it ends.
///
/// # Safety
/// The library's own call: `broker` is valid, `added` null or valid.
#[unsafe(no_mangle)]
unsafe extern "C" fn __wrap_rd_kafka_broker_update(
    client: *mut sys::rd_kafka_t,
    protocol: c_int,
    broker: *const sys::rd_kafka_metadata_broker,
    added: *mut *mut c_void,
) {
    // SAFETY: `broker` is valid, and its host a text that ends in a zero byte.
    let (id, host) = unsafe { ((*broker).id, CStr::from_ptr((*broker).host).to_string_lossy()) };
    if intake::may_add(id, &host) {
        // SAFETY: the caller's own arguments.
        unsafe { __real_rd_kafka_broker_update(client, protocol, broker, added) };
    } else if !added.is_null() {
        // SAFETY: not null, hence valid.
        unsafe { *added = std::ptr::null_mut() };
    }
}

/// What a thread starts with.
struct Beginning {
    start: Start,
    argument: *mut c_void,
    client: intake::Counted,
}

/// As C11's: starts a thread. It counts for the client that the starting thread is one of.
///
/// # Safety
/// As the C library asks: `thread` may be written to, `start` may be called with `argument`.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[unsafe(no_mangle)]
unsafe extern "C" fn thrd_create(
    thread: *mut c_ulong,
    start: Start,
    argument: *mut c_void,
) -> c_int {
    /// As glibc numbers what C11's functions answer.
    const SUCCESS: c_int = 0;
    const ERROR: c_int = 2;
    let beginning = Box::new(Beginning { start, argument, client: intake::Counted::of_current() });
    let beginning = Box::into_raw(beginning);
    // SAFETY: in glibc a `thrd_t` is a `pthread_t`, a `c_ulong`; `begin` takes the box over if it
    // is called.
    unsafe {
        match pthread_create(thread, std::ptr::null(), begin, beginning.cast()) {
            0 => SUCCESS,
            _ => {
                drop(Box::from_raw(beginning));
                ERROR
            }
        }
    }
}

/// A thread of the library.
extern "C" fn begin(beginning: *mut c_void) -> *mut c_void {
    // SAFETY: the box that `thrd_create` gave away, taken over once.
    let Beginning { start, argument, client } = *unsafe { Box::from_raw(beginning.cast()) };
    let _counted = client.entered();
    // SAFETY: what whoever started the thread asked for.
    let code = unsafe { start(argument) };
    // As glibc hands on what such a thread returns.
    std::ptr::without_provenance_mut(usize::try_from(code).unwrap_or(0))
}
