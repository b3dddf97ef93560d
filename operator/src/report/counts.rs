//! Numbers with their nouns, for messages.

use std::fmt::Display;

/// Formats a number and a noun with a regular plural: "1 pod", "2 pods".
#[must_use]
pub fn format_count(count: impl Display, noun: &str) -> String {
    let number = count.to_string();
    let ending = if number == "1" { "" } else { "s" };
    format!("{number} {noun}{ending}")
}

#[cfg(test)]
mod tests {
    use super::format_count;

    /// Scenario: none, one and several. Guarantee: one has no plural.
    #[test]
    fn one_has_no_plural() {
        assert_eq!(["0 pods", "1 pod", "12 pods"], [0, 1, 12].map(|it| format_count(it, "pod")));
    }
}
