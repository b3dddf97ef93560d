//! For how many scans a text without a file stays on record.

/// Scans that wait for a copy of a text whose file has another one, or is gone and read to its end.
/// A copy was made before that: the next scan finds it, one more finds a head that wasn't complete.
pub(crate) const SCANS_FOR_COPY: u32 = 3;

/// Scans after which a text without a file is finished, and an open file that is gone or lost its
/// name: 20 of 250 ms are the 5 s in which a writer that must reopen its log still writes to the
/// old file.
pub(crate) const SCANS_AT_END: u32 = 20;

/// Scans after which a recorded text without a file is forgotten: 2,400 of 250 ms are the 10
/// minutes in which a volume may be mounted late.
pub(crate) const SCANS_RECORDED: u32 = 2_400;
