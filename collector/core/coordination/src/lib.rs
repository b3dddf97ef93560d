//! Coordination of replicated tables by ClickHouse Keeper or ZooKeeper: its servers' reports
//! ([`answer`]), their meaning for inserts ([`judge`]), ClickHouse's error codes ([`error_codes`])
//! and which of them concern coordination ([`is_code`]), and the requests that a load causes
//! ([`plan`]).
//!
//! The gateway, the operator and `clickhouse-ddl` all use it, so they agree. It has no clock and no
//! I/O: callers query the servers and pass the answers.

pub mod assessment;
pub mod error_codes;
pub mod observation;
pub mod plan;
pub mod responses;

/// The class of a gateway's inserts that failed by coordination, in its metric and its log.
pub const NAME: &str = "coordination";

/// Whether a ClickHouse code reports that coordination failed or that replicas don't take part in
/// it. The same insert may be sent again later with the same token, also after an unknown outcome.
#[must_use]
pub fn is_code(code: u32) -> bool {
    error_codes::ErrorCode::from_code(code).concern == error_codes::Concern::Coordination
}
