//! Hands tokens and bootstrap servers to Kafka clients by the library's own functions: its safe
//! interface hands over tokens only from inside a poll, which clients for queries and for
//! administration never do, and servers only when a client is created.
//!
//! All unsafe code of the crate is in this file.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char};
use std::ptr;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use rdkafka::admin::AdminClient;
use rdkafka::bindings as sys;
use rdkafka::client::ClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::producer::{BaseProducer, Producer, ProducerContext};
use rdkafka::types::{RDKafka, RDKafkaRespErr};

use crate::access_token::AccessToken;

/// The longest message of the library that is read.
const MESSAGE_BYTES: usize = 512;

/// A Kafka client that tokens can be handed to.
pub trait KafkaClient: private::Native + Send + Sync + 'static {}

mod private {
    use super::RDKafka;

    pub trait Native {
        /// Returns the client's handle, valid while the client exists.
        fn native(&self) -> *mut RDKafka;
    }
}

impl<C: ConsumerContext + 'static> private::Native for BaseConsumer<C> {
    fn native(&self) -> *mut RDKafka {
        self.client().native_ptr()
    }
}

impl<C: ConsumerContext + 'static> KafkaClient for BaseConsumer<C> {}

impl<C: ProducerContext + 'static> private::Native for BaseProducer<C> {
    fn native(&self) -> *mut RDKafka {
        self.client().native_ptr()
    }
}

impl<C: ProducerContext + 'static> KafkaClient for BaseProducer<C> {}

impl<C: ClientContext + 'static> private::Native for AdminClient<C> {
    fn native(&self) -> *mut RDKafka {
        self.inner().native_ptr()
    }
}

impl<C: ClientContext + 'static> KafkaClient for AdminClient<C> {}

/// Sets a client's token for its present and later connections.
pub(crate) fn set_token(client: &dyn KafkaClient, token: &AccessToken) -> Result<(), String> {
    let c_string = |text: &str| CString::new(text).map_err(|_| "it has a NUL byte".to_owned());
    let (value, principal) = (c_string(&token.value)?, c_string(&token.principal)?);
    let remaining = token.expires_at.saturating_duration_since(Instant::now());
    let expires_at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() + remaining;
    let millis = i64::try_from(expires_at.as_millis()).unwrap_or(i64::MAX);
    let mut message: [c_char; MESSAGE_BYTES] = [0; MESSAGE_BYTES];
    // SAFETY: the handle is valid while `client` is borrowed; the library copies the strings, which
    // end with NUL, and writes at most the given length, with its NUL, into the buffer.
    let code = unsafe {
        sys::rd_kafka_oauthbearer_set_token(
            client.native(),
            value.as_ptr(),
            millis,
            principal.as_ptr(),
            ptr::null_mut(),
            0,
            message.as_mut_ptr(),
            message.len(),
        )
    };
    if code == RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR {
        return Ok(());
    }
    // SAFETY: the buffer was zeroed, and the library ends what it writes with NUL.
    let message = unsafe { CStr::from_ptr(message.as_ptr()) };
    Err(message.to_string_lossy().into_owned())
}

/// Makes a client report that it has no token: its next poll returns the reason as an error.
pub(crate) fn set_failure(client: &dyn KafkaClient, reason: &str) {
    let reason = CString::new(reason.replace('\0', " ")).unwrap_or_default();
    // SAFETY: the handle is valid while `client` is borrowed, and the library copies the text.
    unsafe {
        sys::rd_kafka_oauthbearer_set_token_failure(client.native(), reason.as_ptr());
    }
}

/// Adds the servers that the client doesn't know, and returns the number of those.
pub(crate) fn add_bootstrap_servers(client: &dyn KafkaClient, servers: &str) -> usize {
    let servers = CString::new(servers).unwrap_or_default();
    // SAFETY: the handle is valid while `client` is borrowed, and the library copies the text.
    let added = unsafe { sys::rd_kafka_brokers_add(client.native(), servers.as_ptr()) };
    usize::try_from(added).unwrap_or_default()
}
