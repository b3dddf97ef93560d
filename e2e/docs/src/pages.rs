//! Pages as text: their blocks of code, and code between backticks.
//!
//! It knows no Markdown but fences, blank lines and backticks; blocks that are only indented are
//! taken for text.

use std::fs;
use std::io;
use std::path::Path;

/// Pages beside those below `docs` that tell people to type something.
const BESIDE: [&str; 4] = ["CONTRIBUTING.md", "README.md", "SECURITY.md", "e2e/stack/README.md"];

/// A page.
#[derive(Debug, Clone)]
pub struct Page {
    /// From the repository's root.
    pub path: String,
    /// All of it.
    pub text: String,
}

/// A fenced block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// The page, and the line of the fence.
    pub place: String,
    /// What the fence says it is; often nothing.
    pub language: String,
    /// Its lines, without the fence's indentation.
    pub text: String,
}

impl Block {
    /// What a reader types of it: all that is marked as a shell's, else what stands behind prompts.
    #[must_use]
    pub fn typed(&self) -> String {
        if matches!(&*self.language, "sh" | "console" | "bash") {
            return self.text.clone();
        }
        let mut typed = String::new();
        let mut goes_on = false;
        for line in self.text.lines() {
            let command = line.strip_prefix("$ ").or(goes_on.then_some(line));
            goes_on = command.is_some_and(|it| it.ends_with('\\'));
            typed.extend(command.into_iter().flat_map(|it| [it, "\n"]));
        }
        typed
    }
}

/// Code between backticks in a page's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// The page, and the line where its paragraph begins.
    pub place: String,
    /// The code on one line.
    pub text: String,
}

/// All pages that tell people what to type, in the order of their paths.
///
/// # Errors
/// When one can't be read.
pub fn all(root: &Path) -> io::Result<Vec<Page>> {
    let mut paths: Vec<String> = BESIDE.iter().map(|&path| path.to_owned()).collect();
    let mut folders = vec!["docs".to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder))? {
            let entry = entry?;
            let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
            if entry.file_type()?.is_dir() {
                folders.push(path);
            } else if path.ends_with(".md") {
                paths.push(path);
            }
        }
    }
    paths.sort();
    let page = |path: String| {
        let text = fs::read_to_string(root.join(&path))?;
        Ok(Page { path, text })
    };
    paths.into_iter().map(page).collect()
}

impl Page {
    /// Its fenced blocks.
    #[must_use]
    pub fn blocks(&self) -> Vec<Block> {
        let mut blocks = Vec::new();
        let mut open: Option<(usize, Block)> = None;
        for (number, line) in self.text.lines().enumerate() {
            let fence = line.trim_start().strip_prefix("```");
            match (fence, open.take()) {
                (Some(language), None) => {
                    let indent = line.len() - line.trim_start().len();
                    let language = language.trim().to_owned();
                    let place = format!("{}:{}", self.path, number + 1);
                    open = Some((indent, Block { place, language, text: String::new() }));
                }
                (Some(_), Some((_, block))) => blocks.push(block),
                (None, Some((indent, mut block))) => {
                    block.text.push_str(line.get(indent..).unwrap_or_default());
                    block.text.push('\n');
                    open = Some((indent, block));
                }
                (None, None) => {}
            }
        }
        blocks
    }

    /// Code between backticks, outside blocks. It may go on in the next line.
    #[must_use]
    pub fn spans(&self) -> Vec<Span> {
        let mut spans = Vec::new();
        let mut paragraph = (0, String::new());
        let mut fenced = false;
        let mut end = |(number, text): &mut (usize, String)| {
            let place = format!("{}:{number}", self.path);
            let code = text.split('`').skip(1).step_by(2).filter(|code| !code.is_empty());
            spans.extend(code.map(|code| Span { place: place.clone(), text: code.to_owned() }));
            text.clear();
        };
        for (number, line) in self.text.lines().enumerate() {
            let line = line.trim();
            let is_fence = line.starts_with("```");
            fenced ^= is_fence;
            if fenced || is_fence || line.is_empty() || line.starts_with(['|', '#', '-']) {
                end(&mut paragraph);
            }
            if fenced || is_fence || line.is_empty() {
                continue;
            }
            if paragraph.1.is_empty() {
                paragraph.0 = number + 1;
            }
            paragraph.1.push_str(line);
            paragraph.1.push(' ');
        }
        end(&mut paragraph);
        spans
    }
}

#[cfg(test)]
mod tests {
    use super::{Block, Page, Span};

    fn page(text: &str) -> Page {
        Page { path: "a.md".to_owned(), text: text.to_owned() }
    }

    /// Scenario: a block in a list with a language, one without, code over the end of a line, in a
    /// row, and in a block. Guarantee: blocks without their indentation; code of the text alone.
    #[test]
    fn blocks_and_code_are_found_with_their_places() {
        let page = page(
            "# A\n- one:\n  ```sh\n  make a\n    b\n  ```\n\nuse `make\nb` or\n\n| `c` | `d` |\n\n\
             ```\n`no`\n```\n",
        );
        let block = |place: &str, language: &str, text: &str| Block {
            place: place.to_owned(),
            language: language.to_owned(),
            text: text.to_owned(),
        };
        let wanted = [block("a.md:3", "sh", "make a\n  b\n"), block("a.md:13", "", "`no`\n")];
        assert_eq!(page.blocks(), wanted);
        let span =
            |place: &str, text: &str| Span { place: place.to_owned(), text: text.to_owned() };
        let wanted = [span("a.md:8", "make b"), span("a.md:11", "c"), span("a.md:11", "d")];
        assert_eq!(page.spans(), wanted);
    }
}
