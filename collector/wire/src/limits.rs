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

/// Most attributes on one record, scope or resource, members of the lists in them included, and
/// most members of one list in an array. SDKs stop at 128 by default; 16,384 x 2 bytes of shortest
/// attribute is still far under a message's limit, and keeps the work for one row bounded.
pub const ATTRIBUTES: u32 = 16_384;

/// Most attributes on the events and links, or the exemplars, of one record together: 65,536, four
/// full sets. Each may be a path of its own to the columns, at some 300 bytes: 20 MB.
pub const RECORD_MEMBERS: u32 = 65_536;

/// Most days (table partitions) that the records of one request may lie on: 100, which is also
/// where the server refuses an insert by default (`max_partitions_per_insert_block`). Real requests
/// touch one or two; without a bound a few megabytes of odd timestamps would become a hundred
/// thousand inserts.
pub const DAYS: usize = 100;

/// Most bytes that the records of one request may be written as, by the measure of
/// [`crate::otlp::outline`]: 64 MiB.
///
/// What records share is written with each of them: 400 kB of resource around 6,000 empty spans are
/// 2.4 GB. The bodies of one request's inserts are made at once, so this is about the most memory
/// that they take: of the 256 MiB of the smallest gateway, a half is its budget for records, and
/// two workers with such a request each are inside of it. A full request of a usual client is far
/// below: 4 MiB of spans of 120 bytes under a resource of 2 kB are 14 MiB; 8,192 spans under one of
/// 30 kB, as a long command line makes it, are 31 MiB.
pub const WRITTEN_BYTES: u64 = 64 * 1024 * 1024;

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
    /// Most days that records lie on.
    pub days: usize,
    /// Most bytes that the records are written as.
    pub written_bytes: u64,
}

impl Limits {
    /// For people who look at what was refused: only what keeps reading itself bounded.
    #[must_use]
    pub fn of_readers() -> Self {
        Self { days: usize::MAX, written_bytes: u64::MAX, ..Self::default() }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message_bytes: MESSAGE_BYTES,
            nesting_depth: NESTING_DEPTH,
            attributes: ATTRIBUTES,
            days: DAYS,
            written_bytes: WRITTEN_BYTES,
        }
    }
}
