//! A token.

use std::time::{Duration, Instant};

/// A token, valid until it expires. It has no `Debug`.
#[derive(Clone)]
pub(crate) struct AccessToken {
    pub(crate) value: String,
    /// The client that it was requested for; the library requires a name.
    pub(crate) principal: String,
    pub(crate) expires_at: Instant,
    pub(crate) lifetime: Duration,
}
