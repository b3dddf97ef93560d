//! The columns that all records of a resource or a scope share.

use millrace_wire::otlp::{AnyValue, Resource};
use millrace_wire::protobuf::Fault;

use crate::column::{Dictionary, Sets};
use crate::text;

/// Key of the resource attribute that `ServiceName` holds.
const SERVICE_NAME: &[u8] = b"service.name";

/// Appends one resource's attributes and service name. A resource without the attribute has an
/// empty service name; one whose name isn't text has it as text. The bytes that the attributes take
/// in each row.
pub(crate) fn push_resource(
    resource: Resource<'_>,
    attributes: &mut Sets,
    service_name: &mut Dictionary,
) -> Result<usize, Fault> {
    let before = attributes.value_bytes();
    let mut name = AnyValue::Empty;
    attributes.push_with(|add| {
        resource.attributes(|attribute| {
            if attribute.key == SERVICE_NAME {
                name = attribute.value;
            }
            add(attribute)
        })
    })?;
    match name {
        AnyValue::String(name) => service_name.push(name),
        name => service_name.push_with(|out| text::plain(name, out))?,
    }
    Ok(attributes.value_bytes() - before)
}
