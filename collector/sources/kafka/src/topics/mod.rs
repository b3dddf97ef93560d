//! Topics as they change: their ids, recreation, retention, and skipped messages.

pub(crate) mod deleted_messages;
pub(crate) mod gaps;
pub(crate) mod ids;
pub(crate) mod query_client;
pub(crate) mod recreated;
