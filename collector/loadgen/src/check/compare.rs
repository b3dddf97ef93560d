//! Compares a stored row with what its span must be, column by column. The span is made anew from
//! the plan; nothing of what was sent is kept.

use std::collections::HashMap;

use millrace_ddl::Attributes as Variant;
use serde_json::{Map, Value as Json};

use super::row::Row;
use crate::plan::Plan;
use crate::span::{
    Attributes, RESOURCE_CYCLE, Resource, SCOPE_NAME, SCOPE_VERSION, Span, Spans, Status, Value,
};

/// Kinds as the OpenTelemetry Collector's exporter writes them, from OTLP's numbers.
const KINDS: [&str; 6] = ["Unspecified", "Internal", "Server", "Client", "Producer", "Consumer"];

/// Knows what every span of a plan must look like.
pub(crate) struct Judge {
    plan: Plan,
    spans: Spans,
    variant: Variant,
    /// Service name and attribute text that were compared and found right, by the resource's place
    /// in the cycle: resources repeat on every row, and reading their text is the dear part.
    right_resources: HashMap<u64, (Vec<u8>, Vec<u8>)>,
}

impl Judge {
    pub(crate) fn new(plan: &Plan, variant: Variant) -> Self {
        Self {
            plan: plan.clone(),
            spans: Spans::new(plan),
            variant,
            right_resources: HashMap::new(),
        }
    }

    /// The index a row claims by its span id; `None` if no span of the plan has that id.
    pub(crate) fn index_of(&self, row: &Row<'_>) -> Option<u64> {
        let index = self.spans.index_of(from_hex(row.span_id)?);
        (index < self.plan.count).then_some(index)
    }

    /// The first column that is not what span `index` must have; `None` if all are right.
    pub(crate) fn first_fault(&mut self, index: u64, row: &Row<'_>) -> Option<&'static str> {
        let span = self.spans.at(index);
        let trace = index / u64::from(self.plan.spans_per_resource);
        span_fault(&span, row, self.variant).or_else(|| self.resource_fault(trace, row))
    }

    fn resource_fault(&mut self, trace: u64, row: &Row<'_>) -> Option<&'static str> {
        let place = trace % RESOURCE_CYCLE;
        if let Some((service, attributes)) = self.right_resources.get(&place)
            && (service.as_slice(), attributes.as_slice())
                == (row.service_name, row.resource_attributes)
        {
            return None;
        }
        let resource = Resource::at(&self.plan, trace);
        if row.service_name != resource.service_name.as_bytes() {
            return Some("ServiceName");
        }
        if !is_resource(row.resource_attributes, &resource, self.variant) {
            return Some("ResourceAttributes");
        }
        let right = (row.service_name.to_vec(), row.resource_attributes.to_vec());
        self.right_resources.insert(place, right);
        None
    }
}

/// Everything but the resource.
fn span_fault(span: &Span, row: &Row<'_>, variant: Variant) -> Option<&'static str> {
    let parent = if span.parent_id == 0 { String::new() } else { hex(span.parent_id) };
    let status = match span.status {
        Status::Unset => "Unset",
        Status::Ok => "Ok",
        Status::Error => "Error",
    };
    let columns = [
        ("Timestamp", row.timestamp_nanos == span.start_nanos as i64),
        ("TraceId", row.trace_id == wide_hex(span.trace_id).as_bytes()),
        ("SpanId", row.span_id == hex(span.span_id).as_bytes()),
        ("ParentSpanId", row.parent_id == parent.as_bytes()),
        ("TraceState", row.trace_state == span.trace_state.as_bytes()),
        ("SpanName", row.name == span.name.as_bytes()),
        ("SpanKind", row.kind == KINDS[usize::from(span.kind) % KINDS.len()].as_bytes()),
        ("ScopeName", row.scope_name == SCOPE_NAME.as_bytes()),
        ("ScopeVersion", row.scope_version == SCOPE_VERSION.as_bytes()),
        ("SpanAttributes", is_set(row.attributes, &span.attributes, variant)),
        ("Duration", row.duration_nanos == span.end_nanos - span.start_nanos),
        ("StatusCode", row.status_code == status.as_bytes()),
        ("StatusMessage", row.status_message == span.status_message.as_bytes()),
        ("Events.Timestamp", row.event_nanos == [span.event_nanos as i64]),
        ("Events.Name", row.event_names == [span.event_name.as_bytes()]),
        ("Events.Attributes", are_sets(row.event_attributes, &[span.event_attributes], variant)),
    ];
    let wrong = columns.into_iter().find(|(_, is_right)| !is_right);
    wrong.map(|(column, _)| column).or_else(|| link_fault(span, row, variant))
}

fn link_fault(span: &Span, row: &Row<'_>, variant: Variant) -> Option<&'static str> {
    let traces: Vec<String> = span.link.iter().map(|link| wide_hex(link.trace_id)).collect();
    let spans: Vec<String> = span.link.iter().map(|link| hex(link.span_id)).collect();
    let states: Vec<&str> = span.link.iter().map(|_| span.trace_state).collect();
    let sets: Vec<Attributes> = span.link.iter().map(|link| link.attributes).collect();
    let columns = [
        ("Links.TraceId", are_texts(&row.link_trace_ids, &traces)),
        ("Links.SpanId", are_texts(&row.link_span_ids, &spans)),
        ("Links.TraceState", are_texts(&row.link_trace_states, &states)),
        ("Links.Attributes", are_sets(row.link_attributes, &sets, variant)),
    ];
    columns.into_iter().find(|(_, is_right)| !is_right).map(|(column, _)| column)
}

fn are_texts(found: &[&[u8]], wanted: &[impl AsRef<str>]) -> bool {
    found.iter().copied().eq(wanted.iter().map(|text| text.as_ref().as_bytes()))
}

fn is_resource(text: &[u8], resource: &Resource, variant: Variant) -> bool {
    let Resource { service_name, host_name, process_id, environment, is_sampled } = resource;
    let Some(found) = flat(text) else { return false };
    let is_text = |key: &str, wanted: &str| {
        found.get(key).is_some_and(|value| value.as_str() == Some(wanted))
    };
    let is_value = |key: &str, wanted| found.get(key).is_some_and(|v| is_equal(v, wanted, variant));
    found.len() == 3 + usize::from(environment.is_some()) + usize::from(is_sampled.is_some())
        && is_text("service.name", service_name)
        && is_text("host.name", host_name)
        && is_value("process.pid", Value::Int(*process_id))
        && environment.is_none_or(|wanted| is_text("deployment.environment.name", wanted))
        && is_sampled.is_none_or(|wanted| is_value("load.sampled", Value::Bool(wanted)))
}

/// Whether a JSON text holds exactly these attributes.
fn is_set(text: &[u8], wanted: &Attributes, variant: Variant) -> bool {
    if wanted.len() == 0 {
        return text == b"{}";
    }
    flat(text).is_some_and(|found| is_flat_set(&found, wanted, variant))
}

/// The same for an array of sets.
fn are_sets(text: &[u8], wanted: &[Attributes], variant: Variant) -> bool {
    // What nearly every row has: nothing, or one empty set.
    match wanted {
        [] => return text == b"[]",
        [one] if one.len() == 0 => return text == b"[{}]",
        _ => {}
    }
    let Ok(Json::Array(found)) = serde_json::from_slice(text) else { return false };
    found.len() == wanted.len()
        && found.into_iter().zip(wanted).all(|(found, wanted)| {
            let Json::Object(object) = found else { return false };
            let mut leaves = HashMap::new();
            flatten(object, "", &mut leaves);
            is_flat_set(&leaves, wanted, variant)
        })
}

fn is_flat_set(found: &HashMap<String, Json>, wanted: &Attributes, variant: Variant) -> bool {
    found.len() == wanted.len()
        && wanted
            .iter()
            .all(|(key, value)| found.get(key).is_some_and(|f| is_equal(f, value, variant)))
}

/// The leaves of a JSON object by dotted path: `JSON` columns print paths as nested objects, `Map`
/// columns as dotted keys.
fn flat(text: &[u8]) -> Option<HashMap<String, Json>> {
    let Ok(Json::Object(object)) = serde_json::from_slice(text) else { return None };
    let mut leaves = HashMap::new();
    flatten(object, "", &mut leaves);
    Some(leaves)
}

fn flatten(object: Map<String, Json>, path: &str, leaves: &mut HashMap<String, Json>) {
    for (key, value) in object {
        let path = if path.is_empty() { key } else { format!("{path}.{key}") };
        match value {
            Json::Object(inner) if !inner.is_empty() => flatten(inner, &path, leaves),
            leaf => {
                leaves.insert(path, leaf);
            }
        }
    }
}

/// A `JSON` column keeps types; a `Map` column keeps every value as text.
fn is_equal(found: &Json, wanted: Value, variant: Variant) -> bool {
    match (variant, wanted) {
        (_, Value::Text(text)) => found.as_str() == Some(text),
        (Variant::Json, Value::Int(number)) => found.as_i64() == Some(number),
        (Variant::Json, Value::Double(number)) => found.as_f64() == Some(number),
        (Variant::Json, Value::Bool(yes)) => found.as_bool() == Some(yes),
        (Variant::Map, Value::Int(number)) => found.as_str() == Some(number.to_string().as_str()),
        (Variant::Map, Value::Double(number)) => {
            found.as_str().and_then(|text| text.parse().ok()) == Some(number)
        }
        (Variant::Map, Value::Bool(yes)) => {
            found.as_str() == Some(if yes { "true" } else { "false" })
        }
    }
}

pub(super) fn hex(id: u64) -> String {
    format!("{id:016x}")
}

fn wide_hex(id: u128) -> String {
    format!("{id:032x}")
}

/// A span id of exactly 16 lower-case hexadecimal digits.
fn from_hex(text: &[u8]) -> Option<u64> {
    if text.len() != 16 {
        return None;
    }
    text.iter().try_fold(0_u64, |id, byte| {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            _ => return None,
        };
        Some((id << 4) | u64::from(digit))
    })
}
