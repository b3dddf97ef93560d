//! Requests shown as JSON: what is shown reads back as what was given, whatever it was.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod requests;

use millrace_wire::Signal;
use millrace_wire::limits::Limits;
use millrace_wire::otlp::json::{print, transcode};
use proptest::prelude::*;
use prost::Message;

/// Prints, reads the text back, and lets the reference library say what both are. Compared as text,
/// because a NaN equals nothing.
fn same_again<M: Message + Default + std::fmt::Debug>(signal: Signal, request: &M) {
    let given = request.encode_to_vec();
    let text = print(signal, &given, &Limits::default()).unwrap();
    let mut bytes = Vec::new();
    transcode(signal, text.as_bytes(), usize::MAX, &mut bytes)
        .unwrap_or_else(|error| panic!("{error}\n{text}"));
    let [given, back] = [given, bytes].map(|bytes| M::decode(bytes.as_slice()).unwrap());
    assert_eq!(format!("{back:?}"), format!("{given:?}"), "{text}");
}

proptest! {
    /// Scenario: random requests of each signal. Guarantee: the text holds all of it.
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

    /// Scenario: a request with bytes changed, cut, or nothing but noise. Guarantee: an answer, and
    /// one without control characters but for line ends.
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
            if let Ok(text) = print(signal, &bytes, &Limits::default()) {
                prop_assert!(!text.chars().any(|c| c.is_control() && c != '\n'));
            }
        }
    }
}

/// Scenario: one span, its resource in two pieces as protobuf allows. Guarantee: the layout people
/// see, pieces joined, a terminal's control characters harmless.
#[test]
fn a_span_is_shown_indented() {
    let resource_piece = b"\x0a\x02\x10\x07";
    let scope_spans = b"\x12\x09\x12\x07\x2a\x05a\x1b[2J";
    let group: Vec<u8> = [&resource_piece[..], scope_spans, b"\x0a\x02\x10\x08"].concat();
    let mut request = vec![0x0a, group.len() as u8];
    request.extend(group);
    let text = print(Signal::Traces, &request, &Limits::default()).unwrap();
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
    let error = print(Signal::Traces, &request[..9], &Limits::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "malformed otlp traces: the message ends inside a field at byte 1 in resource_spans"
    );
}
