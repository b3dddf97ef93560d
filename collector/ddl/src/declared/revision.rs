//! Computes a declaration's short name from every statement that would create it. Pure.

use sha2::{Digest, Sha256};

use crate::declared::Declared;
use crate::render;

impl Declared {
    /// Returns a short, stable name of this declaration: 12 hexadecimal digits of the SHA-256 of
    /// every statement that would create it. It changes exactly when those statements change.
    #[must_use]
    pub fn revision(&self) -> String {
        let mut hash = Sha256::new();
        for statement in render::create_all(self) {
            hash.update(statement.sql());
            hash.update(b"\0");
        }
        hash.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect()
    }
}
