//! Faults that a test can ask the engine's front for.

use std::time::Duration;

use serde_json::json;

/// Something bad that is to happen to the next queries that contain a text.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// What happens.
    pub kind: FaultKind,
    /// A text the query (not its data) must contain; empty strikes any.
    pub matching: String,
    /// How many queries are struck: 1 to 100.
    pub times: u32,
}

/// What a fault does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FaultKind {
    /// The query is not run; the answer is this ClickHouse error code, with its HTTP status.
    Error {
        /// The code, such as 241 or 252.
        code: u32,
    },
    /// The query runs after this time.
    Delay(Duration),
    /// The connection breaks before the query runs.
    CutBefore,
    /// The query runs, and the connection breaks before its answer: nobody can know it landed.
    CutAfter,
}

impl Fault {
    /// The front's own form of it.
    pub(super) fn to_json(&self) -> String {
        let Self { kind, matching, times } = self;
        let mut entry = json!({"match": matching, "times": times});
        let (name, detail) = match kind {
            FaultKind::Error { code } => ("error", Some(("code", json!(code)))),
            FaultKind::Delay(time) => ("delay", Some(("delay_seconds", json!(time.as_secs_f64())))),
            FaultKind::CutBefore => ("cut_before", None),
            FaultKind::CutAfter => ("cut_after", None),
        };
        entry["kind"] = json!(name);
        if let Some((field, value)) = detail {
            entry[field] = value;
        }
        entry.to_string()
    }
}
