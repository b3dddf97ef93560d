//! Secrets: named by file in the document, read at start, and held in a type that does not print.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::document::check::Checker;
use crate::values::text::as_text;

/// The longest secret read, in bytes: far above any password or private key in use.
pub const MAX_SECRET_BYTES: u64 = 64 * 1024;

/// The absolute path of a file holding a secret, a certificate or a key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SecretFile(PathBuf);

/// A secret file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The path is relative: it would depend on where the process was started.
    #[error("`{}` is not an absolute path: use one that begins with /", .0.display())]
    Relative(PathBuf),
    /// The file cannot be read.
    #[error("cannot read {}: {source}; check that the Secret is mounted", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file has nothing in it.
    #[error("{} is empty", .0.display())]
    Empty(PathBuf),
    /// The file is longer than [`MAX_SECRET_BYTES`].
    #[error("{} is longer than {MAX_SECRET_BYTES} bytes", .0.display())]
    TooLong(PathBuf),
    /// A user name or password that is not text.
    #[error("{} is not UTF-8 text", .0.display())]
    NotText(PathBuf),
}

impl SecretFile {
    /// Checks a path.
    ///
    /// # Errors
    /// When it is relative.
    pub fn new(path: impl Into<PathBuf>) -> Result<Self, SecretError> {
        let path = path.into();
        if path.is_absolute() { Ok(Self(path)) } else { Err(SecretError::Relative(path)) }
    }

    /// The path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Reads a user name or password. Line ends at its end, as editors leave them, are dropped.
    ///
    /// # Errors
    /// When the file cannot be read, is empty, too long, or not text.
    pub fn read(&self) -> Result<Secret, SecretError> {
        self.secret_from(self.read_bytes()?)
    }

    /// What [`SecretFile::read`] makes of bytes that were read from this file.
    ///
    /// # Errors
    /// When they are no text, or none but line ends.
    pub fn secret_from(&self, bytes: Vec<u8>) -> Result<Secret, SecretError> {
        let text = String::from_utf8(bytes).map_err(|_| SecretError::NotText(self.0.clone()))?;
        let trimmed = text.trim_end_matches(['\n', '\r']);
        if trimmed.is_empty() {
            return Err(SecretError::Empty(self.0.clone()));
        }
        Ok(Secret(trimmed.to_owned()))
    }

    /// Reads a certificate or a key as it is.
    ///
    /// # Errors
    /// When the file cannot be read, is empty, or too long.
    pub fn read_bytes(&self) -> Result<Vec<u8>, SecretError> {
        let unreadable = |source| SecretError::Unreadable { path: self.0.clone(), source };
        let file = std::fs::File::open(&self.0).map_err(unreadable)?;
        let mut bytes = Vec::new();
        // One byte over the limit is enough to know that there is more.
        file.take(MAX_SECRET_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        match bytes.len() as u64 {
            0 => Err(SecretError::Empty(self.0.clone())),
            length if length > MAX_SECRET_BYTES => Err(SecretError::TooLong(self.0.clone())),
            _ => Ok(bytes),
        }
    }
}

impl std::str::FromStr for SecretFile {
    type Err = SecretError;
    fn from_str(path: &str) -> Result<Self, SecretError> {
        Self::new(path)
    }
}

impl fmt::Display for SecretFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(f)
    }
}

as_text!(SecretFile, "the absolute path of a file");

/// A user name or password. It neither prints nor serialises; [`Secret::expose`] is the one way
/// out.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The text, for handing to a client library and nowhere else.
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

/// TLS to a server. An empty block uses the system's CA certificates.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ClientTls {
    /// Trusted CA certificates in PEM; the system's when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<SecretFile>,
    /// Client certificate chain in PEM, for mutual TLS; requires `keyFile`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert_file: Option<SecretFile>,
    /// Private key of the client in PEM; requires `certFile`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_file: Option<SecretFile>,
}

impl Checker<'_> {
    pub(crate) fn check_client_tls(&mut self, field: &str, tls: Option<&ClientTls>) {
        let Some(ClientTls { ca_file: _, cert_file, key_file }) = tls else {
            return;
        };
        if cert_file.is_some() != key_file.is_some() {
            self.add_problem(
                field,
                "certFile and keyFile must be set together: set both, or neither",
            );
        }
    }
}

#[cfg(test)]
pub(crate) mod arbitrary {
    use proptest::option;
    use proptest::prelude::Strategy;

    use super::{ClientTls, SecretFile};

    pub(crate) fn file() -> impl Strategy<Value = SecretFile> {
        "/[ -~]{0,30}".prop_map(|path| SecretFile::new(path).unwrap())
    }

    pub(crate) fn client_tls() -> impl Strategy<Value = ClientTls> {
        (option::of(file()), option::of(file()), option::of(file()))
            .prop_map(|(ca_file, cert_file, key_file)| ClientTls { ca_file, cert_file, key_file })
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_SECRET_BYTES, Secret, SecretError, SecretFile};

    /// Scenario: a secret is formatted for a log. Guarantee: its text is not there.
    #[test]
    fn a_secret_does_not_print() {
        assert_eq!(format!("{:?}", Secret("hunter2".to_owned())), "Secret(..)");
    }

    /// Scenario: files as editors and mounts leave them. Guarantee: text without its line end, or a
    /// stated refusal.
    #[test]
    fn secret_files_are_read_with_limits() {
        let folder = std::env::temp_dir().join(format!("millrace-secret-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = |name: &str, bytes: &[u8]| {
            let path = folder.join(name);
            std::fs::write(&path, bytes).unwrap();
            SecretFile::new(path).unwrap()
        };
        assert_eq!(file("ok", b"pass word\r\n").read().unwrap().expose(), "pass word");
        assert!(matches!(file("empty", b"\n").read(), Err(SecretError::Empty(_))));
        assert!(matches!(file("bytes", &[0xff, 0xfe]).read(), Err(SecretError::NotText(_))));
        let long = vec![b'a'; MAX_SECRET_BYTES as usize + 1];
        assert!(matches!(file("long", &long).read(), Err(SecretError::TooLong(_))));
        let absent = SecretFile::new(folder.join("absent")).unwrap();
        assert!(matches!(absent.read(), Err(SecretError::Unreadable { .. })));
        assert!(matches!(SecretFile::new("relative"), Err(SecretError::Relative(_))));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
