//! Reading checked types from text, in a way that leaves the reader at the right place.
//!
//! A check made inside the visitor is reported at the value itself; one made after it (as
//! `#[serde(try_from)]` does) is reported at the section around it.

use std::fmt::{self, Display};
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::{Deserializer, Error, Visitor};

/// Reads a string and checks it by the type's own [`FromStr`].
pub(crate) fn deserialize<'de, T, D>(deserializer: D, what: &'static str) -> Result<T, D::Error>
where
    T: FromStr<Err: Display>,
    D: Deserializer<'de>,
{
    struct TextVisitor<T>(&'static str, PhantomData<T>);

    impl<T: FromStr<Err: Display>> Visitor<'_> for TextVisitor<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
            text.parse().map_err(E::custom)
        }
    }

    deserializer.deserialize_str(TextVisitor(what, PhantomData))
}

/// Implements `Serialize` and `Deserialize` for a type with `Display` and `FromStr`.
macro_rules! as_text {
    ($name:ident, $what:literal) => {
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                crate::values::text::deserialize(deserializer, $what)
            }
        }

        #[cfg(feature = "json-schema")]
        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({"type": "string", "x-takes": $what})
            }
        }
    };
}

pub(crate) use as_text;
