//! A checked name for a database, table, table prefix or cluster.
//!
//! It only admits characters that need no quoting in any SQL dialect. The renderer still quotes it,
//! so that a mistake in one place can't become an injection.

use std::fmt;
use std::str::FromStr;

/// The longest identifier in bytes. ClickHouse allows more, but a table's name becomes a directory
/// name with every other byte escaped, and file systems stop at 255.
pub const MAX_IDENTIFIER_BYTES: usize = 63;

/// A name matching `[A-Za-z_][A-Za-z0-9_]{0,62}`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identifier(String);

/// Why a name is refused, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentifierError {
    /// The name has no characters at all.
    #[error("a name may not be empty; write for example \"otel\"")]
    Empty,
    /// The name is longer than [`MAX_IDENTIFIER_BYTES`].
    #[error("the name has {length} bytes; at most {MAX_IDENTIFIER_BYTES} are allowed, shorten it")]
    TooLong {
        /// Length of the refused name in bytes.
        length: usize,
    },
    /// A character that is not a letter, digit or underscore, or a digit in first place.
    #[error(
        "{character:?} at position {position} is not allowed in a name; use letters, digits and \
         underscores, and no digit first"
    )]
    Character {
        /// The refused character.
        character: char,
        /// The character's byte position, from 0.
        position: usize,
    },
}

impl Identifier {
    /// Checks `name` and stores it.
    ///
    /// # Errors
    /// [`IdentifierError`] names the violated rule.
    pub fn new(name: impl Into<String>) -> Result<Self, IdentifierError> {
        let name = name.into();
        if name.is_empty() {
            return Err(IdentifierError::Empty);
        }
        if name.len() > MAX_IDENTIFIER_BYTES {
            return Err(IdentifierError::TooLong { length: name.len() });
        }
        let refused = name.char_indices().find(|&(position, character)| {
            let letter = character.is_ascii_alphabetic() || character == '_';
            !(letter || (position > 0 && character.is_ascii_digit()))
        });
        match refused {
            Some((position, character)) => Err(IdentifierError::Character { character, position }),
            None => Ok(Self(name)),
        }
    }

    /// Returns the name as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Identifier {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl AsRef<str> for Identifier {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl FromStr for Identifier {
    type Err = IdentifierError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::new(name)
    }
}

#[cfg(test)]
mod tests;
