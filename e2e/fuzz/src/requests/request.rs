//! An OTLP request as it arrives: what its headers announce, how gRPC frames it, and the message
//! behind that.
//!
//! An input is a control byte, a line of `Content-Type`, a line with the compression's name, and
//! the body. The control byte says which transport it is, and whether the body is framed already.

use millrace_wire::Signal;
use millrace_wire::decompress::{ContentEncoding, Decompressor};
use millrace_wire::framing::{
    self, FramingError, GRPC_PREFIX_BYTES, MessageFormat, UnknownEncoding, grpc_message,
    percent_encoded,
};
use millrace_wire::limits::WireLimits;
use millrace_wire::otlp::{check_request, json};

use crate::reuse::Kept;

/// The longest message once its compression is undone: a few times what an input can hold.
const LIMIT_BYTES: usize = 2000;

thread_local! {
    static DECOMPRESSOR: Kept<Decompressor> = const { Kept::none() };
}

/// A request with its headers.
pub fn otlp(data: &[u8]) {
    let Some((&control, rest)) = data.split_first() else { return };
    let mut parts = rest.splitn(3, |byte| *byte == b'\n');
    let mut part = || parts.next().unwrap_or_default();
    let (content_type, encoding, body) = (part(), part(), part());
    // A header value is text, or the receiver passes over it.
    let (Ok(content_type), Ok(encoding)) =
        (std::str::from_utf8(content_type), std::str::from_utf8(encoding))
    else {
        return;
    };
    let signal = Signal::ALL[usize::from(control >> 1) % 3];
    a_message_is_safe_in_a_header(encoding);
    if control & 1 == 0 {
        over_http(signal, content_type, encoding, body);
    } else {
        over_grpc(signal, content_type, encoding, body, control & 0x80 != 0);
    }
}

fn over_http(signal: Signal, content_type: &str, encoding: &str, body: &[u8]) {
    let format = framing::format_of(content_type);
    let plain = content_type.split(';').next().unwrap_or_default();
    assert_eq!(framing::format_of(plain), format, "a parameter changes what is read");
    if let Some(format) = format {
        let name = match format {
            MessageFormat::Protobuf => "x-protobuf",
            MessageFormat::Json => "json",
        };
        let ends =
            plain.trim().rsplit('/').next().is_some_and(|end| end.eq_ignore_ascii_case(name));
        assert!(ends, "{content_type:?} is read as {format:?}");
    }
    let announced = framing::content_encoding(encoding);
    is_spoken(&encoding.to_ascii_lowercase(), announced);
    if let (Some(format), Ok(encoding)) = (format, announced) {
        read(signal, format, encoding, body);
    }
}

fn over_grpc(signal: Signal, content_type: &str, encoding: &str, body: &[u8], is_framed: bool) {
    if framing::is_grpc(content_type) {
        assert!(content_type.trim().starts_with("application/grpc"), "{content_type:?}");
        assert_eq!(framing::format_of(content_type), None, "{content_type:?} is two things");
    }
    let announced = framing::grpc_encoding(encoding);
    is_spoken(encoding, announced);
    let announced = announced.unwrap_or(None);
    let framed;
    let call = if is_framed {
        body
    } else {
        let length = (body.len() as u32).to_be_bytes();
        framed = [&[u8::from(announced.is_some())][..], &length, body].concat();
        assert_eq!(grpc_message(&framed, announced), Ok(announced), "a good frame");
        &framed[..]
    };
    match grpc_message(call, announced) {
        Ok(encoding) => {
            let message = &call[GRPC_PREFIX_BYTES..];
            let length = call[1..5].iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
            assert_eq!((call[0], message.len()), (u8::from(encoding.is_some()), length));
            assert!(encoding.is_none() || encoding == announced, "another compression");
            let cut = &call[..call.len() - 1];
            assert!(grpc_message(cut, announced).is_err(), "a cut call is taken");
            read(signal, MessageFormat::Protobuf, encoding, message);
        }
        Err(FramingError::NoMessage) => assert!(call.len() < GRPC_PREFIX_BYTES),
        Err(FramingError::Unannounced) => assert_eq!((call[0], announced), (1, None)),
        Err(FramingError::UnknownFlag) => assert!(call[0] > 1),
        Err(FramingError::NotOneMessage) => {}
    }
}

/// Names of compressions are a short list.
fn is_spoken(name: &str, announced: Result<Option<ContentEncoding>, UnknownEncoding>) {
    let expected = match name {
        "identity" => Ok(None),
        "gzip" | "x-gzip" => Ok(Some(ContentEncoding::Gzip)),
        "zstd" => Ok(Some(ContentEncoding::Zstd)),
        _ => Err(UnknownEncoding),
    };
    assert_eq!(announced, expected, "{name:?}");
}

/// What the receiver does with a message: undoes its compression, turns JSON into protobuf, checks.
fn read(signal: Signal, format: MessageFormat, encoding: Option<ContentEncoding>, message: &[u8]) {
    let mut plain = Vec::new();
    let plain = match encoding {
        None => message,
        Some(encoding) => {
            let mut decompressor = DECOMPRESSOR.with(Kept::take).unwrap_or_default();
            let answer = decompressor.decompress(encoding, message, LIMIT_BYTES, &mut plain);
            DECOMPRESSOR.with(|kept| kept.put(decompressor));
            assert!(plain.capacity() <= LIMIT_BYTES + 1, "the buffer outgrew the cap");
            if answer.is_err() {
                return;
            }
            &plain
        }
    };
    let mut written = Vec::new();
    let request = match format {
        MessageFormat::Protobuf => plain,
        MessageFormat::Json => {
            match json::transcode_request(signal, plain, LIMIT_BYTES, &mut written) {
                Ok(()) => &written,
                Err(_) => return,
            }
        }
    };
    if let Ok(checked) = check_request(signal, request, &WireLimits::default()) {
        assert!(checked.records <= request.len() as u64, "more records than bytes");
    }
}

/// Any text of ours can be told in `grpc-message` and is told whole.
fn a_message_is_safe_in_a_header(text: &str) {
    let encoded = percent_encoded(text);
    assert!(encoded.bytes().all(|byte| (0x20..0x7f).contains(&byte)), "{encoded:?}");
    let mut read = Vec::new();
    let mut rest = encoded.bytes();
    while let Some(byte) = rest.next() {
        read.push(match byte {
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte.unwrap_or(b'x')).to_digit(16);
                let (high, low) = (digit(rest.next()), digit(rest.next()));
                high.zip(low).map_or(0, |(high, low)| (high << 4 | low) as u8)
            }
            plain => plain,
        });
    }
    assert_eq!(read, text.as_bytes(), "{encoded:?} says something else");
}
