//! Tests of what `framing.rs` keeps to itself.

use super::*;

/// Scenario: framings right and wrong. Guarantee: exactly one message, its flag understood.
#[test]
fn a_call_holds_exactly_one_message() {
    let gzip = Some(Encoding::Gzip);
    assert_eq!(grpc_message(&[0, 0, 0, 0, 2, 7, 7], None), Ok(None));
    assert_eq!(grpc_message(&[0, 0, 0, 0, 0], None), Ok(None));
    assert_eq!(grpc_message(&[1, 0, 0, 0, 1, 7], gzip), Ok(gzip));
    assert_eq!(grpc_message(&[0, 0, 0, 0, 1, 7], gzip), Ok(None));
    for (bad, error) in [
        (&[][..], FramingError::NoMessage),
        (&[0, 0, 0], FramingError::NoMessage),
        (&[0, 0, 0, 0, 3, 7], FramingError::NotOneMessage),
        (&[0, 0, 0, 0, 0, 0], FramingError::NotOneMessage),
        (&[2, 0, 0, 0, 0], FramingError::UnknownFlag),
    ] {
        assert_eq!(grpc_message(bad, gzip), Err(error), "{bad:?}");
    }
    assert_eq!(grpc_message(&[1, 0, 0, 0, 0], None), Err(FramingError::Unannounced));
}

/// Scenario: what clients write in their headers. Guarantee: media types in any case with any
/// parameters, known compressions only; gRPC's are spelled one way.
#[test]
fn header_values_are_read_as_each_transport_spells_them() {
    assert_eq!(format_of("application/x-protobuf; charset=x"), Some(Format::Protobuf));
    assert_eq!(format_of("Application/JSON ;charset=utf-8"), Some(Format::Json));
    assert!(format_of("text/json").or(format_of("")).is_none());
    assert!(is_grpc("application/grpc") && is_grpc("application/grpc+proto;x=y"));
    assert!(!is_grpc("application/grpc+json") && !is_grpc("application/grpc-web"));
    assert_eq!(content_encoding("Identity"), Ok(None));
    assert_eq!(content_encoding("GZIP"), Ok(Some(Encoding::Gzip)));
    assert_eq!(grpc_encoding("zstd"), Ok(Some(Encoding::Zstd)));
    assert_eq!(grpc_encoding("GZIP").or(content_encoding("br")), Err(UnknownEncoding));
}

/// Scenario: a message with characters that a header can't hold. Guarantee: none is left.
#[test]
fn messages_are_safe_in_a_header() {
    assert_eq!(percent_encoded("50% of `ä`\n"), "50%25 of `%C3%A4`%0A");
}
