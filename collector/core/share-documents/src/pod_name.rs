//! The name of a pod in documents.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A pod's name, used for one pod and never again. Where a StatefulSet gives a name to the next pod
/// too, the caller adds the pod's uid: otherwise the new pod would apply the old one's document.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct PodName(Arc<str>);

impl PodName {
    /// Creates a name.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for PodName {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl From<PodName> for String {
    fn from(name: PodName) -> Self {
        name.0.as_ref().to_owned()
    }
}

impl Borrow<str> for PodName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
