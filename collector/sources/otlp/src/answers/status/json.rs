//! The same messages in JSON, where 64-bit numbers are strings.

use millrace_pipeline::publish::DeliveryReceipt;
use millrace_wire::Signal;
use serde_json::json;

use super::{omitted_records, truncate_message};

/// Encodes `google.rpc.Status`. The delay, if any, is in HTTP's own header.
pub(crate) fn encode_status(code: u32, message: &str) -> Vec<u8> {
    json!({ "code": code, "message": truncate_message(message) }).to_string().into_bytes()
}

/// Encodes `Export{Trace,Logs,Metrics}ServiceResponse`: `{}` when all records were accepted.
pub(crate) fn export_response(signal: Signal, delivered: &DeliveryReceipt) -> Vec<u8> {
    let Some((records, message)) = omitted_records(delivered) else { return b"{}".to_vec() };
    let rejected = match signal {
        Signal::Traces => "rejectedSpans",
        Signal::Logs => "rejectedLogRecords",
        Signal::Metrics => "rejectedDataPoints",
    };
    let partial = json!({ rejected: records.to_string(), "errorMessage": message });
    json!({ "partialSuccess": partial }).to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::{encode_status, export_response};
    use millrace_pipeline::publish::DeliveryReceipt;
    use millrace_wire::Signal;
    use serde_json::{Value, json};

    /// Scenario: all records accepted, and some excluded. Guarantee: each signal has its own field,
    /// with the number as a string.
    #[test]
    fn a_partial_success_names_the_signals_own_records() {
        let all = export_response(Signal::Logs, &DeliveryReceipt::default());
        assert_eq!(all, b"{}");
        for (signal, field) in [
            (Signal::Traces, "rejectedSpans"),
            (Signal::Logs, "rejectedLogRecords"),
            (Signal::Metrics, "rejectedDataPoints"),
        ] {
            let some = export_response(signal, &DeliveryReceipt::with_rejected(300));
            let some: Value = serde_json::from_slice(&some).unwrap();
            assert_eq!(some["partialSuccess"][field], json!("300"));
        }
    }

    /// Scenario: a message with quotes. Guarantee: valid JSON with code and message.
    #[test]
    fn a_status_is_json() {
        let read: Value = serde_json::from_slice(&encode_status(3, "not \"it\"\n")).unwrap();
        assert_eq!(read, json!({ "code": 3, "message": "not \"it\"\n" }));
    }
}
