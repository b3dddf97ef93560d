//! How rows are built, and where blocks and inserts end.

use millrace_schema::AttributeStorage;
use millrace_wire::limits::WRITTEN_BYTES;

/// The maximum number of cells of JSON columns (rows x paths) in one block: 16 Mi, a byte each.
/// That is 100,000 rows with 160 different keys. A block that would exceed it is followed by
/// another in the same insert, so that ten thousand keys in a batch cost memory in proportion to
/// their values, not to rows x keys. A path counts for 1,024 rows at least, so a block of few rows
/// ends at 16,384 paths.
pub(crate) const MAX_CELLS: usize = 16 * 1024 * 1024;

/// The maximum number of rows in one insert, just below the 1,048,449 that a server accepts as one
/// block by default (`max_insert_block_size`, `min_insert_block_size_rows`): so an insert is one
/// part, stored completely or not at all. Batches stay below it; a message of more rows becomes
/// several inserts. The cuts depend on the number of rows alone, so the same messages are always
/// cut alike.
pub const INSERT_ROWS: u32 = 1_000_000;

/// The written size at which an insert ends (`millrace_wire`): 64 MiB, the maximum of one request.
/// What repeats within 32 KiB counts an eighth there, so a server receives 512 MiB of plain bytes
/// at most as one block. These cuts also depend on the insert's rows alone.
pub const INSERT_BYTES: u64 = WRITTEN_BYTES;

/// How rows are built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The tables' attribute variant.
    pub attributes: AttributeStorage,
    /// The levels of key-value lists inside attribute values that become separate JSON paths;
    /// deeper lists are stored as JSON text. 0 stores every list as text. The Map variant ignores
    /// it.
    pub nested_depth: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self { attributes: AttributeStorage::Json, nested_depth: 8 }
    }
}
