//! Which tests a change reaches: those of the crates whose files differ from the main branch, and
//! of all crates that depend on these.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::shell;

/// Files that every crate is compiled with.
const OF_ALL: [&str; 4] = ["Cargo.toml", "Cargo.lock", ".cargo/", ".config/"];
/// Crates whose tests read files outside of crates: pages, charts, manifests, samples.
const READERS: [&str; 4] = ["millrace-crds", "millrace-docs", "millrace-e2e", "xtask"];

/// What a change reaches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reached {
    /// Everything.
    All,
    /// These crates and those that depend on them.
    Crates(BTreeSet<String>),
}

impl Reached {
    /// In nextest's language of filters; nothing where everything is reached.
    pub(crate) fn filter(&self) -> Option<String> {
        let Self::Crates(crates) = self else { return None };
        let each: Vec<String> = crates.iter().map(|name| format!("rdeps(={name})")).collect();
        Some(if each.is_empty() { "none()".to_owned() } else { each.join(" | ") })
    }
}

/// What differs from the main branch: in commits, in the tree, and in files that git doesn't know
/// yet.
pub(crate) fn reached() -> Result<Reached> {
    let base = shell::output("git", &["merge-base", "HEAD", &main_branch()])?;
    let mut files = shell::output("git", &["diff", "--name-only", base.trim()])?;
    files += &shell::output("git", &["ls-files", "--others", "--exclude-standard"])?;
    let text = shell::output("cargo", &["metadata", "--format-version", "1", "--no-deps"])?;
    let metadata: Value = serde_json::from_str(&text).context("cargo metadata is not JSON")?;
    Ok(reached_by(files.lines(), &folders(&metadata)))
}

/// The remote's, where there is one: on the main branch itself that is what others have.
fn main_branch() -> String {
    let remote = "refs/remotes/origin/main";
    let known = shell::output("git", &["rev-parse", "--verify", "--quiet", remote]);
    if known.is_ok() { remote.to_owned() } else { "main".to_owned() }
}

/// The folder of each crate, from the root and with a slash at its end, and its name.
fn folders(metadata: &Value) -> Vec<(String, String)> {
    let root = metadata["workspace_root"].as_str().unwrap_or_default();
    let folder = |package: &Value| {
        let manifest = package["manifest_path"].as_str()?;
        let folder = manifest.strip_prefix(root)?.strip_prefix('/')?.strip_suffix("Cargo.toml")?;
        Some((folder.to_owned(), package["name"].as_str()?.to_owned()))
    };
    metadata["packages"].as_array().into_iter().flatten().filter_map(folder).collect()
}

fn reached_by<'a>(files: impl Iterator<Item = &'a str>, folders: &[(String, String)]) -> Reached {
    let mut crates = BTreeSet::new();
    for file in files {
        if OF_ALL.iter().any(|of_all| file == *of_all || file.starts_with(of_all)) {
            return Reached::All;
        }
        // Crates lie in one another's folders: the innermost has the file.
        let inside = folders.iter().filter(|(folder, _)| file.starts_with(folder.as_str()));
        match inside.max_by_key(|(folder, _)| folder.len()) {
            Some((_, name)) => {
                crates.insert(name.clone());
            }
            None => crates.extend(READERS.map(str::to_owned)),
        }
    }
    Reached::Crates(crates)
}

#[cfg(test)]
mod tests {
    use super::{Reached, reached_by};

    fn reached(files: &[&str]) -> Option<String> {
        let folders = [("a/", "outer"), ("a/b/", "inner")];
        let folders = folders.map(|(folder, name)| (folder.to_owned(), name.to_owned()));
        reached_by(files.iter().copied(), &folders).filter()
    }

    /// Scenario: changed files of nested crates, of none, and of all. Guarantee: the innermost
    /// crate is reached; pages reach the crates that read them; a lock file reaches everything.
    #[test]
    fn a_change_reaches_its_crates() {
        assert_eq!(reached(&["a/b/src/lib.rs"]).as_deref(), Some("rdeps(=inner)"));
        assert_eq!(
            reached(&["a/src/lib.rs", "a/b/c.rs"]).as_deref(),
            Some("rdeps(=inner) | rdeps(=outer)")
        );
        assert!(reached(&["docs/internals/testing.md"]).unwrap().contains("rdeps(=millrace-docs)"));
        assert_eq!(reached(&["a/src/lib.rs", "Cargo.lock"]), None);
        assert_eq!(reached(&[]).as_deref(), Some("none()"));
        assert_eq!(reached_by(std::iter::empty(), &[]), Reached::Crates([].into()));
    }
}
