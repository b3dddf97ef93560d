//! OTLP protobuf, written and read by hand: only what a load needs. Writing is checked against the
//! official messages in tests. Reading takes answers of a server, so it trusts no length.

use crate::plan::Plan;
use crate::span::{
    Attributes, Link, Resource, SCOPE_NAME, SCOPE_VERSION, Span, Spans, Status, Value,
};

const VARINT: u8 = 0;
const FIXED64: u8 = 1;
const BYTES: u8 = 2;
const FIXED32: u8 = 5;

const fn tag(field: u8, wire: u8) -> u8 {
    (field << 3) | wire
}

#[inline]
fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value as u8) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

const fn varint_len(value: u64) -> usize {
    // 7 bits a byte; `| 1` gives zero its one byte.
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Bytes of a length-delimited field with a one-byte tag.
const fn field_len(body: usize) -> usize {
    1 + varint_len(body as u64) + body
}

#[inline]
fn put_bytes(out: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    put_head(out, field, bytes.len());
    out.extend_from_slice(bytes);
}

#[inline]
fn put_head(out: &mut Vec<u8>, field: u8, len: usize) {
    out.push(tag(field, BYTES));
    put_varint(out, len as u64);
}

#[inline]
fn put_fixed64(out: &mut Vec<u8>, field: u8, value: u64) {
    out.push(tag(field, FIXED64));
    out.extend_from_slice(&value.to_le_bytes());
}

#[inline]
fn value_len(value: &ValueRef<'_>) -> usize {
    match value {
        ValueRef::Text(text) => field_len(text.len()),
        ValueRef::Int(number) => 1 + varint_len(*number as u64),
        ValueRef::Double(_) => 9,
        ValueRef::Bool(_) => 2,
    }
}

enum ValueRef<'a> {
    Text(&'a str),
    Int(i64),
    Double(f64),
    Bool(bool),
}

impl From<Value> for ValueRef<'static> {
    #[inline]
    fn from(value: Value) -> Self {
        match value {
            Value::Text(text) => Self::Text(text),
            Value::Int(number) => Self::Int(number),
            Value::Double(number) => Self::Double(number),
            Value::Bool(yes) => Self::Bool(yes),
        }
    }
}

/// One `KeyValue` with its field head.
#[inline]
fn put_attribute(out: &mut Vec<u8>, field: u8, key: &str, value: &ValueRef<'_>) {
    let any = value_len(value);
    put_head(out, field, field_len(key.len()) + field_len(any));
    put_bytes(out, 1, key.as_bytes());
    put_head(out, 2, any);
    match value {
        ValueRef::Text(text) => put_bytes(out, 1, text.as_bytes()),
        ValueRef::Bool(yes) => out.extend_from_slice(&[tag(2, VARINT), u8::from(*yes)]),
        ValueRef::Int(number) => {
            out.push(tag(3, VARINT));
            put_varint(out, *number as u64);
        }
        ValueRef::Double(number) => put_fixed64(out, 4, number.to_bits()),
    }
}

#[inline]
fn put_attributes(out: &mut Vec<u8>, field: u8, attributes: &Attributes) {
    for (key, value) in attributes.iter() {
        put_attribute(out, field, key, &value.into());
    }
}

/// Writes requests of one plan. Buffers are kept between requests.
#[derive(Clone, Debug)]
pub(crate) struct Writer {
    plan: Plan,
    spans: Spans,
    span: Vec<u8>,
    nested: Vec<u8>,
    scope: Vec<u8>,
    resource: Vec<u8>,
}

impl Writer {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self {
            plan: plan.clone(),
            spans: Spans::new(plan),
            span: Vec::new(),
            nested: Vec::new(),
            scope: Vec::new(),
            resource: Vec::new(),
        }
    }

    /// Appends one whole `ExportTraceServiceRequest` to `out`.
    pub(crate) fn request(&mut self, request: u64, out: &mut Vec<u8>) {
        let range = self.plan.spans_of(request);
        let trace_spans = u64::from(self.plan.spans_per_resource);
        let mut first = range.start;
        while first < range.end {
            let end = (first + trace_spans).min(range.end);
            self.resource_spans(first / trace_spans, first..end, out);
            first = end;
        }
    }

    fn resource_spans(&mut self, trace: u64, range: std::ops::Range<u64>, out: &mut Vec<u8>) {
        self.scope.clear();
        let scope = field_len(SCOPE_NAME.len()) + field_len(SCOPE_VERSION.len());
        put_head(&mut self.scope, 1, scope);
        put_bytes(&mut self.scope, 1, SCOPE_NAME.as_bytes());
        put_bytes(&mut self.scope, 2, SCOPE_VERSION.as_bytes());
        for index in range {
            let span = self.spans.at(index);
            self.span.clear();
            put_span(&mut self.span, &mut self.nested, &span);
            put_bytes(&mut self.scope, 2, &self.span);
        }
        self.resource.clear();
        put_resource(&mut self.resource, &Resource::at(&self.plan, trace));
        put_head(out, 1, field_len(self.resource.len()) + field_len(self.scope.len()));
        put_bytes(out, 1, &self.resource);
        put_bytes(out, 2, &self.scope);
    }
}

fn put_resource(out: &mut Vec<u8>, resource: &Resource) {
    let Resource { service_name, host_name, process_id, environment, is_sampled } = resource;
    put_attribute(out, 1, "service.name", &ValueRef::Text(service_name));
    put_attribute(out, 1, "host.name", &ValueRef::Text(host_name));
    put_attribute(out, 1, "process.pid", &ValueRef::Int(*process_id));
    if let Some(text) = environment {
        put_attribute(out, 1, "deployment.environment.name", &ValueRef::Text(text));
    }
    if let Some(yes) = is_sampled {
        put_attribute(out, 1, "load.sampled", &ValueRef::Bool(*yes));
    }
}

/// The fields of `Span`, in the order of their numbers.
fn put_span(out: &mut Vec<u8>, nested: &mut Vec<u8>, span: &Span) {
    put_bytes(out, 1, &span.trace_id.to_be_bytes());
    put_bytes(out, 2, &span.span_id.to_be_bytes());
    if !span.trace_state.is_empty() {
        put_bytes(out, 3, span.trace_state.as_bytes());
    }
    if span.parent_id != 0 {
        put_bytes(out, 4, &span.parent_id.to_be_bytes());
    }
    put_bytes(out, 5, span.name.as_bytes());
    out.extend_from_slice(&[tag(6, VARINT), span.kind]);
    put_fixed64(out, 7, span.start_nanos);
    put_fixed64(out, 8, span.end_nanos);
    put_attributes(out, 9, &span.attributes);
    nested.clear();
    put_fixed64(nested, 1, span.event_nanos);
    put_bytes(nested, 2, span.event_name.as_bytes());
    put_attributes(nested, 3, &span.event_attributes);
    put_bytes(out, 11, nested);
    if let Some(Link { trace_id, span_id, attributes }) = &span.link {
        nested.clear();
        put_bytes(nested, 1, &trace_id.to_be_bytes());
        put_bytes(nested, 2, &span_id.to_be_bytes());
        put_bytes(nested, 3, span.trace_state.as_bytes());
        put_attributes(nested, 4, attributes);
        put_bytes(out, 13, nested);
    }
    if span.status != Status::Unset {
        nested.clear();
        if !span.status_message.is_empty() {
            put_bytes(nested, 2, span.status_message.as_bytes());
        }
        nested.extend_from_slice(&[tag(3, VARINT), span.status as u8]);
        put_bytes(out, 15, nested);
    }
}

/// A field of a message: its number, and its payload.
enum Field<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
    Other,
}

/// Reads the next field and moves on; `None` at the end and at anything malformed.
fn next_field<'a>(rest: &mut &'a [u8]) -> Option<(u64, Field<'a>)> {
    let head = take_varint(rest)?;
    let field = match (head & 7) as u8 {
        VARINT => Field::Varint(take_varint(rest)?),
        FIXED64 => take(rest, 8).map(|_| Field::Other)?,
        FIXED32 => take(rest, 4).map(|_| Field::Other)?,
        BYTES => {
            let len = usize::try_from(take_varint(rest)?).ok()?;
            Field::Bytes(take(rest, len)?)
        }
        _ => return None,
    };
    Some((head >> 3, field))
}

fn take<'a>(rest: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(len)?;
    *rest = left;
    Some(taken)
}

fn take_varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for at in 0..10 {
        let (&byte, left) = rest.split_first()?;
        *rest = left;
        value |= u64::from(byte & 0x7F).checked_shl(7 * at)?;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Spans a server says it did not take, from an `ExportTraceServiceResponse`.
pub(crate) fn rejected_spans(mut response: &[u8]) -> u64 {
    while let Some((number, field)) = next_field(&mut response) {
        if let (1, Field::Bytes(mut partial)) = (number, field) {
            while let Some((number, field)) = next_field(&mut partial) {
                if let (1, Field::Varint(rejected)) = (number, field) {
                    return rejected;
                }
            }
        }
    }
    0
}

/// How long a server asks to wait, from the `RetryInfo` in a `google.rpc.Status`.
pub(crate) fn retry_delay(mut status: &[u8]) -> Option<std::time::Duration> {
    while let Some((number, field)) = next_field(&mut status) {
        let (3, Field::Bytes(mut any)) = (number, field) else { continue };
        let (mut is_retry_info, mut value): (bool, &[u8]) = (false, &[]);
        while let Some((number, field)) = next_field(&mut any) {
            match (number, field) {
                (1, Field::Bytes(url)) => is_retry_info = url.ends_with(b"google.rpc.RetryInfo"),
                (2, Field::Bytes(bytes)) => value = bytes,
                _ => {}
            }
        }
        if is_retry_info {
            return Some(delay_of(value));
        }
    }
    None
}

fn delay_of(mut retry_info: &[u8]) -> std::time::Duration {
    let (mut seconds, mut nanos) = (0, 0);
    while let Some((number, field)) = next_field(&mut retry_info) {
        let (1, Field::Bytes(mut duration)) = (number, field) else { continue };
        while let Some((number, field)) = next_field(&mut duration) {
            match (number, field) {
                (1, Field::Varint(value)) => seconds = value,
                (2, Field::Varint(value)) => nanos = u32::try_from(value).unwrap_or(0),
                _ => {}
            }
        }
    }
    // A negative delay arrives as a huge varint: no delay at all.
    if i64::try_from(seconds).is_err() {
        return std::time::Duration::ZERO;
    }
    std::time::Duration::from_secs(seconds) + std::time::Duration::from_nanos(u64::from(nanos))
}

#[cfg(test)]
mod tests;
