//! Cuts requests in JSON into requests of one record each.

use millrace_wire::Signal;
use serde_json::{Map, Value};

use super::{RECORDS_MAX, TraceError};

/// The lists on the way to a record, from a request. The kind of a metric's data is between its
/// metric and its points, so metrics have one more level.
const LEVELS: [(Signal, [&str; 3]); 3] = [
    (Signal::Traces, ["resourceSpans", "scopeSpans", "spans"]),
    (Signal::Logs, ["resourceLogs", "scopeLogs", "logRecords"]),
    (Signal::Metrics, ["resourceMetrics", "scopeMetrics", "metrics"]),
];

/// The fields of a metric that hold data points.
const METRIC_DATA: [&str; 5] = ["gauge", "sum", "histogram", "exponentialHistogram", "summary"];

/// Returns the records of all documents of a text, each in a separate request.
pub(super) fn split_records(text: &str) -> Result<Vec<(Signal, Value)>, TraceError> {
    let mut records = Vec::new();
    let documents = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    for (index, document) in documents.enumerate() {
        let document = document?;
        let level = LEVELS.iter().find(|(_, [groups, ..])| document.get(groups).is_some());
        let Some((signal, lists)) = level else { return Err(TraceError::NotOtlp(index + 1)) };
        for request in split_lists(&document, lists) {
            match signal {
                Signal::Metrics => records
                    .extend(split_metric(&request, lists).into_iter().map(|one| (*signal, one))),
                _ => records.push((*signal, request)),
            }
            if records.len() > RECORDS_MAX {
                return Err(TraceError::TooMany);
            }
        }
    }
    Ok(records)
}

/// Returns an object once for each innermost entry of its nested lists, with that entry alone.
fn split_lists(object: &Value, lists: &[&str]) -> Vec<Value> {
    let Some((list, inner)) = lists.split_first() else { return vec![object.clone()] };
    let entries = object.get(list).and_then(Value::as_array).into_iter().flatten();
    let singles = entries.flat_map(|entry| split_lists(entry, inner));
    let shell: Map<String, Value> = object
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(name, _)| name != list)
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    singles
        .map(|single| {
            let mut object = shell.clone();
            object.insert((*list).to_owned(), Value::Array(vec![single]));
            Value::Object(object)
        })
        .collect()
}

/// Returns a request of one metric once for each of its points.
fn split_metric(request: &Value, [groups, scopes, metrics]: &[&str; 3]) -> Vec<Value> {
    let path = format!("/{groups}/0/{scopes}/0/{metrics}/0");
    let Some(metric) = request.pointer(&path) else { return Vec::new() };
    let kind = METRIC_DATA.into_iter().find(|kind| metric.get(kind).is_some());
    let Some((kind, data)) = kind.and_then(|kind| Some((kind, metric.get(kind)?))) else {
        return vec![request.clone()];
    };
    let singles = split_lists(data, &["dataPoints"]).into_iter();
    singles
        .map(|data| {
            let mut request = request.clone();
            if let Some(slot) = request.pointer_mut(&format!("{path}/{kind}")) {
                *slot = data;
            }
            request
        })
        .collect()
}
