//! Keys of Secrets and ConfigMaps that monitors name. Only names: no content passes through here.
//!
//! A monitor can only name objects in its own namespace: a use gets its namespace from the monitor,
//! and no field of a monitor has one.

use std::fmt;

use sha2::{Digest, Sha256};

/// Where pods of a pool find the values: one file each, named by [`SecretUse::file_name`].
pub const SECRETS_FOLDER: &str = "/etc/millrace/monitors";

/// The kind of object that holds a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Holder {
    /// A Secret.
    Secret,
    /// A ConfigMap.
    ConfigMap,
}

impl Holder {
    /// Returns its name in Kubernetes.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Secret => "Secret",
            Self::ConfigMap => "ConfigMap",
        }
    }
}

/// A key that a monitor names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SecretUse {
    /// The kind of the object.
    pub holder: Holder,
    /// The monitor's namespace.
    pub namespace: String,
    /// The object's name.
    pub name: String,
    /// The key.
    pub key: String,
}

impl SecretUse {
    /// Returns the key in the pool's Secret, which is also the file's name in its pods. It is a
    /// hash, so that no namespace can choose another one's name.
    #[must_use]
    pub fn file_name(&self) -> String {
        let Self { holder, namespace, name, key } = self;
        let mut hasher = Sha256::new();
        for part in [holder.as_str(), namespace, name, key] {
            hasher.update((part.len() as u64).to_be_bytes());
            hasher.update(part);
        }
        let digest = hasher.finalize();
        digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns the file's path in pods.
    #[must_use]
    pub fn file_path(&self) -> String {
        format!("{SECRETS_FOLDER}/{}", self.file_name())
    }
}

impl fmt::Display for SecretUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { holder, namespace, name, key } = self;
        write!(f, "key {key} of {} {namespace}/{name}", holder.as_str())
    }
}
