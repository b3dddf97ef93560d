//! Every limit on what is read, with its reason.

/// Deepest nesting of attribute values (an array or key-value list inside another counts one each).
///
/// A level costs at most three protobuf messages (AnyValue, KeyValueList, KeyValue) and a value
/// lies at most eight messages below the request, so 8 + 3 x 30 = 98 stays within the 100 messages
/// that protobuf readers in Rust, C++ and Java accept: what we let through, every peer can read.
pub const NESTING_DEPTH: u32 = 30;

/// Deepest nesting of lists and objects in a part of a JSON request that OTLP doesn't know and that
/// is passed over. What OTLP does know is bounded by [`NESTING_DEPTH`]. One bit is kept for each.
pub const JSON_DEPTH: u32 = 128;

/// Most attributes on one record, scope or resource, and most members of one nested list. SDKs stop
/// at 128 by default; 16,384 x 2 bytes of shortest attribute is still far under a message's limit,
/// and keeps the work for one row bounded.
pub const ATTRIBUTES: u32 = 16_384;

/// Longest request in bytes after decompression: 64 MiB. The edge's listeners have lower limits of
/// their own (4 MiB gRPC, 20 MiB HTTP); this one guards the gateway against what others
/// write to Kafka, and keeps every offset inside 32 bits.
pub const MESSAGE_BYTES: usize = 64 * 1024 * 1024;

/// Most members of a gzip body. Each costs a new inflate state, some microseconds, and an empty one
/// is 20 bytes: without a limit a 20 MiB body buys a million of them. Block-wise writers make one
/// member of 64 KiB, so 4,096 are four times the longest message; their states take some 20 ms.
pub const GZIP_MEMBERS_MAX: u32 = 4_096;

/// Largest zstd window in bits: 8 MiB, what level 19 and below use, and the least every decoder
/// must support by RFC 8878. It bounds the memory a frame's header can ask for.
pub const ZSTD_WINDOW_LOG_MAX: u32 = 23;

/// The limits of one check. [`Limits::default`] is what every listener should start from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest request in bytes.
    pub message_bytes: usize,
    /// Deepest nesting of attribute values.
    pub nesting_depth: u32,
    /// Most attributes in one set.
    pub attributes: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { message_bytes: MESSAGE_BYTES, nesting_depth: NESTING_DEPTH, attributes: ATTRIBUTES }
    }
}
