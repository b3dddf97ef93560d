//! What every generated page has: its first line, and text that Markdown shows as it is.

pub(super) const GENERATED: &str = "<!-- Generated from crds/src by crdgen; do not edit. -->\n";

/// Table cells have no lines and no bars; outside code, text in the form of a tag would not be
/// shown.
pub(super) fn one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
    let parts = line.split('`').enumerate().map(|(number, part)| match number % 2 {
        0 => part.replace('<', "&lt;"),
        _ => part.to_owned(),
    });
    parts.collect::<Vec<_>>().join("`")
}
