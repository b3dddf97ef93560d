//! Every limit on input, with its reason.

use crate::otlp::TimeRange;

/// The deepest nesting of attribute values (an array or key-value list inside another counts one
/// each).
///
/// A level costs at most three protobuf messages (AnyValue, KeyValueList, KeyValue) and a value is
/// at most eight messages below the request, so 8 + 3 x 30 = 98 stays within the 100 messages that
/// protobuf readers in Rust, C++ and Java accept: every peer can read what passes here.
pub const NESTING_DEPTH: u32 = 30;

/// The deepest nesting of lists and objects in an unknown part of a JSON request, which is skipped.
/// [`NESTING_DEPTH`] bounds the known parts. The reader stores one bit per level.
pub const JSON_DEPTH: u32 = 128;

/// The most attributes on one record, scope or resource, including members of the lists in them,
/// and the most members of one list in an array. SDKs stop at 128 by default; 16,384 x 2 bytes of
/// shortest attribute is still far under a message's limit, and bounds the work for one row.
pub const ATTRIBUTES: u32 = 16_384;

/// The most attributes on the events and links, or the exemplars, of one record together: 65,536,
/// four full sets. Each may be a separate path in the columns, at some 300 bytes: 20 MB.
pub const RECORD_MEMBERS: u32 = 65_536;

/// The most days (table partitions) of the records of one request: 100, at which the server also
/// refuses an insert by default (`max_partitions_per_insert_block`). Real requests have one or two;
/// without a limit a few megabytes of odd timestamps would become a hundred thousand inserts.
pub const DAYS: usize = 100;

/// The maximum written size of the records of one request, as [`crate::otlp::outline`] measures it:
/// 64 MiB.
///
/// Data that records share is written with each of them: 400 kB of resource around 6,000 empty
/// spans are 2.4 GB. The bodies of one request's inserts are made at once, so this is about the
/// most memory that they take: of the 256 MiB of the smallest gateway, a half is its budget for
/// records, which holds two workers with such a request each. A full request of a usual client is
/// far below: 4 MiB of spans of 120 bytes under a resource of 2 kB are 14 MiB; 8,192 spans under
/// one of 30 kB, which a long command line gives, are 31 MiB.
pub const WRITTEN_BYTES: u64 = 64 * 1024 * 1024;

/// The longest request in bytes after decompression: 64 MiB. The edge's listeners have lower limits
/// of their own (4 MiB gRPC, 20 MiB HTTP); this one protects the gateway from other programs'
/// messages in Kafka, and limits every offset to 32 bits.
pub const MESSAGE_BYTES: usize = 64 * 1024 * 1024;

/// The most members of a gzip body. Each costs a new inflate state, some microseconds, and an empty
/// one is 20 bytes: without a limit a 20 MiB body causes a million of them. Block-wise writers make
/// one member of 64 KiB, so 4,096 are four times the longest message; their states take some 20 ms.
pub const GZIP_MEMBERS_MAX: u32 = 4_096;

/// The largest zstd window in bits: 8 MiB, which level 19 and below use, and the minimum that every
/// decoder must support by RFC 8878. It bounds the memory that a frame's header can request.
pub const ZSTD_WINDOW_LOG_MAX: u32 = 23;

/// The limits of one check. Every listener should start from [`WireLimits::default`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireLimits {
    /// The longest request in bytes.
    pub message_bytes: usize,
    /// The deepest nesting of attribute values.
    pub nesting_depth: u32,
    /// The most attributes in one set.
    pub attributes: u32,
    /// The most days of the records.
    pub days: usize,
    /// The maximum written size of the records.
    pub written_bytes: u64,
    /// The accepted times of records. Records with other times are counted, and otherwise ignored.
    pub times: TimeRange,
}

impl WireLimits {
    /// Returns the limits for tools that show refused requests: only those that bound the reading
    /// itself.
    #[must_use]
    pub fn of_readers() -> Self {
        Self { days: usize::MAX, written_bytes: u64::MAX, ..Self::default() }
    }
}

impl Default for WireLimits {
    fn default() -> Self {
        Self {
            message_bytes: MESSAGE_BYTES,
            nesting_depth: NESTING_DEPTH,
            attributes: ATTRIBUTES,
            days: DAYS,
            written_bytes: WRITTEN_BYTES,
            times: TimeRange::ALL,
        }
    }
}
