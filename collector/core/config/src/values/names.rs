//! Checked names: topics, consumer groups, environment variables, ClickHouse identifiers.
//!
//! A value of one of these types has been checked once, where it was read; nothing downstream
//! checks or quotes it again.

use crate::values::text::as_text;

/// A name outside its alphabet or length.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} `{name}` is invalid: use {rule}")]
pub struct NameError {
    what: &'static str,
    name: String,
    rule: &'static str,
}

/// Declares a checked string type.
macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $what:literal, $rule:literal, $accepts:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// Checks a name.
            ///
            /// # Errors
            /// When it is outside the alphabet or the length.
            pub fn new(name: impl Into<String>) -> Result<Self, NameError> {
                let name = name.into();
                let accepts: fn(&str) -> bool = $accepts;
                if accepts(&name) {
                    Ok(Self(name))
                } else {
                    Err(NameError { what: $what, name, rule: $rule })
                }
            }

            /// The name.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        as_text!($name, $what);

        impl std::str::FromStr for $name {
            type Err = NameError;
            fn from_str(name: &str) -> Result<Self, NameError> {
                Self::new(name)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name!(
    /// A Kafka topic: 1 to 249 of letters, digits, `.`, `_`, `-`; not `.` or `..` (Kafka's own
    /// rule).
    TopicName,
    "topic",
    "1 to 249 letters, digits, '.', '_' or '-'",
    |name| {
        (1..=249).contains(&name.len())
            && name != "."
            && name != ".."
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
    }
);

name!(
    /// A Kafka consumer group: 1 to 249 printable ASCII characters without blanks.
    GroupId,
    "consumer group",
    "1 to 249 printable characters without spaces",
    |name| (1..=249).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_graphic())
);

name!(
    /// The name of an environment variable: `[A-Za-z_][A-Za-z0-9_]*`, at most 128 characters.
    EnvName,
    "environment variable",
    "a letter or '_', then letters, digits or '_'",
    |name| name.len() <= 128 && is_identifier(name)
);

name!(
    /// A ClickHouse database or table prefix: `[A-Za-z_][A-Za-z0-9_]{0,62}`.
    Identifier,
    "identifier",
    "a letter or '_', then up to 62 letters, digits or '_'",
    |name| name.len() <= 63 && is_identifier(name)
);

fn is_identifier(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

impl TopicName {
    /// A topic whose name is known to be right when the program is written.
    ///
    /// Only for this crate's own literals, which a test checks one by one.
    pub(crate) fn of_literal(name: &'static str) -> Self {
        debug_assert!(Self::new(name).is_ok());
        Self(name.to_owned())
    }
}

impl GroupId {
    /// As [`TopicName::of_literal`].
    pub(crate) fn of_literal(name: &'static str) -> Self {
        debug_assert!(Self::new(name).is_ok());
        Self(name.to_owned())
    }
}

impl Identifier {
    /// As [`TopicName::of_literal`].
    pub(crate) fn of_literal(name: &'static str) -> Self {
        debug_assert!(Self::new(name).is_ok());
        Self(name.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::{GroupId, Identifier, TopicName};

    /// Scenario: names at the edges of Kafka's rule. Guarantee: only legal ones pass.
    #[test]
    fn topics_follow_kafkas_own_rule() {
        for good in ["otlp_traces", "a", "A.b-c_9", &"x".repeat(249)] {
            assert!(TopicName::new(good).is_ok(), "{good}");
        }
        for bad in ["", ".", "..", "a b", "ä", "a/b", &"x".repeat(250)] {
            assert!(TopicName::new(bad).is_err(), "{bad}");
        }
    }

    /// Scenario: identifiers that try to leave their quotes. Guarantee: refused.
    #[test]
    fn identifiers_cannot_carry_sql() {
        for bad in ["", "1a", "a-b", "a`b", "a.b", "a;b", "a b", &"x".repeat(64)] {
            assert!(Identifier::new(bad).is_err(), "{bad}");
        }
        assert!(Identifier::new("_otel9").is_ok());
        assert!(GroupId::new("a b").is_err());
    }
}
