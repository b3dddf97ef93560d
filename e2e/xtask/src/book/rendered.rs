//! Links of the rendered book: each to a file and a heading that are there. Other hosts aren't
//! asked. Reads the HTML as mdBook writes it, attributes in double quotes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::links::led_to;

/// mdBook's own: everything on one page (the same links again), and a stand-in for what is missing.
const NOT_PAGES: [&str; 2] = ["print.html", "404.html"];

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) pages: usize,
    pub(super) links: usize,
    pub(super) broken: Vec<String>,
}

/// Judges every page below the folder.
pub(super) fn check(folder: &Path) -> Result<Found> {
    let mut files = BTreeMap::new();
    read(folder, folder, &mut files)?;
    Ok(judge(&files))
}

/// Paths below the folder; the text of pages.
fn read(root: &Path, folder: &Path, files: &mut BTreeMap<PathBuf, String>) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("no {}", folder.display()))?;
    for entry in entries {
        let path = entry.with_context(|| format!("cannot list {}", folder.display()))?.path();
        if path.is_dir() {
            read(root, &path, files)?;
            continue;
        }
        let text = match path.extension().is_some_and(|kind| kind == "html") {
            true => fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))?,
            false => String::new(),
        };
        files.insert(path.strip_prefix(root).unwrap_or(&path).to_owned(), text);
    }
    Ok(())
}

fn judge(files: &BTreeMap<PathBuf, String>) -> Found {
    let ids: BTreeMap<&Path, BTreeSet<&str>> = files
        .iter()
        .map(|(path, text)| (path.as_path(), values(text, " id=\"").collect()))
        .collect();
    let mut found = Found::default();
    for (path, text) in files {
        let is_page = path.extension().is_some_and(|kind| kind == "html");
        if !is_page || NOT_PAGES.iter().any(|name| Path::new(name) == path) {
            continue;
        }
        found.pages += 1;
        for target in values(text, " href=\"").chain(values(text, " src=\"")) {
            if target.contains(':') {
                continue;
            }
            found.links += 1;
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let file = match file {
                "" => path.clone(),
                file => led_to(&path.to_string_lossy(), file).into(),
            };
            let known = ids.get(file.as_path());
            let good = known.is_some_and(|ids| heading.is_empty() || ids.contains(heading));
            if !good {
                found.broken.push(format!("{}: {target}", path.display()));
            }
        }
    }
    found
}

/// What stands between the beginning and the next double quote.
fn values<'t>(text: &'t str, beginning: &'t str) -> impl Iterator<Item = &'t str> {
    text.split(beginning).skip(1).filter_map(|rest| rest.split('"').next())
}

#[cfg(test)]
mod tests {
    use super::judge;
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    /// Scenario: a book with links to pages, headings and files that are there, one each that
    /// isn't, and another host's. Guarantee: three are broken, by page and target.
    #[test]
    fn links_that_lead_nowhere_are_named() {
        let page = "<h2 id=\"here\"></h2><a href=\"#here\"></a><a href=\"../index.html#top\"></a>\
                    <script src=\"../book.js\"></script><a href=\"https://example.com/x\"></a>\
                    <a href=\"gone.html\"></a><a href=\"#gone\"></a><img src=\"gone.svg\">";
        let files = [
            ("index.html", "<h1 id=\"top\"></h1>"),
            ("part/page.html", page),
            ("book.js", ""),
            ("print.html", "<a href=\"gone.html\"></a>"),
        ];
        let files = files.map(|(path, text)| (PathBuf::from(path), text.to_owned()));
        let found = judge(&BTreeMap::from(files));
        assert_eq!((found.pages, found.links), (2, 6));
        let named = ["gone.html", "#gone", "gone.svg"];
        assert_eq!(found.broken, named.map(|target| format!("part/page.html: {target}")));
    }
}
