//! OTLP walks: the check, the cuts and the error paths, against the reference library.
//!
//! The first byte of an input says how long the parts of a split may be; the rest is the request.

use millrace_wire::limits::WireLimits;
use millrace_wire::otlp::{self, RequestOutline, path_of, split_request};
use millrace_wire::{Signal, WireError, WireErrorKind};

use crate::meter::peak_bytes;
use crate::reference;

/// A check allocates nothing but the path of its error: at most a dozen names, doubling as it
/// grows.
const CHECK_BYTES_MAX: usize = 4096;

/// A span request.
pub fn traces(data: &[u8]) {
    walk(Signal::Traces, data);
}

/// A log request.
pub fn logs(data: &[u8]) {
    walk(Signal::Logs, data);
}

/// A metric request.
pub fn metrics(data: &[u8]) {
    walk(Signal::Metrics, data);
}

fn walk(signal: Signal, data: &[u8]) {
    let Some((&control, request)) = data.split_first() else { return };
    let (checked, bytes) =
        peak_bytes(|| otlp::check_request(signal, request, &WireLimits::default()));
    assert!(bytes <= CHECK_BYTES_MAX, "the check took {bytes} bytes");
    let max_bytes = 1 + usize::from(control) * 4;
    match checked {
        Ok(RequestOutline { records, .. }) => {
            assert_eq!(reference::records(signal, request), Some(records), "the reference differs");
            parts_hold(signal, request, records, max_bytes);
            stricter_limits_refuse_more(signal, request, records);
        }
        Err(error) => {
            explained(request, &error);
            let _ = split_request(signal, request, max_bytes);
            let lenient = matches!(
                error.kind(),
                // Rules of ours, and of OTLP, that protobuf doesn't have.
                WireErrorKind::IdLength
                    | WireErrorKind::Group
                    | WireErrorKind::DataTwice
                    | WireErrorKind::TooDeep
                    | WireErrorKind::TooManyAttributes
            );
            if !lenient {
                let read = reference::records(signal, request);
                assert_eq!(read, None, "the reference reads what the check refuses: {error}");
            }
        }
    }
    let _ = path_of(signal, request, usize::from(control));
}

/// Cutting keeps every record, and takes memory in proportion to the request.
fn parts_hold(signal: Signal, request: &[u8], records: u64, max_bytes: usize) {
    let parts = split_request(signal, request, max_bytes);
    assert!(parts.is_ok(), "a checked request can't be cut: {parts:?}");
    let parts = parts.unwrap_or_default();
    let (mut found, mut bytes) = (0, 0);
    for part in &parts {
        let checked = otlp::check_request(signal, &part.bytes, &WireLimits::default());
        assert_eq!(checked.map(|checked| checked.records), Ok(part.records), "a part's records");
        assert!(part.records > 0, "an empty part");
        found += part.records;
        bytes += part.bytes.len();
    }
    assert_eq!(found, records, "records lost or doubled by cutting");
    // The stated bound, and a tag and a length for each of four containers in each part.
    let bound = 4 * request.len() + 24 * parts.len();
    assert!(bytes <= bound, "{} bytes became {bytes} in {} parts", request.len(), parts.len());
}

/// Whatever stricter limits let through has the same records; what they refuse is for a limit.
fn stricter_limits_refuse_more(signal: Signal, request: &[u8], records: u64) {
    let limits = WireLimits {
        message_bytes: 1 << 20,
        nesting_depth: 1,
        attributes: 2,
        ..WireLimits::of_readers()
    };
    match otlp::check_request(signal, request, &limits) {
        Ok(checked) => assert_eq!(checked.records, records),
        Err(error) => assert!(
            matches!(error.kind(), WireErrorKind::TooDeep | WireErrorKind::TooManyAttributes),
            "{error}"
        ),
    }
}

/// An error points into the request, and its path is made of field names.
fn explained(request: &[u8], error: &WireError) {
    assert!(error.offset() <= request.len(), "{error}");
    let named = |byte: u8| byte.is_ascii_lowercase() || matches!(byte, b'_' | b'.');
    assert!(error.field_path().bytes().all(named), "{error}");
    assert!(!error.to_string().is_empty());
}
