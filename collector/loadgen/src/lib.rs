//! Sends a seeded load and records what was acknowledged, and checks in ClickHouse that it is
//! stored.
//!
//! A [`LoadPlan`] determines every byte of a load by a seed and a few numbers. [`send_load`] sends
//! it over OTLP and returns the outcome of each request as [`SendState`]. [`check_load`] reads the
//! table back and compares every column of every row with the plan's record, which it generates
//! again: the sender stores no content. A span's id, and a log record's or point's time, maps back
//! to its index, so memory is two bits a record. All three signals use the same code: [`LoadShape`]
//! selects the signal.
//!
//! Terms: *missing* was acknowledged and is not stored; *duplicated* is stored more than once
//! although the client sent it once; *altered* has a column that differs; *invented* has this run's
//! name and was never sent. Copies from the client's own resending after a lost answer, and records
//! stored though their answer was lost, are counted separately and are no fault: OTLP allows both.
//!
//! Limits: one billion records a plan, of one shape. A log record or point whose *time* was changed
//! can't be identified: it counts as one missing and one invented.

mod acked;
mod check;
mod content;
mod mix;
#[cfg(test)]
#[path = "../../core/columns/tests/native/value.rs"]
mod native;
#[cfg(test)]
#[path = "../../core/columns/tests/oracle/mod.rs"]
mod oracle;
mod plan;
mod proto;
mod ranges;
mod send;

pub use acked::{SendState, StateError};
pub use check::{CheckError, CheckOptions, CheckReport, CheckStep, RowError, check_load};
pub use plan::{LoadPlan, LoadShape, PlanError, RECORDS_MAX, RECORDS_PER_REQUEST_MAX};
pub use ranges::RangeSet;
pub use send::{
    LatencyQuantiles, LoadTarget, OtlpProtocol, PackError, RequestCompression, SendError,
    SendOptions, SendProgress, TargetError, send_load,
};

/// Returns the protobuf of one request of a plan, as it is sent except for compression; empty
/// beyond the last. For feeding a load to something other than a server.
#[must_use]
pub fn encode_request(plan: &LoadPlan, encode_request: u64) -> Vec<u8> {
    let mut out = Vec::new();
    proto::RequestWriter::new(plan).put_request(encode_request, &mut out);
    out
}

/// Generates every request of a plan and discards it, to measure the cost of generating. Returns
/// the bytes generated, gRPC frames and compression included.
///
/// # Errors
/// The plan is out of range.
pub fn generate_requests(
    plan: &LoadPlan,
    compression: RequestCompression,
) -> Result<u64, SendError> {
    plan.validate()?;
    let mut packer = send::Packer::new(plan, OtlpProtocol::Grpc, compression)?;
    let mut bytes = 0;
    for request in 0..plan.request_count() {
        bytes += packer.pack_request(request)?.len() as u64;
    }
    Ok(bytes)
}
