//! Seeded load that remembers what was acknowledged, and the judge that checks it in ClickHouse.
//!
//! A [`Plan`] fixes every byte of a load by a seed and a few numbers. [`send`] delivers it over
//! OTLP and says, as [`Acked`], what became of each request. [`check`] reads the table back and
//! compares every column of every row with what the plan says it must be, made anew: nothing of
//! what was sent is kept. A span's id, and a log record's or point's time, leads back to its index,
//! so memory is two bits a record. All three signals go the same way: [`Shape`] says which it is.
//!
//! What counts as what: *missing* was acknowledged and is not there; *duplicated* is there more
//! than once although nobody sent it again; *altered* has a column that differs; *invented* bears
//! this run's name and was never sent. Copies from the client's own resending after a lost answer,
//! and records stored though their answer was lost, are counted apart and are no fault: OTLP allows
//! both.
//!
//! Limits: one billion records a plan, of one shape. Of a log record or point whose *time* was
//! changed nobody can say which it was: it counts as one missing and one invented.

mod acked;
mod check;
mod content;
mod mix;
#[cfg(test)]
#[path = "../../columns/tests/native/value.rs"]
mod native;
#[cfg(test)]
#[path = "../../columns/tests/oracle/mod.rs"]
mod oracle;
mod plan;
mod proto;
mod ranges;
mod send;

pub use acked::{Acked, StateError};
pub use check::{CheckError, CheckOptions, CheckStep, Report, RowError, check};
pub use plan::{Plan, PlanError, RECORDS_MAX, RECORDS_PER_REQUEST_MAX, Shape};
pub use ranges::RangeSet;
pub use send::{
    AnswerQuantiles, Compression, PackError, Progress, Protocol, SendError, SendOptions, Target,
    TargetError, send,
};

/// The protobuf of one request of a plan, as it is sent but for compression; empty beyond the last.
/// For feeding a load to something else than a server.
#[must_use]
pub fn request(plan: &Plan, request: u64) -> Vec<u8> {
    let mut out = Vec::new();
    proto::Writer::new(plan).request(request, &mut out);
    out
}

/// Makes every request of a plan and throws it away: what generating alone costs. Gives the bytes
/// made, gRPC frames and compression included.
///
/// # Errors
/// The plan is out of range.
pub fn generate(plan: &Plan, compression: Compression) -> Result<u64, SendError> {
    plan.check()?;
    let mut packer = send::Packer::new(plan, Protocol::Grpc, compression)?;
    let mut bytes = 0;
    for request in 0..plan.requests() {
        bytes += packer.body(request)?.len() as u64;
    }
    Ok(bytes)
}
