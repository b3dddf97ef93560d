//! Subjects of commits: `area: imperative sentence`, under 72 characters. The commit-msg hook
//! (.config/git-hooks) refuses the same while one is written.

use anyhow::Result;

use crate::shell;

/// Commits before this were not held to the rule.
const SINCE: &str = "2026-11-28T23:36:00Z";
/// A subject ends before this column, so that `git log --oneline` fits into 80.
const SUBJECT_CHARACTERS_END: usize = 72;

/// One line for each broken rule. Without a repository, as in a source archive, there is nothing to
/// check.
pub(super) fn broken_rules() -> Result<Vec<String>> {
    if !shell::root().join(".git").exists() {
        return Ok(Vec::new());
    }
    let since = format!("--since={SINCE}");
    let log = shell::output("git", &["log", "--no-merges", "--format=%h %s", &since])?;
    Ok(log.lines().filter_map(check_commit).collect())
}

/// What is wrong with a line of commit and subject, if anything is.
fn check_commit(line: &str) -> Option<String> {
    let (commit, subject) = line.split_once(' ')?;
    let length = subject.chars().count();
    let is_right = subject
        .split_once(": ")
        .is_some_and(|(area, text)| is_area(area) && !text.is_empty() && !text.ends_with('.'));
    if is_right && length < SUBJECT_CHARACTERS_END {
        return None;
    }
    Some(format!(
        "commit {commit} \"{subject}\": write \"area: imperative sentence\", without a full stop, \
         under {SUBJECT_CHARACTERS_END} characters (it has {length})"
    ))
}

fn is_area(text: &str) -> bool {
    let is_part = |character: char| {
        character.is_ascii_lowercase() || character.is_ascii_digit() || ", -".contains(character)
    };
    text.starts_with(|first: char| first.is_ascii_lowercase()) && text.chars().all(is_part)
}

#[cfg(test)]
mod tests {
    use super::check_commit;

    /// Scenario: subjects as they should be, and ones without an area, with a full stop, too long.
    /// Guarantee: only the latter are refused, by their commit.
    #[test]
    fn subjects_name_an_area_and_are_short() {
        let long = format!("abc docs: {}", "x".repeat(66));
        for right in ["abc docs: state what is tested", "abc kafka, tests: wait for a leader"] {
            assert_eq!(check_commit(right), None);
        }
        for wrong in ["abc Docs are better", "abc docs: state it.", "abc docs:", &long] {
            assert!(check_commit(wrong).is_some_and(|text| text.contains("abc")), "{wrong}");
        }
    }
}
