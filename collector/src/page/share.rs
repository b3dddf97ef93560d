//! What the operator asks of a pod's share: `/share`, as JSON. Pure.
//!
//! # Limits
//! As many entries as the share has: with 10,000 targets that are scraped, each with an error of
//! 300 characters, some 4 MiB; usually 90 bytes each.

use std::fmt::Write;

use millrace_receivers::prometheus::{EntryReport, ShareReport};
use serde_json::json;

/// The document.
pub(crate) fn json(report: &ShareReport) -> String {
    let ShareReport { version, targets, up, down } = report;
    let mut text = String::with_capacity(64 + targets.len() * 96);
    text.push_str(&format!("{{\"version\":{},\"targets\":{{", json!(version)));
    for (index, (id, entry)) in targets.iter().enumerate() {
        let EntryReport { samples, up, error } = entry;
        let error = Some(error).filter(|error| !error.is_empty());
        let comma = if index == 0 { "" } else { "," };
        let entry = json!({"samples": samples, "up": up, "error": error});
        // A String takes whatever is written.
        let _ = write!(text, "{comma}\"{id}\":{entry}");
    }
    text.push_str(&format!("}},\"up\":{up},\"down\":{down}}}\n"));
    text
}

#[cfg(test)]
#[path = "../../tests/unit/share.rs"]
mod tests;
