//! Renders a share's report for the operator: `/share`, as JSON. Pure.
//!
//! # Limits
//! It has as many entries as the share, 90 bytes each: 10,000 targets are 900 kB. All errors
//! together have at most [`ERRORS_BYTES_MAX`]: the operator reads 4 MiB at most, and considers a
//! pod with a longer answer silent.

use std::fmt::Write;

use millrace_source_prometheus::{EntryReport, ShareReport};
use serde_json::json;

/// The maximum bytes of errors. People read the first ones; `/targets` has all.
const ERRORS_BYTES_MAX: usize = 64 * 1024;

/// Returns the document.
pub(crate) fn render_json(report: &ShareReport) -> String {
    let ShareReport { version, targets, up, down } = report;
    let mut text = String::with_capacity(64 + targets.len() * 96);
    text.push_str(&format!("{{\"version\":{},\"targets\":{{", json!(version)));
    let mut errors_bytes = 0;
    for (index, (id, entry)) in targets.iter().enumerate() {
        let EntryReport { samples, up, error } = entry;
        errors_bytes += error.len();
        let has_room = errors_bytes <= ERRORS_BYTES_MAX;
        let error = Some(error).filter(|error| has_room && !error.is_empty());
        let comma = if index == 0 { "" } else { "," };
        let entry = json!({"samples": samples, "up": up, "error": error});
        // Writing into a String can't fail.
        let _ = write!(text, "{comma}\"{id}\":{entry}");
    }
    text.push_str(&format!("}},\"up\":{up},\"down\":{down}}}\n"));
    text
}

#[cfg(test)]
mod tests;
