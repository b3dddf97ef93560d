//! The same messages in JSON, where 64-bit numbers are strings.

use millrace_pipeline::publish::Delivered;
use millrace_wire::Signal;
use serde_json::json;

use super::{LEFT_OUT, shortened};

/// `google.rpc.Status`. The delay, if any, is in HTTP's own header.
pub(crate) fn status(code: u32, message: &str) -> Vec<u8> {
    json!({ "code": code, "message": shortened(message) }).to_string().into_bytes()
}

/// `Export{Trace,Logs,Metrics}ServiceResponse`: `{}` when all records were taken.
pub(crate) fn export_response(signal: Signal, delivered: &Delivered) -> Vec<u8> {
    let Delivered { rejected_records } = delivered;
    if *rejected_records == 0 {
        return b"{}".to_vec();
    }
    let rejected = match signal {
        Signal::Traces => "rejectedSpans",
        Signal::Logs => "rejectedLogRecords",
        Signal::Metrics => "rejectedDataPoints",
    };
    let partial = json!({ rejected: rejected_records.to_string(), "errorMessage": LEFT_OUT });
    json!({ "partialSuccess": partial }).to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::{export_response, status};
    use millrace_pipeline::publish::Delivered;
    use millrace_wire::Signal;
    use serde_json::{Value, json};

    /// Scenario: all records taken, and some left out. Guarantee: each signal's own field, the
    /// number as a string.
    #[test]
    fn a_partial_success_names_the_signals_own_records() {
        let all = export_response(Signal::Logs, &Delivered { rejected_records: 0 });
        assert_eq!(all, b"{}");
        for (signal, field) in [
            (Signal::Traces, "rejectedSpans"),
            (Signal::Logs, "rejectedLogRecords"),
            (Signal::Metrics, "rejectedDataPoints"),
        ] {
            let some = export_response(signal, &Delivered { rejected_records: 300 });
            let some: Value = serde_json::from_slice(&some).unwrap();
            assert_eq!(some["partialSuccess"][field], json!("300"));
        }
    }

    /// Scenario: a message with quotes in it. Guarantee: valid JSON with code and message.
    #[test]
    fn a_status_is_json() {
        let read: Value = serde_json::from_slice(&status(3, "not \"it\"\n")).unwrap();
        assert_eq!(read, json!({ "code": 3, "message": "not \"it\"\n" }));
    }
}
