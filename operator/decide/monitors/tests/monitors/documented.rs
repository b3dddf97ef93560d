//! Tests that the documentation lists each field with its handling.

use std::fmt::Write as _;

use millrace_monitors::supported_fields;

/// Scenario: docs/reference/monitors.md. Guarantee: its tables have a row for each known field,
/// with its handling, and no other row. The test prints the rows where they differ.
#[test]
fn the_documentation_lists_all_fields() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/reference/monitors.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `spec")).collect();
    let mut expected = String::new();
    let mut kind = None;
    for known in supported_fields() {
        if kind != Some(known.kind) {
            let _ = writeln!(expected, "\n### {}\n", known.kind.as_str());
            kind = Some(known.kind);
        }
        let _ = writeln!(expected, "| `{}` | {} |", known.field, known.becomes);
    }
    let wanted: Vec<&str> = expected.lines().filter(|line| line.starts_with('|')).collect();
    assert!(rows == wanted, "write these rows into docs/reference/monitors.md:\n{expected}");
}
