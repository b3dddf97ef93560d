//! What a server shows to its clients.

use std::fmt;

/// A key and its certificate in PEM, as Kafka and Python read them. It does not print.
#[derive(Clone)]
pub struct KeyStore(String);

impl KeyStore {
    /// Joins a key (PKCS #8, not encrypted) and its certificate.
    #[must_use]
    pub fn from_pem(key: &str, certificate: &str) -> Self {
        Self(format!("{key}\n{certificate}"))
    }

    /// The text of the file.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for KeyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyStore(..)")
    }
}
