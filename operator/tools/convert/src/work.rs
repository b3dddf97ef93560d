//! The output that every part of the conversion writes to.

use crate::account::Account;
use crate::draft::PipelineDraft;

/// The account of each value, and the pipeline so far.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) account: Account,
    pub(crate) draft: PipelineDraft,
}
