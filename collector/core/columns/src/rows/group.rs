//! The columns that all records of a resource or a scope share.

use millrace_wire::otlp::{AnyValue, Resource};
use millrace_wire::protobuf::WireFault;

use crate::column::{Dictionary, Sets};
use crate::format::text;

/// Key of the resource attribute that `ServiceName` holds.
const SERVICE_NAME: &[u8] = b"service.name";

/// Appends one resource's attributes and service name, and returns the bytes of the attributes in
/// each row. The service name is empty without the attribute; a value that isn't text is formatted
/// as text.
pub(crate) fn push_resource(
    resource: Resource<'_>,
    attributes: &mut Sets,
    service_name: &mut Dictionary,
) -> Result<usize, WireFault> {
    let before = attributes.value_bytes();
    let mut name = AnyValue::Empty;
    attributes.push_with(|add| {
        resource.for_each_attribute(|attribute| {
            if attribute.key == SERVICE_NAME {
                name = attribute.value;
            }
            add(attribute)
        })
    })?;
    match name {
        AnyValue::String(name) => service_name.push(name),
        name => service_name.push_with(|out| text::append_plain(name, out))?,
    }
    Ok(attributes.value_bytes() - before)
}
