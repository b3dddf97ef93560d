//! Reads a message's headers as bytes.
//!
//! The client library's accessor panics on a header name that isn't UTF-8, which any producer can
//! send: a gateway would crash on it repeatedly. This module decodes such a name with U+FFFD for
//! invalid bytes. Like `metadata`, it is unsafe.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::ptr;

use millrace_pipeline::dead_letter::MessageHeader;
use rdkafka::bindings::{
    rd_kafka_header_get_all, rd_kafka_headers_t, rd_kafka_message_headers, rd_kafka_resp_err_t,
};
use rdkafka::message::BorrowedMessage;

/// Returns the headers of `message`, in order.
#[must_use]
pub fn read_headers(message: &BorrowedMessage<'_>) -> Vec<MessageHeader> {
    let mut native: *mut rd_kafka_headers_t = ptr::null_mut();
    // SAFETY: the message is valid while it is borrowed, and the library writes a pointer into it.
    let found = unsafe { rd_kafka_message_headers(message.ptr(), &raw mut native) };
    if found != rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR || native.is_null() {
        return Vec::new();
    }
    (0..).map_while(|index| read_header(native, index)).collect()
}

fn read_header(native: *const rd_kafka_headers_t, index: usize) -> Option<MessageHeader> {
    let (mut name, mut value, mut bytes) = (ptr::null(), ptr::null(), 0);
    // SAFETY: `native` belongs to a message that its only caller has borrowed; past the last header
    // the library answers with an error and writes nothing.
    let found = unsafe {
        rd_kafka_header_get_all(native, index, &raw mut name, &raw mut value, &raw mut bytes)
    };
    if found != rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR || name.is_null() {
        return None;
    }
    // SAFETY: the library ends names with a zero byte, and stores them as long as the message.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
    let value = (!value.is_null()).then(|| {
        // SAFETY: a value that isn't null has `bytes` bytes, stored as long as the message.
        unsafe { std::slice::from_raw_parts(value.cast::<u8>(), bytes) }.to_vec()
    });
    Some((name, value))
}

#[cfg(test)]
mod tests;
