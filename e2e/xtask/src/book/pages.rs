//! Pages as the book's chapters: those outside docs come in, and links that leave docs lead to
//! them, to the repository's address, or become the names of what they lead to.
//!
//! Must not touch anything but links, and none in code. A link's text may have no square bracket; one
//! that goes over lines keeps its target where the book doesn't have it.

use anyhow::Result;
use serde_json::{Value, json};

use crate::links::led_to;

/// Pages outside docs that become chapters: where they are, the chapter's file, its title.
const FIRST: [Outside; 1] = [Outside { page: "README.md", file: "millrace.md", title: "Millrace" }];
const LAST: [Outside; 3] = [
    Outside { page: "CHANGELOG.md", file: "changelog.md", title: "Changes" },
    Outside { page: "e2e/stack/README.md", file: "local-stack.md", title: "The local stack" },
    Outside { page: "SECURITY.md", file: "vulnerabilities.md", title: "Report a vulnerability" },
];
/// The folder of the book's own pages.
const DOCS: &str = "docs/";
/// The order of the chapters is none of them.
const ORDER: &str = "docs/SUMMARY.md";

#[derive(Debug)]
struct Outside {
    page: &'static str,
    file: &'static str,
    title: &'static str,
}

/// Rewrites every chapter, and adds those from outside, whose text `read` gives by path.
pub(super) fn rewrite(
    book: &mut Value,
    url: Option<&str>,
    read: impl Fn(&str) -> Result<String>,
) -> Result<()> {
    let made = |outside: &Outside| -> Result<Value> {
        let text = links(outside.page, &read(outside.page)?, url);
        Ok(json!({"Chapter": {
            "name": outside.title,
            "content": text,
            "number": null,
            "sub_items": [],
            "path": outside.file,
            "source_path": null,
            "parent_names": [],
        }}))
    };
    let Some(items) = book["items"].as_array_mut() else {
        anyhow::bail!("mdBook's book has no items: is it another version?");
    };
    each(items, url);
    let mut all = FIRST.iter().map(made).collect::<Result<Vec<_>>>()?;
    all.append(items);
    all.extend(LAST.iter().map(made).collect::<Result<Vec<_>>>()?);
    *items = all;
    Ok(())
}

fn each(items: &mut [Value], url: Option<&str>) {
    for chapter in items.iter_mut().filter_map(|item| item.get_mut("Chapter")) {
        let source = chapter["source_path"].as_str().map(|path| format!("{DOCS}{path}"));
        let text = chapter["content"].as_str();
        if let (Some(source), Some(text)) = (source, text) {
            chapter["content"] = links(&source, text, url).into();
        }
        if let Some(below) = chapter["sub_items"].as_array_mut() {
            each(below, url);
        }
    }
}

/// The page's text with its links as the book has them.
fn links(page: &str, text: &str, url: Option<&str>) -> String {
    let mut fenced = false;
    let lines = text.lines().map(|line| {
        fenced ^= line.trim_start().starts_with("```");
        if fenced { line.to_owned() } else { line_links(page, line, url) }
    });
    lines.collect::<Vec<_>>().join("\n") + "\n"
}

fn line_links(page: &str, line: &str, url: Option<&str>) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("](") {
        let Some(close) = after.find(')') else { break };
        let target = &after[..close];
        // None where the text began on an earlier line.
        let open = before.rfind('[');
        let text = open.map(|open| &before[open + 1..]);
        let place = place(page, target);
        let linked = match (&place, url) {
            (None, _) => Some(target.to_owned()),
            (Some((path, heading)), url) => match (inside(path), url) {
                (Some(file), _) => Some(format!("{}{heading}", from(page, file))),
                (None, Some(url)) => Some(format!("{url}{path}{heading}")),
                (None, None) => None,
            },
        };
        match (linked, text, place) {
            (None, Some(text), Some((path, _))) => {
                out.push_str(&before[..before.len() - text.len() - 1]);
                out.push_str(text);
                if !text.contains(&path) {
                    out.push_str(&format!(" (`{path}`)"));
                }
            }
            (linked, ..) => {
                let target = linked.as_deref().unwrap_or(target);
                out.push_str(&format!("{before}]({target})"));
            }
        }
        rest = &after[close + 1..];
    }
    out + rest
}

/// What a link leads to: a path from the root and what follows it; none where it stays as it is.
fn place(page: &str, target: &str) -> Option<(String, String)> {
    if target.contains("://") || target.starts_with('#') {
        return None;
    }
    let at = target.find('#').unwrap_or(target.len());
    let (file, heading) = target.split_at(at);
    let path = led_to(page, file);
    // A folder that a git host shows by its page.
    let path = if path == "docs/reference" { format!("{path}/README.md") } else { path };
    Some((path, heading.to_owned()))
}

/// The file of the book that shows this path, if one does.
fn inside(path: &str) -> Option<&str> {
    if path == ORDER {
        return None;
    }
    let outside = FIRST.iter().chain(&LAST).find(|outside| outside.page == path);
    outside.map(|outside| outside.file).or_else(|| path.strip_prefix(DOCS))
}

/// The way from a page to a file of the book. mdBook shows a folder's README.md as its index.
fn from(page: &str, file: &str) -> String {
    let depth = inside(page).unwrap_or_default().matches('/').count();
    let file = match file.strip_suffix("README.md") {
        Some(folder) => format!("{folder}index.md"),
        None => file.to_owned(),
    };
    "../".repeat(depth) + &file
}

#[cfg(test)]
mod tests {
    use super::{DOCS, FIRST, LAST, links, rewrite};
    use crate::shell;
    use anyhow::Result;
    use serde_json::{Value, json};

    /// Scenario: links between pages of docs, up and down, to headings, pictures and other hosts.
    /// Guarantee: each leads to the same chapter, by the names that mdBook gives them.
    #[test]
    fn links_within_docs_lead_to_their_chapters() {
        let text = "See [a](../operations.md#memory), [b](README.md), ![c](x.svg), [d](#here), \
                    [e](https://example.com/).\n";
        let wanted = "See [a](../operations.md#memory), [b](../reference/index.md), \
                      ![c](../reference/x.svg), [d](#here), [e](https://example.com/).\n";
        assert_eq!(links("docs/reference/page.md", text, None), wanted);
    }

    /// Scenario: links that leave docs, to a page that becomes a chapter and to a file; the same
    /// from that page; a link in code. Guarantee: the first is a chapter's, the second its name, or
    /// with an address a link to the repository; code stays.
    #[test]
    fn links_out_of_docs_become_chapters_names_or_addresses() {
        let page = "docs/quick-start.md";
        let text = "[Try](../README.md#try-it), [a pipeline](../manifests/demo.yaml)\n```\n\
                    [code](../README.md)\n```\n";
        let code = "\n```\n[code](../README.md)\n```\n";
        let named = "[Try](millrace.md#try-it), a pipeline (`manifests/demo.yaml`)";
        assert_eq!(links(page, text, None), format!("{named}{code}"));
        let linked = "[Try](millrace.md#try-it), [a pipeline](https://git/manifests/demo.yaml)";
        assert_eq!(links(page, text, Some("https://git/")), format!("{linked}{code}"));
        let readme = "[a](docs/files.md), [charts/x](charts/x), [r](docs/reference), [over\n\
                      lines](docs/a.md), [o](docs/SUMMARY.md)\n";
        let wanted = "[a](files.md), charts/x, [r](reference/index.md), [over\n\
                      lines](a.md), o (`docs/SUMMARY.md`)\n";
        assert_eq!(links("README.md", readme, None), wanted);
    }

    /// Scenario: the pages that come in from outside docs, next to those of docs. Guarantee: none
    /// takes the file of a page of docs, which readers would then not find.
    #[test]
    fn chapters_from_outside_replace_no_page() {
        let docs = shell::root().join(DOCS);
        for outside in FIRST.iter().chain(&LAST) {
            assert!(!docs.join(outside.file).exists(), "{outside:?}");
        }
    }

    /// Scenario: mdBook's JSON with a part's title and nested chapters. Guarantee: all chapters are
    /// rewritten and the pages from outside come first and last.
    #[test]
    fn chapters_from_outside_come_first_and_last() -> Result<()> {
        let text = "[x](../README.md)\n";
        let chapter = |path: &str, below: Value| {
            let parts = json!({"content": text, "source_path": path, "sub_items": below});
            json!({"Chapter": parts})
        };
        let nested = chapter("part/b.md", json!([]));
        let mut book =
            json!({"items": [{"PartTitle": "How to"}, chapter("a.md", json!([nested]))]});
        rewrite(&mut book, None, |path| Ok(format!("# {path}\n")))?;
        assert_eq!(book["items"][0]["Chapter"]["content"], "# README.md\n");
        assert_eq!(book["items"][1]["PartTitle"], "How to");
        let first = &book["items"][2]["Chapter"];
        assert_eq!(first["content"], "[x](millrace.md)\n");
        assert_eq!(first["sub_items"][0]["Chapter"]["content"], "[x](../index.md)\n");
        let last = book["items"].as_array().and_then(|items| items.last());
        assert_eq!(last.map(|item| &item["Chapter"]["path"]), Some(&json!("vulnerabilities.md")));
        Ok(())
    }
}
