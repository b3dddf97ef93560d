//! Tests requests printed as JSON: any printed request reads back as itself.

use millrace_wire::Signal;
use millrace_wire::limits::WireLimits;
use millrace_wire::otlp::json::{print_request, transcode_request};
use proptest::prelude::*;
use prost::Message;

use crate::requests;

/// Prints a request, reads the text back, and compares both as the reference library shows them.
/// Compared as text, because a NaN equals nothing.
fn same_again<M: Message + Default + std::fmt::Debug>(signal: Signal, request: &M) {
    let given = request.encode_to_vec();
    let text = print_request(signal, &given, &WireLimits::default()).unwrap();
    let mut bytes = Vec::new();
    transcode_request(signal, text.as_bytes(), usize::MAX, &mut bytes)
        .unwrap_or_else(|error| panic!("{error}\n{text}"));
    let [given, back] = [given, bytes].map(|bytes| M::decode(bytes.as_slice()).unwrap());
    assert_eq!(format!("{back:?}"), format!("{given:?}"), "{text}");
}

proptest! {
    /// Scenario: random requests of each signal. Guarantee: the text has all of their content.
    #[test]
    fn a_printed_request_reads_back_as_itself(
        traces in requests::traces(),
        logs in requests::logs(),
        metrics in requests::metrics(),
    ) {
        same_again(Signal::Traces, &traces);
        same_again(Signal::Logs, &logs);
        same_again(Signal::Metrics, &metrics);
    }

    /// Scenario: a request with changed bytes, truncated, or of random bytes. Guarantee: a result
    /// without control characters other than line feeds.
    #[test]
    fn hostile_bytes_end_in_an_answer(
        request in requests::traces(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        end in any::<prop::sample::Index>(),
    ) {
        let mut bytes = request.encode_to_vec();
        for (at, byte) in changes {
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
        }
        bytes.truncate(end.index(bytes.len() + 1));
        for signal in Signal::ALL {
            if let Ok(text) = print_request(signal, &bytes, &WireLimits::default()) {
                prop_assert!(!text.chars().any(|c| c.is_control() && c != '\n'));
            }
        }
    }
}

/// Scenario: one span, its resource in two pieces as protobuf allows. Guarantee: the layout for
/// people, joined pieces, and escaped terminal control characters.
#[test]
fn a_span_is_shown_indented() {
    let resource_piece = b"\x0a\x02\x10\x07";
    let scope_spans = b"\x12\x09\x12\x07\x2a\x05a\x1b[2J";
    let group: Vec<u8> = [&resource_piece[..], scope_spans, b"\x0a\x02\x10\x08"].concat();
    let mut request = vec![0x0a, group.len() as u8];
    request.extend(group);
    let text = print_request(Signal::Traces, &request, &WireLimits::default()).unwrap();
    let expected = r#"{
  "resourceSpans": [
    {
      "resource": {
        "droppedAttributesCount": 8
      },
      "scopeSpans": [
        {
          "spans": [
            {
              "name": "a\u001b[2J"
            }
          ]
        }
      ]
    }
  ]
}"#;
    assert_eq!(text, expected);
    let error = print_request(Signal::Traces, &request[..9], &WireLimits::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "malformed otlp traces: the message ends inside a field at byte 1 in resource_spans"
    );
}
