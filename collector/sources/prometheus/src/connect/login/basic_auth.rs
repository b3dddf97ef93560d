//! The `authorization` header of a user name and a password.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use millrace_config::BasicAuth;

use crate::connect::fault::{ConnectError, FileFault};
use crate::connect::files::{FileValue, OnFault};

/// A user name and a password.
#[derive(Debug)]
pub(in crate::connect) struct Basic {
    settings: BasicAuth,
    header: FileValue<HeaderValue>,
}

impl Basic {
    pub(in crate::connect) fn new(settings: &BasicAuth) -> Self {
        let BasicAuth { username: _, username_file, password_file } = settings;
        let files = [username_file, password_file].into_iter().flatten().cloned().collect();
        Self { settings: settings.clone(), header: FileValue::new(files, OnFault::Fail) }
    }

    pub(in crate::connect) async fn auth_header(&self) -> Result<HeaderValue, ConnectError> {
        let settings = self.settings.clone();
        let header = self.header.get(move |read| basic_header(&settings, read));
        Ok(HeaderValue::clone(&*header.await?))
    }
}

fn basic_header(settings: &BasicAuth, read: Vec<Vec<u8>>) -> Result<HeaderValue, FileFault> {
    let BasicAuth { username, username_file, password_file } = settings;
    let mut read = read.into_iter();
    let mut text = username.clone().unwrap_or_default();
    if let Some(file) = username_file {
        text = file.secret_from(read.next().unwrap_or_default())?.expose().to_owned();
        if text.contains(':') {
            return Err(FileFault::Colon(file.clone()));
        }
    }
    text.push(':');
    if let Some(file) = password_file {
        text.push_str(file.secret_from(read.next().unwrap_or_default())?.expose());
    }
    // Base 64 is always a valid header value.
    Ok(encode_basic(&text).unwrap_or_else(|| HeaderValue::from_static("Basic")))
}

/// Encodes `name:password` as a `Basic` header.
fn encode_basic(pair: &str) -> Option<HeaderValue> {
    sensitive_value(&format!("Basic {}", STANDARD.encode(pair)))
}

/// Returns a header value that is marked as sensitive, so that it isn't printed.
pub(super) fn sensitive_value(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}
