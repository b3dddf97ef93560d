//! Tests that docs/coming-from.md has the tool's texts.

use std::path::Path;

use crate::advice::OF_THE_PAGE;

/// Returns a page's text without its links' addresses and without line breaks.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("](") {
        out.push_str(&before.replace('[', ""));
        rest = after.split_once(')').map_or("", |(_, after)| after);
    }
    out.push_str(&rest.replace('[', ""));
    out.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Scenario: the text for each part without a counterpart. Guarantee: the page has the same text.
#[test]
fn the_page_has_the_tools_words() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/coming-from.md");
    let page = plain(&std::fs::read_to_string(page).unwrap());
    for words in OF_THE_PAGE {
        assert!(page.contains(words), "docs/coming-from.md lacks {words:?}");
    }
}
