//! Attributes of the data.

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};

pub(crate) fn make_attribute(key: &str, value: Value) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}

pub(crate) fn text_attribute(key: &str, value: impl Into<String>) -> KeyValue {
    make_attribute(key, Value::StringValue(value.into()))
}
