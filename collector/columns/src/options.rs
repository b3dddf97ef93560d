//! How rows are built, and where blocks and inserts end.

use millrace_schema::Attributes;
use millrace_wire::limits::WRITTEN_BYTES;

/// Most cells of JSON columns (rows x paths) in one block: 16 Mi, a byte each. That is 100,000 rows
/// with 160 different keys; a block that would have more is followed by another one in the same
/// insert, so that ten thousand keys in a batch cost memory in proportion to their values, not to
/// rows x keys. A path counts for 1,024 rows at least, so a block of few rows ends at 16,384 paths.
pub(crate) const MAX_CELLS: usize = 16 * 1024 * 1024;

/// Most rows of one insert, just below the 1,048,449 that a server takes as one block by default
/// (`max_insert_block_size`, `min_insert_block_size_rows`): so an insert is one part, stored whole
/// or not at all. Batches stay below it; a message of more rows becomes several inserts. Where they
/// are cut depends on the number of rows alone, so the same messages are cut alike at any time.
pub const INSERT_ROWS: u32 = 1_000_000;

/// Where an insert ends that is written as more bytes, by the measure of `millrace_wire`: 64 MiB,
/// which is what one request may be written as. What repeats within 32 KiB counts an eighth there,
/// so a server takes 512 MiB at most, plain, as one block. Where inserts are cut depends on their
/// rows alone here too.
pub const INSERT_BYTES: u64 = WRITTEN_BYTES;

/// How rows are built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The tables' attribute variant.
    pub attributes: Attributes,
    /// Levels of key-value lists inside attribute values that become JSON paths of their own;
    /// deeper lists are stored as JSON text. 0 stores every list as text. The Map variant ignores
    /// it.
    pub nested_depth: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self { attributes: Attributes::Json, nested_depth: 8 }
    }
}
