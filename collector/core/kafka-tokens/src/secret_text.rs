//! Secrets of the settings.

use millrace_config::{SecretError, SecretFile};

/// A text in a file, which is read at each use, or in memory.
#[derive(Clone)]
pub enum SecretText {
    /// The file.
    File(SecretFile),
    /// The text itself.
    Text(String),
}

impl SecretText {
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::File(_) => None,
            Self::Text(text) => Some(text),
        }
    }

    pub(crate) fn read(&self) -> Result<String, SecretError> {
        match self {
            Self::File(file) => Ok(file.read()?.expose().to_owned()),
            Self::Text(text) => Ok(text.clone()),
        }
    }
}
