//! Tests of the private code of `framing.rs`.

use super::*;

/// Scenario: valid and invalid framings. Guarantee: exactly one message with a known flag passes.
#[test]
fn a_call_holds_exactly_one_message() {
    let gzip = Some(ContentEncoding::Gzip);
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

/// Scenario: clients' header values. Guarantee: media types pass in any case with any parameters,
/// and only known compressions; gRPC's have one spelling.
#[test]
fn header_values_are_read_as_each_transport_spells_them() {
    assert_eq!(format_of("application/x-protobuf; charset=x"), Some(MessageFormat::Protobuf));
    assert_eq!(format_of("Application/JSON ;charset=utf-8"), Some(MessageFormat::Json));
    assert!(format_of("text/json").or(format_of("")).is_none());
    assert!(is_grpc("application/grpc") && is_grpc("application/grpc+proto;x=y"));
    assert!(!is_grpc("application/grpc+json") && !is_grpc("application/grpc-web"));
    assert_eq!(content_encoding("Identity"), Ok(None));
    assert_eq!(content_encoding("GZIP"), Ok(Some(ContentEncoding::Gzip)));
    assert_eq!(grpc_encoding("zstd"), Ok(Some(ContentEncoding::Zstd)));
    assert_eq!(grpc_encoding("GZIP").or(content_encoding("br")), Err(UnknownEncoding));
}

/// Scenario: a message with characters that a header can't hold. Guarantee: all are encoded.
#[test]
fn messages_are_safe_in_a_header() {
    assert_eq!(percent_encoded("50% of `ä`\n"), "50%25 of `%C3%A4`%0A");
}
