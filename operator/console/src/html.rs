//! HTML as text. Markup is a literal; everything else is escaped, so that no value can become
//! markup, whoever wrote it.

use std::fmt::{self, Display, Write as _};

use crate::style::STYLE;

/// A document that grows.
#[derive(Debug, Default)]
pub struct Html {
    text: String,
}

/// A cell of a table.
pub(crate) enum Cell {
    /// Words.
    Words(String),
    /// A figure, to the right.
    Figure(String),
}

impl Cell {
    pub(crate) fn words(words: impl Display) -> Self {
        Self::Words(words.to_string())
    }

    /// A figure, or a dash where it is not known.
    pub(crate) fn figure(figure: Option<impl Display>) -> Self {
        Self::Figure(figure.map_or("–".to_owned(), |figure| figure.to_string()))
    }
}

/// What stands around a page.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// The document's title.
    pub title: &'a str,
    /// The way back to the list: `./` or `../../`.
    pub home: &'static str,
    /// Whether the page asks for itself again.
    pub reloads: bool,
}

impl Html {
    /// A document's beginning, up to its content.
    #[must_use]
    pub fn begin(frame: Frame<'_>) -> Self {
        let mut html = Self { text: String::with_capacity(32 * 1024) };
        html.raw("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">")
            .raw("<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">");
        if frame.reloads {
            html.put("<meta http-equiv=\"refresh\" content=\"", crate::RELOAD_SECONDS, "\">");
        }
        html.put("<title>", frame.title, "</title><style>")
            .raw(STYLE)
            .raw("</style></head>\n<body><a class=\"skip\" href=\"#main\">To the content</a>")
            .put(
                "<header><a href=\"",
                frame.home,
                "\">Millrace</a></header>\n<main id=\"main\">\n",
            );
        html
    }

    /// The document, ended with a note.
    #[must_use]
    pub fn end(mut self, note: &str) -> String {
        self.put("</main>\n<footer>", note, "</footer></body></html>\n");
        self.text
    }

    /// Markup, as it is.
    pub fn raw(&mut self, markup: &'static str) -> &mut Self {
        self.text.push_str(markup);
        self
    }

    /// A value, escaped for content and for quoted attributes.
    pub fn text(&mut self, value: impl Display) -> &mut Self {
        // Writing into a String can't fail.
        let _ = write!(Escaping(&mut self.text), "{value}");
        self
    }

    /// A value between two pieces of markup.
    pub fn put(
        &mut self,
        open: &'static str,
        value: impl Display,
        close: &'static str,
    ) -> &mut Self {
        self.raw(open).text(value).raw(close)
    }

    /// A term and its value, of a list of such.
    pub(crate) fn fact(&mut self, term: &str, value: impl Display) -> &mut Self {
        self.put("<div><dt>", term, "</dt>").put("<dd>", value, "</dd></div>")
    }

    /// A table that scrolls by itself, by keyboard too. A head with `>` in front is a figure's.
    pub(crate) fn table(&mut self, name: &str, heads: &[&str], rows: &[Vec<Cell>]) -> &mut Self {
        self.put("<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"", name, "\">")
            .raw("<table><thead><tr>");
        for head in heads {
            match head.strip_prefix('>') {
                Some(figure) => self.put("<th scope=\"col\" class=\"n\">", figure, "</th>"),
                None => self.put("<th scope=\"col\">", head, "</th>"),
            };
        }
        self.raw("</tr></thead><tbody>");
        for row in rows {
            self.raw("<tr>");
            for cell in row {
                match cell {
                    Cell::Words(words) => self.put("<td>", words, "</td>"),
                    Cell::Figure(figure) => self.put("<td class=\"n\">", figure, "</td>"),
                };
            }
            self.raw("</tr>");
        }
        self.raw("</tbody></table></div>\n")
    }

    /// Says how many rows of a list are not shown, if any.
    pub(crate) fn left_out(&mut self, all: usize, shown: usize) -> &mut Self {
        if all > shown {
            self.put("<p class=\"dim\">", all - shown, " more are not shown.</p>\n");
        }
        self
    }
}

/// Escapes what is written through it.
struct Escaping<'a>(&'a mut String);

impl fmt::Write for Escaping<'_> {
    fn write_str(&mut self, words: &str) -> fmt::Result {
        for char in words.chars() {
            match char {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                '\n' | '\t' => self.0.push(char),
                other if other.is_control() || reorders(other) => self.0.push('\u{fffd}'),
                other => self.0.push(other),
            }
        }
        Ok(())
    }
}

/// Characters that change the order in which others are shown: a name with one can look like
/// another.
const fn reorders(char: char) -> bool {
    matches!(char, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}')
}

/// A value as a segment of a path or a value of a query.
#[must_use]
pub fn segment(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for byte in value.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                text.push(char::from(byte));
            }
            other => {
                // Writing into a String can't fail.
                let _ = write!(text, "%{other:02X}");
            }
        }
    }
    text
}
