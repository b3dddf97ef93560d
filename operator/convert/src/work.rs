//! What every part of the conversion writes to.

use crate::account::Account;
use crate::draft::Draft;

/// The list of what became of each value, and the pipeline so far.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) account: Account,
    pub(crate) draft: Draft,
}
