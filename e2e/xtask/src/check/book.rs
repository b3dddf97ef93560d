//! docs/SUMMARY.md, by which the pages are a book: each page below docs is in it exactly once, and
//! each entry is a page. What the entries lead to is checked with all links (docs.rs).

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result};

use super::docs::links;
use crate::shell;

const SUMMARY: &str = "SUMMARY.md";

/// One line for each broken rule.
pub(super) fn broken_rules() -> Result<Vec<String>> {
    let list = ["ls-files", "--cached", "--others", "--exclude-standard", "docs/*.md"];
    let listed = shell::output("git", &list)?;
    let there = listed.lines().filter(|path| shell::root().join(path).exists());
    let pages: Vec<&str> = there.filter_map(|path| path.strip_prefix("docs/")).collect();
    let path = shell::root().join("docs").join(SUMMARY);
    let summary = fs::read_to_string(&path)
        .with_context(|| format!("{} can't be read: it orders the pages", path.display()))?;
    Ok(judge(&summary, &pages))
}

/// `pages` are paths below docs.
fn judge(summary: &str, pages: &[&str]) -> Vec<String> {
    let mut entries: BTreeMap<&str, usize> = BTreeMap::new();
    for entry in summary.lines().flat_map(links) {
        *entries.entry(entry).or_default() += 1;
    }
    let pages = pages.iter().filter(|page| **page != SUMMARY);
    let mut broken = Vec::new();
    for page in pages {
        match entries.remove(page).unwrap_or_default() {
            1 => {}
            0 => broken.push(format!("docs/{page} is not in docs/{SUMMARY}: say where it belongs")),
            times => broken.push(format!("docs/{page} is {times} times in docs/{SUMMARY}")),
        }
    }
    let strangers = entries.into_keys();
    broken.extend(strangers.map(|entry| format!("docs/{SUMMARY}: {entry} is no page below docs")));
    broken
}

#[cfg(test)]
mod tests {
    use super::judge;

    const PAGES: [&str; 4] = ["README.md", "SUMMARY.md", "one.md", "part/two.md"];

    /// Scenario: every page once, in parts and below each other. Guarantee: nothing is reported.
    #[test]
    fn a_summary_with_each_page_once_passes() {
        let summary = "# Summary\n\n[All](README.md)\n\n# Part\n\n- [One](one.md)\n    \
                       - [Two](part/two.md)\n";
        assert_eq!(judge(summary, &PAGES), Vec::<String>::new());
    }

    /// Scenario: a page that is left out, one that stands there twice, entries that are no page of
    /// docs. Guarantee: each is one report that names it.
    #[test]
    fn each_page_missing_or_twice_and_each_stranger_is_named() {
        let summary = "[All](README.md)\n- [One](one.md)\n- [Again](one.md)\n- [No](gone.md)\n\
                       - [Out](../README.md)\n- [Part](one.md#part)\n";
        let broken = judge(summary, &PAGES);
        let named = ["docs/one.md is 2", "docs/part/two.md is not", "../README.md", "gone.md"];
        assert_eq!(broken.len(), named.len() + 1, "{broken:?}");
        for name in named {
            assert!(broken.iter().any(|line| line.contains(name)), "{name}: {broken:?}");
        }
    }
}
