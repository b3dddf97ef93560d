//! The documentation lists each field with what becomes of it.

use std::fmt::Write as _;

use millrace_monitors::supported;

/// Scenario: docs/monitors.md. Guarantee: its tables have a row for each field that is known, with
/// what becomes of it, and no other row. The rows are printed where they differ.
#[test]
fn the_documentation_lists_all_fields() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/monitors.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `spec")).collect();
    let mut expected = String::new();
    let mut kind = None;
    for known in supported() {
        if kind != Some(known.kind) {
            let _ = writeln!(expected, "\n### {}\n", known.kind.as_str());
            kind = Some(known.kind);
        }
        let _ = writeln!(expected, "| `{}` | {} |", known.field, known.becomes);
    }
    let wanted: Vec<&str> = expected.lines().filter(|line| line.starts_with('|')).collect();
    assert!(rows == wanted, "write these rows into docs/monitors.md:\n{expected}");
}
