//! Coordination of replicated tables, by ClickHouse Keeper or ZooKeeper: what its servers say of
//! themselves ([`answer`]), what that means for inserts ([`judge`]), which of ClickHouse's codes
//! are its fault ([`is_code`]), and what a load costs it ([`plan`]).
//!
//! The gateway, the operator and `clickhouse-ddl` all read it here, so that they have one word for
//! it. No clock, no I/O: whoever asks the servers hands in what they said.

pub mod answer;
pub mod judge;
pub mod observation;
pub mod plan;

/// The word for it: the class of a gateway's failed inserts, in its metric and its log.
pub const NAME: &str = "coordination";

/// Whether a ClickHouse code says that coordination failed, or that replicas don't take part in it.
/// The same insert may be sent again later, with the same token; that holds for the outcome that
/// isn't known, too.
#[must_use]
pub const fn is_code(code: u32) -> bool {
    // 225 NO_ZOOKEEPER, 242 TABLE_IS_READ_ONLY (a replica without a session), 285
    // TOO_FEW_LIVE_REPLICAS, 286 UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE, 319
    // UNKNOWN_STATUS_OF_INSERT (the session was lost while it was committed), 999 KEEPER_EXCEPTION
    matches!(code, 225 | 242 | 285 | 286 | 319 | 999)
}
