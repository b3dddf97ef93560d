//! Sources by folder: nobody finds a file in a list of forty names. Reads the names of the files
//! that git tracks or would track; judges, never moves.

use std::collections::BTreeMap;

use anyhow::Result;

use crate::shell;

/// No more Rust files than these may lie in one folder, next to its subfolders.
const FILES_MAX: usize = 12;
/// Folders in which more files are easier to find than subfolders would be, each with the reason.
const LONG_LISTS: &[(&str, &str)] = &[
    ("e2e/fuzz/libfuzzer/targets", "a program of three lines for each fuzz target"),
    ("operator/src/controllers/edge", "the steps of a reconcile, which are read in a row"),
    ("operator/src/controllers/gateway", "the steps of a reconcile, which are read in a row"),
];

/// One line for each broken rule.
pub(super) fn broken_rules() -> Result<Vec<String>> {
    let listed = shell::output("git", &["ls-files", "--cached", "--others", "--exclude-standard"])?;
    let existing = listed.lines().filter(|path| shell::root().join(path).exists());
    Ok(judge(existing))
}

fn judge<'a>(paths: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut counts = BTreeMap::<&str, usize>::new();
    for path in paths.filter(|path| path.ends_with(".rs")) {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        *counts.entry(folder).or_default() += 1;
    }
    let mut broken = Vec::new();
    for (folder, _) in LONG_LISTS {
        if counts.get(folder).is_none_or(|count| *count <= FILES_MAX) {
            broken.push(format!("{folder} is no long list any more: remove it from folders.rs"));
        }
    }
    let is_long_list = |folder: &str| LONG_LISTS.iter().any(|(known, _)| *known == folder);
    for (folder, count) in counts {
        if count > FILES_MAX && !is_long_list(folder) {
            broken.push(format!(
                "{folder}: {count} source files, over {FILES_MAX}: group them by subject into \
                 folders"
            ));
        }
    }
    broken
}

#[cfg(test)]
mod tests {
    use super::{FILES_MAX, LONG_LISTS, judge};

    fn files(folder: &str, count: usize) -> Vec<String> {
        (0..count).map(|number| format!("{folder}/file_{number}.rs")).collect()
    }

    fn judged(folders: &[(&str, usize)]) -> Vec<String> {
        let mut paths = vec!["a/README.md".to_owned()];
        paths.extend(LONG_LISTS.iter().flat_map(|(folder, _)| files(folder, FILES_MAX + 1)));
        paths.extend(folders.iter().flat_map(|(folder, count)| files(folder, *count)));
        judge(paths.iter().map(String::as_str))
    }

    /// Scenario: a folder with as many sources as are allowed, and as many in one below it.
    /// Guarantee: nothing is reported.
    #[test]
    fn files_below_a_folder_do_not_count_for_it() {
        assert_eq!(judged(&[("a/src", FILES_MAX), ("a/src/b", FILES_MAX)]), Vec::<String>::new());
    }

    /// Scenario: a folder with one source too many. Guarantee: it is reported with its number.
    #[test]
    fn a_folder_with_too_many_files_is_named() {
        let reports = judged(&[("a/src", FILES_MAX + 1)]);
        assert_eq!(reports.len(), 1, "{reports:?}");
        assert!(reports[0].starts_with("a/src: 13 source files"), "{reports:?}");
    }

    /// Scenario: a long list that has become short. Guarantee: its exception must go.
    #[test]
    fn an_exception_without_need_is_refused() {
        let reports = judge(files(LONG_LISTS[0].0, 1).iter().map(String::as_str));
        assert!(reports[0].contains(LONG_LISTS[0].0), "{reports:?}");
    }
}
