//! `xtask book`: docs/ as a book, by mdBook (book.toml, docs/SUMMARY.md), into target/book; every
//! link of what came out must lead somewhere in it.
//!
//! Must not be needed by anything: the pages are whole without it.

mod pages;
mod rendered;

use std::io::Read;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::tool::Tool;
use crate::{say, shell};

const MDBOOK: Tool = Tool {
    name: "mdbook",
    version: "0.5.4",
    wheel: None,
    options: &["--no-default-features", "--features", "search"],
    takes: "90 s",
};
/// Where book.toml has it written.
const FOLDER: &str = "target/book";
/// Of the JSON that mdBook sends: the pages have under a megabyte.
const INPUT_BYTES: u64 = 64 << 20;

/// Builds the book and checks its links.
pub(crate) fn run() -> Result<()> {
    let program = MDBOOK.path()?.to_string_lossy().into_owned();
    shell::run(&program, &["build"])?;
    let folder = shell::root().join(FOLDER);
    let found = rendered::check(&folder)?;
    for line in &found.broken {
        say::error(line);
    }
    if !found.broken.is_empty() {
        bail!("{} links of the book lead nowhere", found.broken.len());
    }
    say::step(&format!("{} pages, {} links, all lead somewhere", found.pages, found.links));
    say::line(&format!("{}", folder.join("index.html").display()));
    Ok(())
}

/// What mdBook asks: first whether a renderer is supported, then for the chapters.
pub(crate) fn pages(question: &[String]) -> Result<()> {
    if question.first().is_some_and(|word| word == "supports") {
        return Ok(());
    }
    let mut input = String::new();
    std::io::stdin()
        .take(INPUT_BYTES)
        .read_to_string(&mut input)
        .context("mdBook's input can't be read")?;
    let mut input: Value = serde_json::from_str(&input).context("mdBook's input is no JSON")?;
    let url = input[0]["config"]["preprocessor"]["repository"]["url"].as_str().map(str::to_owned);
    let book = &mut input[1];
    pages::rewrite(book, url.as_deref(), |path| {
        let full = shell::root().join(path);
        std::fs::read_to_string(&full).with_context(|| format!("{} can't be read", full.display()))
    })?;
    serde_json::to_writer(std::io::stdout().lock(), book).context("mdBook takes no answer")
}
