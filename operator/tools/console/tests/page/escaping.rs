//! Tests that no text of others becomes markup.

use millrace_console::html::encode_segment;
use millrace_console::list::{Filter, decode_value};
use proptest::prelude::*;

use crate::page::fixture::fixture;
use crate::page::says::{listed, rendered};

/// Returns a page's markup: its tags with the names of their attributes, in order. Parsed as in a
/// browser: a tag ends at the first `>` outside quotes.
fn structure(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = page;
    while let Some(at) = rest.find('<') {
        let mut tag = String::new();
        let mut quoted = false;
        let mut length = 0;
        for char in rest[at..].chars() {
            length += char.len_utf8();
            match char {
                '"' => quoted = !quoted,
                '>' if !quoted => break,
                other if !quoted => tag.push(other),
                _ => {}
            }
        }
        found.push(tag);
        rest = &rest[at + length..];
    }
    found
}

/// Returns the values of an attribute.
fn values<'a>(page: &'a str, name: &str) -> Vec<&'a str> {
    let begin = format!(" {name}=\"");
    page.split(&begin).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

const HOSTILE: [&str; 9] = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "' onfocus='alert(1)",
    "</style><style>*{color:red}",
    "javascript:alert(1)",
    "&lt;b&gt;",
    "\u{202e}txt.exe\u{0}\u{1b}[2J",
    "../../../../etc",
    "<!--",
];

/// Scenario: each text that others write has markup in it. Guarantee: tags and attributes of the
/// pages are those of pages without; links have no other destinations; no script, handler or
/// `style` attribute; no character that hides others.
#[test]
fn hostile_words_stay_words() {
    for hostile in HOSTILE {
        let words = |text: &str| format!("{text}{hostile}");
        let page = rendered(&fixture(&words), true);
        assert_eq!(
            structure(&page),
            structure(&rendered(&fixture(&str::to_owned), true)),
            "{hostile}"
        );
        let list = listed(&words, &Filter { namespace: hostile.to_owned(), ..Filter::default() });
        assert_eq!(
            structure(&list),
            structure(&listed(&str::to_owned, &Filter::default())),
            "{hostile}"
        );
        for document in [&page, &list] {
            for link in values(document, "href") {
                let known = [
                    "./",
                    "../../",
                    "?",
                    "#main",
                    "#problems",
                    "pipelines/",
                    "https://grafana.example/d/millrace-pipelines?var-",
                    "https://ch.example/play#SELECT",
                ];
                assert!(known.iter().any(|begin| link.starts_with(begin)), "{link}");
                let goes_up =
                    link.trim_start_matches("../../").contains("..") && link.contains('/');
                assert!(!goes_up || link.contains("%2F"), "{link}");
            }
            let markup = structure(document).join("\n");
            for never in ["script", "iframe", " on", " style=", "src=", "object", "embed"] {
                assert!(!markup.contains(never), "{never}");
            }
            assert!(!document.contains(['\u{202e}', '\u{0}', '\u{1b}']), "{hostile}");
        }
    }
}

proptest! {
    /// Scenario: any text wherever others write. Guarantee: the same markup as with none.
    #[test]
    fn any_words_stay_words(hostile in "(\\PC|[<>\"'&=/;\\x00-\\x1f]){0,40}") {
        let words = |text: &str| format!("{text} {hostile}");
        let plain = |text: &str| text.to_owned();
        prop_assert_eq!(
            structure(&rendered(&fixture(&words), true)),
            structure(&rendered(&fixture(&plain), true))
        );
        prop_assert_eq!(
            structure(&listed(&words, &Filter { name: hostile.clone(), ..Filter::default() })),
            structure(&listed(&plain, &Filter::default()))
        );
    }

    /// Scenario: any name as part of a link. Guarantee: only characters that a path may have, and
    /// decoding gives the name.
    #[test]
    fn a_name_in_a_link_is_read_back(name in "\\PC{0,40}") {
        let link = encode_segment(&name);
        prop_assert!(link.bytes().all(|it| it.is_ascii_alphanumeric() || b"-_.~%".contains(&it)));
        prop_assert_eq!(decode_value(&link), name);
    }

    /// Scenario: any query. Guarantee: a filter, never a panic.
    #[test]
    fn any_query_is_read(query in "(\\PC|[%&=+]){0,80}") {
        let _ = Filter::from_query(&query);
        let _ = Filter::from_query(&format!("namespace={query}&from={query}"));
    }
}
