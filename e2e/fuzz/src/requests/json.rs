//! OTLP in JSON: any text ends in an answer within the limit, and what passes is a request like any
//! other, which the reference library reads with the same number of records.
//!
//! The first byte of an input chooses the signal and the limit; the rest is the text.

use millrace_wire::limits::WireLimits;
use millrace_wire::otlp::{check_request, json};
use millrace_wire::{Signal, WireErrorKind};

use crate::meter::peak_bytes;
use crate::reference;

/// Memory beside the output: the path of an error.
const BYTES_BASE: usize = 64 * 1024;
/// The output is reserved by the length of the text, and a string with escapes is unescaped into a
/// buffer of its own.
const BYTES_PER_BYTE: usize = 8;

/// A text, as it comes from a client.
pub fn text(data: &[u8]) {
    let Some((&control, text)) = data.split_first() else { return };
    let signal = Signal::ALL[usize::from(control) % 3];
    let limit_bytes = [1 << 20, 40, 300][usize::from(control >> 4) % 3];
    let mut out = Vec::new();
    let (read, bytes) = peak_bytes(|| json::transcode_request(signal, text, limit_bytes, &mut out));
    assert!(out.len() <= limit_bytes, "{} bytes of {limit_bytes}", out.len());
    let bound = BYTES_BASE + BYTES_PER_BYTE * text.len();
    assert!(bytes <= bound, "{} bytes took {bytes} of memory", text.len());
    if let Err(error) = read {
        assert!(error.offset() <= text.len(), "{error}");
        return;
    }
    match check_request(signal, &out, &WireLimits::default()) {
        Ok(checked) => assert_eq!(reference::records(signal, &out), Some(checked.records)),
        Err(error) => assert!(
            matches!(
                error.kind(),
                WireErrorKind::TooDeep
                    | WireErrorKind::TooManyAttributes
                    | WireErrorKind::DataTwice
            ),
            "written as protobuf that isn't OTLP: {error}"
        ),
    }
}
