//! The macro behind every section of the document: fields with their defaults side by side.
//!
//! A section reads with unknown fields refused and absent ones defaulted, and writes only the
//! fields that differ from their defaults. It does nothing else.

/// Declares a section: a struct whose every field states its default.
macro_rules! section {
    ($(#[$doc:meta])* pub struct $name:ident {
        $($(#[$field_doc:meta])* pub $field:ident: $ty:ty = $default:expr,)*
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
        #[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
        #[serde(rename_all = "camelCase", deny_unknown_fields, default)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $ty,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                // A shadow with the same names in which a field at its default is absent.
                #[derive(serde::Serialize)]
                #[serde(rename_all = "camelCase")]
                struct Sparse<'a> {
                    $(#[serde(skip_serializing_if = "Option::is_none")] $field: Option<&'a $ty>,)*
                }
                let default = Self::default();
                Sparse {
                    $($field: (self.$field != default.$field).then_some(&self.$field),)*
                }
                .serialize(serializer)
            }
        }
    };
}

pub(crate) use section;
