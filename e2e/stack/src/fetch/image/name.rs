//! Names of images, checked and in full.

use std::fmt;

use crate::error::{Result, StackError};

/// The registry and owner of a name that has neither, as container engines complete it.
const DEFAULT_REGISTRY: &str = "docker.io";

/// An image's name with its registry and tag, such as `docker.io/millrace/operator:0.1.0`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageName {
    repository: String,
    tag: String,
}

impl ImageName {
    /// From `owner/image:tag`, with or without a registry before it.
    ///
    /// # Errors
    /// When the tag is missing or a character is not allowed in a name.
    pub fn new(text: &str) -> Result<Self> {
        let wrong = |problem: &str| {
            Err(StackError::Image { image: text.to_owned(), problem: problem.to_owned() })
        };
        let Some((repository, tag)) = text.rsplit_once(':') else {
            return wrong("give it a tag, such as `millrace/operator:0.1.0`");
        };
        let lower = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-/:".contains(c);
        if !repository.contains('/') || !repository.chars().all(lower) || repository.ends_with('/')
        {
            return wrong("a repository is `owner/image`, in lower case");
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if tag.is_empty() || tag.len() > 128 || !tag.chars().all(plain) {
            return wrong("a tag is 1 to 128 of letters, digits, '.', '_' and '-'");
        }
        let first = repository.split('/').next().unwrap_or_default();
        let has_registry = first.contains(['.', ':']) || first == "localhost";
        let repository = match has_registry {
            true => repository.to_owned(),
            false => format!("{DEFAULT_REGISTRY}/{repository}"),
        };
        Ok(Self { repository, tag: tag.to_owned() })
    }

    /// The part after the colon.
    #[must_use]
    pub fn tag(&self) -> &str {
        &self.tag
    }
}

impl fmt::Display for ImageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.repository, self.tag)
    }
}

#[cfg(test)]
mod tests {
    use super::ImageName;

    /// Short names get the registry that container engines would give them.
    #[test]
    fn a_name_without_a_registry_is_completed() {
        let full = |text| ImageName::new(text).map(|name| name.to_string());
        assert_eq!(full("millrace/operator:0.1.0").unwrap(), "docker.io/millrace/operator:0.1.0");
        assert_eq!(full("localhost:5000/a/b:1").unwrap(), "localhost:5000/a/b:1");
        for wrong in ["millrace/operator", "operator:1", "Millrace/operator:1", "a/b:", "a/b:x y"] {
            assert!(full(wrong).is_err(), "{wrong} passed");
        }
    }
}
