//! What JSON requires beyond the messages' tables: which fields repeat, and the type of a number. A
//! field's name and kind determine it; together they are unambiguous in OTLP.

use crate::otlp::descriptor::{FieldKind, MessageDescriptor};

/// A field in JSON.
pub(super) struct FieldShape {
    pub(super) kind: FieldKind,
    pub(super) repeated: bool,
    /// Whether repeated numbers follow one tag.
    pub(super) packed: bool,
    /// Only meaningful for kinds that hold a scalar.
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

impl FieldShape {
    /// Returns the shape of field `name` of kind `kind`.
    pub(super) fn from_field(name: &str, kind: FieldKind) -> Self {
        let packed = matches!(kind, FieldKind::PackedFixed64 | FieldKind::PackedVarint);
        Self {
            kind,
            repeated: packed || is_repeated(name, kind),
            packed,
            scalar: Scalar::from_field(name, kind),
        }
    }
}

/// Whether a field that isn't packed repeats.
fn is_repeated(name: &str, kind: FieldKind) -> bool {
    match kind {
        FieldKind::Attribute | FieldKind::Element | FieldKind::Record(_) | FieldKind::Part(_) => {
            true
        }
        // The groups that don't repeat are the data of a metric.
        FieldKind::Group(_) => {
            !matches!(name, "gauge" | "sum" | "histogram" | "exponential_histogram" | "summary")
        }
        FieldKind::Message(_) => {
            matches!(name, "quantile_values" | "entity_refs")
        }
        FieldKind::Text => matches!(name, "id_keys" | "description_keys"),
        FieldKind::Unknown
        | FieldKind::Varint
        | FieldKind::Fixed64
        | FieldKind::Time
        | FieldKind::SecondTime
        | FieldKind::Fixed32
        | FieldKind::Bytes
        | FieldKind::Id(_)
        | FieldKind::PackedFixed64
        | FieldKind::PackedVarint
        | FieldKind::Nested(_) => false,
    }
}

impl Scalar {
    fn from_field(name: &str, kind: FieldKind) -> Self {
        match (kind, name) {
            (FieldKind::Varint, "bool_value" | "is_monotonic") => Self::Bool,
            (FieldKind::Varint, "int_value") => Self::Int64,
            (FieldKind::Varint, "scale" | "offset") => Self::Sint32,
            (FieldKind::Varint, "kind") => Self::Enum(Enum::SpanKind),
            (FieldKind::Varint, "code") => Self::Enum(Enum::StatusCode),
            (FieldKind::Varint, "severity_number") => Self::Enum(Enum::Severity),
            (FieldKind::Varint, "aggregation_temporality") => Self::Enum(Enum::Temporality),
            (FieldKind::Varint, _) => Self::Uint32,
            (FieldKind::PackedVarint, _) => Self::Uint64,
            (FieldKind::Fixed32, _) => Self::Fixed32,
            (FieldKind::Fixed64, "as_int") => Self::Sfixed64,
            (
                FieldKind::Fixed64,
                "double_value" | "as_double" | "sum" | "min" | "max" | "zero_threshold"
                | "quantile" | "value",
            )
            | (FieldKind::PackedFixed64, "explicit_bounds") => Self::Double,
            _ => Self::Fixed64,
        }
    }
}

/// Returns number, name and kind of the field of `message` that `key` names, in camel case or as in
/// the protocol's files.
pub(super) fn field_named(
    message: &'static MessageDescriptor,
    key: &[u8],
) -> Option<(u32, &'static str, FieldKind)> {
    let mut fields = (1..).zip(message.fields);
    let (number, field) = fields.find(|(_, field)| {
        !matches!(field.kind, FieldKind::Unknown)
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
    /// Returns its name in the protocol.
    pub(super) fn protocol_name(self) -> &'static str {
        match self {
            Self::SpanKind => "SpanKind",
            Self::StatusCode => "StatusCode",
            Self::Severity => "SeverityNumber",
            Self::Temporality => "AggregationTemporality",
        }
    }

    /// Returns the number of one of its values.
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

    /// Keys must be complete camel case names.
    #[test]
    fn keys_are_camel_case() {
        assert!(is_camel_case_of(b"timeUnixNano", "time_unix_nano"));
        assert!(is_camel_case_of(b"key", "key"));
        for other in ["timeUnixNan", "timeUnixNanos", "TimeUnixNano", "time_unix_nano", ""] {
            assert!(!is_camel_case_of(other.as_bytes(), "time_unix_nano"), "{other}");
        }
    }
}
