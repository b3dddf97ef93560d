//! The most that a pipeline's page shows. The rest is counted.

/// Maximum edge pools drawn of a signal: a pipeline may have 8.
pub const POOLS_MAX: usize = 8;
/// Maximum rows of any other list.
pub const ITEMS_MAX: usize = 100;
