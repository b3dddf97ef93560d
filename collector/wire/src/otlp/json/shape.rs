//! What the messages' tables leave open and JSON needs to know: which fields repeat, and what type
//! a number has. Told by the field's name and kind, which together are unambiguous in OTLP.

use crate::otlp::descriptor::{Kind, Message};

/// A field as JSON sees it.
pub(super) struct Shape {
    pub(super) kind: Kind,
    pub(super) repeated: bool,
    /// Repeated numbers behind one tag.
    pub(super) packed: bool,
    /// Meant for kinds that hold a scalar.
    pub(super) scalar: Scalar,
}

/// The type of a scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scalar {
    Bool,
    Int64,
    Uint64,
    Uint32,
    Sint32,
    Fixed64,
    Sfixed64,
    Fixed32,
    Double,
    Enum(Enum),
}

/// OTLP's enums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Enum {
    SpanKind,
    StatusCode,
    Severity,
    Temporality,
}

impl Shape {
    /// The shape of field `name` of kind `kind`.
    pub(super) fn of(name: &str, kind: Kind) -> Self {
        let packed = matches!(kind, Kind::PackedFixed64 | Kind::PackedVarint);
        Self {
            kind,
            repeated: packed || repeats(name, kind),
            packed,
            scalar: Scalar::of(name, kind),
        }
    }
}

/// Whether a field that isn't packed repeats.
fn repeats(name: &str, kind: Kind) -> bool {
    match kind {
        Kind::Attribute | Kind::Element | Kind::Record(_) | Kind::Part(_) => true,
        // The groups that don't repeat are the data of a metric.
        Kind::Group(_) => {
            !matches!(name, "gauge" | "sum" | "histogram" | "exponential_histogram" | "summary")
        }
        Kind::Message(_) => {
            matches!(name, "quantile_values" | "entity_refs")
        }
        Kind::Text => matches!(name, "id_keys" | "description_keys"),
        Kind::Unknown
        | Kind::Varint
        | Kind::Fixed64
        | Kind::Time
        | Kind::SecondTime
        | Kind::Fixed32
        | Kind::Bytes
        | Kind::Id(_)
        | Kind::PackedFixed64
        | Kind::PackedVarint
        | Kind::Nested(_) => false,
    }
}

impl Scalar {
    fn of(name: &str, kind: Kind) -> Self {
        match (kind, name) {
            (Kind::Varint, "bool_value" | "is_monotonic") => Self::Bool,
            (Kind::Varint, "int_value") => Self::Int64,
            (Kind::Varint, "scale" | "offset") => Self::Sint32,
            (Kind::Varint, "kind") => Self::Enum(Enum::SpanKind),
            (Kind::Varint, "code") => Self::Enum(Enum::StatusCode),
            (Kind::Varint, "severity_number") => Self::Enum(Enum::Severity),
            (Kind::Varint, "aggregation_temporality") => Self::Enum(Enum::Temporality),
            (Kind::Varint, _) => Self::Uint32,
            (Kind::PackedVarint, _) => Self::Uint64,
            (Kind::Fixed32, _) => Self::Fixed32,
            (Kind::Fixed64, "as_int") => Self::Sfixed64,
            (
                Kind::Fixed64,
                "double_value" | "as_double" | "sum" | "min" | "max" | "zero_threshold"
                | "quantile" | "value",
            )
            | (Kind::PackedFixed64, "explicit_bounds") => Self::Double,
            _ => Self::Fixed64,
        }
    }
}

/// The field of `message` that `key` names, in camel case or as in the protocol's files: its
/// number, name and kind.
pub(super) fn field_named(
    message: &'static Message,
    key: &[u8],
) -> Option<(u32, &'static str, Kind)> {
    let mut fields = (1..).zip(message.fields);
    let (number, field) = fields.find(|(_, field)| {
        !matches!(field.kind, Kind::Unknown)
            && (is_camel_case_of(key, field.name) || key == field.name.as_bytes())
    })?;
    Some((number, field.name, field.kind))
}

/// Whether `key` is `name` with each `_x` written as `X`.
fn is_camel_case_of(key: &[u8], name: &str) -> bool {
    let mut key = key.iter();
    let mut upper = false;
    for &byte in name.as_bytes() {
        if byte == b'_' {
            upper = true;
            continue;
        }
        let expected = if upper { byte.to_ascii_uppercase() } else { byte };
        upper = false;
        if key.next() != Some(&expected) {
            return false;
        }
    }
    key.next().is_none()
}

impl Enum {
    /// Its name in the protocol.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::SpanKind => "SpanKind",
            Self::StatusCode => "StatusCode",
            Self::Severity => "SeverityNumber",
            Self::Temporality => "AggregationTemporality",
        }
    }

    /// The number of one of its values.
    pub(super) fn number_of(self, value: &[u8]) -> Option<i32> {
        let (prefix, names): (&str, &[&str]) = match self {
            Self::SpanKind => (
                "SPAN_KIND_",
                &["UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER"],
            ),
            Self::StatusCode => ("STATUS_CODE_", &["UNSET", "OK", "ERROR"]),
            Self::Severity => ("SEVERITY_NUMBER_", SEVERITIES),
            Self::Temporality => {
                ("AGGREGATION_TEMPORALITY_", &["UNSPECIFIED", "DELTA", "CUMULATIVE"])
            }
        };
        let name = value.strip_prefix(prefix.as_bytes())?;
        let number = names.iter().position(|known| known.as_bytes() == name)?;
        i32::try_from(number).ok()
    }
}

const SEVERITIES: &[&str] = &[
    "UNSPECIFIED",
    "TRACE",
    "TRACE2",
    "TRACE3",
    "TRACE4",
    "DEBUG",
    "DEBUG2",
    "DEBUG3",
    "DEBUG4",
    "INFO",
    "INFO2",
    "INFO3",
    "INFO4",
    "WARN",
    "WARN2",
    "WARN3",
    "WARN4",
    "ERROR",
    "ERROR2",
    "ERROR3",
    "ERROR4",
    "FATAL",
    "FATAL2",
    "FATAL3",
    "FATAL4",
];

#[cfg(test)]
mod tests {
    use super::is_camel_case_of;

    /// Keys are camel case, whole.
    #[test]
    fn keys_are_camel_case() {
        assert!(is_camel_case_of(b"timeUnixNano", "time_unix_nano"));
        assert!(is_camel_case_of(b"key", "key"));
        for other in ["timeUnixNan", "timeUnixNanos", "TimeUnixNano", "time_unix_nano", ""] {
            assert!(!is_camel_case_of(other.as_bytes(), "time_unix_nano"), "{other}");
        }
    }
}
