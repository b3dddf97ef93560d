//! What every local server needs: a process with an end, files and a cache, ports, secrets, errors.
//!
//! It knows nothing of Kafka or ClickHouse, and of Kubernetes even less.

mod files;
mod key_store;
mod ports;
mod process;

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

pub use files::cache_dir;
pub(crate) use files::{create_dir, find_tool, home, install_once, run, write_file};
pub use key_store::KeyStore;
pub use ports::free_port;
pub use process::Service;

/// Why a server could not be installed, started or stopped.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// A program that must be on the machine is not.
    #[error("`{tool}` is not on the PATH: {hint}")]
    MissingTool {
        /// The program looked for.
        tool: &'static str,
        /// How to get it.
        hint: &'static str,
    },
    /// An option cannot work.
    #[error("{field}: {problem}")]
    Option {
        /// The option's name.
        field: &'static str,
        /// What is wrong and what to give instead.
        problem: String,
    },
    /// The server refused a request.
    #[error("the server answered with status {status}: {text}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The server's words.
        text: String,
    },
    /// The system refused something.
    #[error("cannot {action}: {source}")]
    Io {
        /// What was tried, with the path or address.
        action: String,
        /// The system's answer.
        source: io::Error,
    },
    /// A set-up command failed.
    #[error("{action} failed ({status}):\n{tail}")]
    Command {
        /// What the command was for.
        action: String,
        /// How it ended.
        status: ExitStatus,
        /// The end of what it printed.
        tail: String,
    },
    /// The process ended before it served.
    #[error("{service} ended before it was ready ({status}); {log} ends with:\n{tail}", log = log.display())]
    Exited {
        /// The process.
        service: &'static str,
        /// How it ended.
        status: ExitStatus,
        /// Its log.
        log: PathBuf,
        /// The end of its log.
        tail: String,
    },
    /// The process runs but did not serve in time.
    #[error("{service} did not serve within {waited_seconds} s ({last}); {log} ends with:\n{tail}", log = log.display())]
    NotReady {
        /// The process.
        service: &'static str,
        /// How long it was given.
        waited_seconds: u64,
        /// What the last probe met.
        last: String,
        /// Its log.
        log: PathBuf,
        /// The end of its log.
        tail: String,
    },
}

/// Shorthand of this layer.
pub type Result<T> = std::result::Result<T, ServiceError>;

/// Turns a system error into ours, saying what was tried.
pub(crate) fn io_error(action: impl Into<String>) -> impl FnOnce(io::Error) -> ServiceError {
    let action = action.into();
    move |source| ServiceError::Io { action, source }
}

/// A user name or password of a local server: 1 to 64 letters, digits, `.`, `_`, `-`.
///
/// The small alphabet keeps it whole in property files, JAAS lines and headers. It does not print.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Checks and wraps a secret.
    ///
    /// # Errors
    /// When it is empty, longer than 64, or has another character.
    pub fn new(text: impl Into<String>) -> Result<Self> {
        let text = text.into();
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if (1..=64).contains(&text.len()) && text.chars().all(plain) {
            return Ok(Self(text));
        }
        Err(ServiceError::Option {
            field: "secret",
            problem: "give 1 to 64 of letters, digits, '.', '_' and '-'".to_owned(),
        })
    }

    /// A fresh secret, good enough for a server that lives as long as a test.
    #[must_use]
    pub fn random() -> Self {
        Self(format!("{:016x}{:016x}", random(), random()))
    }

    /// A word of the source code, which is well-formed and no secret.
    pub(crate) fn fixed(word: &'static str) -> Self {
        Self(word.to_owned())
    }

    /// The text itself.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// A number that differs from call to call and from process to process (the standard library seeds
/// its hash maps from the system). Not for keys that outlive a test.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A secret ends up in property files and headers, where a line break would end it.
    #[test]
    fn secrets_hold_only_characters_that_need_no_quoting() {
        assert_eq!(Secret::new("a-Z_0.9").unwrap().expose(), "a-Z_0.9");
        for bad in ["", "two words", "line\nbreak", "quote'", "comma,", &"x".repeat(65)] {
            assert!(Secret::new(bad).is_err(), "{bad:?}");
        }
    }

    /// A failed assertion prints what it compared.
    #[test]
    fn a_secret_does_not_print() {
        assert!(!format!("{:?}", Secret::new("hunter2").unwrap()).contains("hunter2"));
    }
}
