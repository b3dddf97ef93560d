//! Builds HTML as text. Markup is a literal; everything else is escaped, so that no value can
//! become markup, whoever wrote it.

use std::fmt::{self, Display, Write as _};

use crate::style::STYLE;

/// A document under construction.
#[derive(Debug, Default)]
pub struct Html {
    text: String,
}

/// A cell of a table.
pub(crate) enum HtmlCell {
    /// A text.
    Text(String),
    /// A figure, aligned to the right.
    Figure(String),
}

impl HtmlCell {
    pub(crate) fn text(text: impl Display) -> Self {
        Self::Text(text.to_string())
    }

    /// Returns a figure, or a dash where it is unknown.
    pub(crate) fn figure(figure: Option<impl Display>) -> Self {
        Self::Figure(figure.map_or("–".to_owned(), |figure| figure.to_string()))
    }
}

/// The frame of a page.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// The document's title.
    pub title: &'a str,
    /// The link to the list: `./` or `../../`.
    pub home: &'static str,
    /// Whether the page reloads itself.
    pub reloads: bool,
}

impl Html {
    /// Begins a document, up to its content.
    #[must_use]
    pub fn begin_page(frame: Frame<'_>) -> Self {
        let mut html = Self { text: String::with_capacity(32 * 1024) };
        html.raw("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">")
            .raw("<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">");
        if frame.reloads {
            html.wrap_text("<meta http-equiv=\"refresh\" content=\"", crate::RELOAD_SECONDS, "\">");
        }
        html.wrap_text("<title>", frame.title, "</title><style>")
            .raw(STYLE)
            .raw("</style></head>\n<body><a class=\"skip\" href=\"#main\">To the content</a>")
            .wrap_text(
                "<header><a href=\"",
                frame.home,
                "\">Millrace</a></header>\n<main id=\"main\">\n",
            );
        html
    }

    /// Ends the document with a note.
    #[must_use]
    pub fn finish_page(mut self, note: &str) -> String {
        self.wrap_text("</main>\n<footer>", note, "</footer></body></html>\n");
        self.text
    }

    /// Appends markup unchanged.
    pub fn raw(&mut self, markup: &'static str) -> &mut Self {
        self.text.push_str(markup);
        self
    }

    /// Appends a value, escaped for content and for quoted attributes.
    pub fn push_text(&mut self, value: impl Display) -> &mut Self {
        // Writing into a String can't fail.
        let _ = write!(Escaping(&mut self.text), "{value}");
        self
    }

    /// Appends a value between two pieces of markup.
    pub fn wrap_text(
        &mut self,
        open: &'static str,
        value: impl Display,
        close: &'static str,
    ) -> &mut Self {
        self.raw(open).push_text(value).raw(close)
    }

    /// Appends a term and its value to a description list.
    pub(crate) fn push_fact(&mut self, term: &str, value: impl Display) -> &mut Self {
        self.wrap_text("<div><dt>", term, "</dt>").wrap_text("<dd>", value, "</dd></div>")
    }

    /// Appends a term and its value, marked by a class for its colour.
    pub(crate) fn push_marked_fact(
        &mut self,
        term: &str,
        value: impl Display,
        class: &'static str,
    ) -> &mut Self {
        self.wrap_text("<div><dt>", term, "</dt><dd class=\"")
            .wrap_text("", class, "ink\">")
            .push_text(value)
            .raw("</dd></div>")
    }

    /// Appends a table that scrolls separately, by keyboard too. A head that begins with `>` is a
    /// figure's.
    pub(crate) fn push_table(
        &mut self,
        name: &str,
        heads: &[&str],
        rows: &[Vec<HtmlCell>],
    ) -> &mut Self {
        self.wrap_text(
            "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"",
            name,
            "\">",
        )
        .raw("<table><thead><tr>");
        for head in heads {
            match head.strip_prefix('>') {
                Some(figure) => self.wrap_text("<th scope=\"col\" class=\"n\">", figure, "</th>"),
                None => self.wrap_text("<th scope=\"col\">", head, "</th>"),
            };
        }
        self.raw("</tr></thead><tbody>");
        for row in rows {
            self.raw("<tr>");
            for cell in row {
                match cell {
                    HtmlCell::Text(words) => self.wrap_text("<td>", words, "</td>"),
                    HtmlCell::Figure(figure) => self.wrap_text("<td class=\"n\">", figure, "</td>"),
                };
            }
            self.raw("</tr>");
        }
        self.raw("</tbody></table></div>\n")
    }

    /// Appends how many rows of a list are not shown, if any.
    pub(crate) fn push_omitted(&mut self, all: usize, shown: usize) -> &mut Self {
        if all > shown {
            self.wrap_text("<p class=\"dim\">", all - shown, " more are not shown.</p>\n");
        }
        self
    }
}

/// Splits a text after this many characters.
pub(crate) fn split_text(text: &str, chars_max: usize) -> (&str, &str) {
    let end = text.char_indices().nth(chars_max).map_or(text.len(), |(end, _)| end);
    text.split_at_checked(end).unwrap_or((text, ""))
}

/// Escapes all text written through it.
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
                other if other.is_control() || reorders_text(other) => self.0.push('\u{fffd}'),
                other => self.0.push(other),
            }
        }
        Ok(())
    }
}

/// Returns whether a character reorders others on the screen: a name with one can appear as
/// another.
const fn reorders_text(char: char) -> bool {
    matches!(char, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}')
}

/// Encodes a value as a segment of a path or a value of a query.
#[must_use]
pub fn encode_segment(value: &str) -> String {
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
