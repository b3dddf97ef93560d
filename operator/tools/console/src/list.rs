//! Renders the list of pipelines: each with its state, and why it is not Ready.

use millrace_reports::units::{format_count, format_duration};
use millrace_reports::{ReadyState, Summary};

use crate::html::{Frame, Html, encode_segment, split_text};
use crate::lag_meter::{LagLevel, measure_lag};

/// Maximum pipelines on a page: some 60 kB.
pub const ROWS_MAX: usize = 100;
/// Maximum length of a message in the list.
const MESSAGE_CHARS_MAX: usize = 300;

/// The requested pipelines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// A part of the namespace; empty for all.
    pub namespace: String,
    /// A part of the name; empty for all.
    pub name: String,
    /// Only those that need attention.
    pub troubled: bool,
    /// Number of pipelines before the page.
    pub from: usize,
    /// Whether the page does not reload.
    pub still: bool,
}

/// Maximum length of a search text: a DNS name's length.
const PART_CHARS_MAX: usize = 253;

impl Filter {
    /// Parses a query; unknown parameters are ignored.
    #[must_use]
    pub fn from_query(query: &str) -> Self {
        let mut filter = Self::default();
        for (key, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            let value: String = decode_value(value).chars().take(PART_CHARS_MAX).collect();
            match key {
                "namespace" => filter.namespace = value.trim().to_owned(),
                "name" => filter.name = value.trim().to_owned(),
                "state" => filter.troubled = value == "troubled",
                "from" => filter.from = value.parse().unwrap_or(0),
                "still" => filter.still = value == "1",
                _ => {}
            }
        }
        filter
    }

    /// Returns whether a name matches.
    #[must_use]
    pub fn matches(&self, namespace: &str, name: &str) -> bool {
        namespace.contains(&self.namespace) && name.contains(&self.name)
    }

    fn to_query(&self, from: usize, still: bool) -> String {
        format!(
            "?namespace={}&name={}&state={}&from={from}&still={}",
            encode_segment(&self.namespace),
            encode_segment(&self.name),
            if self.troubled { "troubled" } else { "" },
            u8::from(still)
        )
    }
}

/// Decodes a query's value; an invalid escape stays unchanged.
#[must_use]
pub fn decode_value(value: &str) -> String {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let [first, after @ ..] = rest {
        let hex = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        let escaped = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (first, escaped) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            (b'+', _) => {
                bytes.push(b' ');
                rest = after;
            }
            (other, _) => {
                bytes.push(*other);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The content of the list.
#[derive(Clone, Debug)]
pub struct ListView<'a> {
    /// The requested filter.
    pub filter: &'a Filter,
    /// The pipelines of this page.
    pub rows: &'a [Summary],
    /// The number of matches.
    pub matching: usize,
    /// The number of all pipelines.
    pub all: usize,
    /// Objects that can't be read, by name, with the cause.
    pub unreadable: &'a [(String, String)],
    /// The text at the end of the page.
    pub footer: &'a str,
}

/// Renders the page.
#[must_use]
pub fn render_list(view: &ListView<'_>) -> String {
    let reloads = !view.filter.still;
    let mut html = Html::begin_page(Frame { title: "Millrace pipelines", home: "./", reloads });
    html.raw("<h1>Pipelines</h1>\n");
    push_form(&mut html, view.filter);
    let from = view.filter.from;
    html.wrap_text("<p>", format_count(view.matching as u64), " of ")
        .wrap_text("", format_count(view.all as u64), " pipelines")
        .raw(if view.filter.troubled { " need attention" } else { "" });
    if view.matching > view.rows.len() {
        let last = from + view.rows.len();
        html.wrap_text("; shown: ", (from + 1).min(last.max(1)), " to ").wrap_text("", last, "");
    }
    html.raw(".</p>\n<ul class=\"plain rows\">\n");
    for row in view.rows {
        push_pipeline(&mut html, row);
    }
    html.raw("</ul>\n");
    for (name, cause) in view.unreadable {
        html.wrap_text("<p class=\"state bad\">", name, " can't be read: ")
            .wrap_text("", cause, "</p>\n");
    }
    push_pages(&mut html, view);
    html.finish_page(view.footer)
}

fn push_form(html: &mut Html, filter: &Filter) {
    html.raw("<form method=\"get\" action=\"./\" role=\"search\">")
        .wrap_text(
            "<label>Namespace contains<input name=\"namespace\" value=\"",
            &filter.namespace,
            "\"></label>",
        )
        .wrap_text("<label>Name contains<input name=\"name\" value=\"", &filter.name, "\"></label>")
        .raw("<label>State<select name=\"state\"><option value=\"\">all</option>")
        .raw("<option value=\"troubled\"")
        .raw(if filter.troubled { " selected" } else { "" })
        .raw(">needs attention</option></select></label><button>Show</button></form>\n");
}

/// Returns a pipeline's state, as a class and as text.
pub(crate) const fn state_words(verdict: ReadyState, loses: bool) -> (&'static str, &'static str) {
    match (verdict, loses) {
        (ReadyState::Ready, false) => ("good", "Ready"),
        (ReadyState::Ready, true) => ("warn", "Ready, with losses"),
        (ReadyState::NotReady, _) => ("bad", "Not ready"),
        (ReadyState::Unknown, _) => ("warn", "Unknown"),
    }
}

fn push_pipeline(html: &mut Html, row: &Summary) {
    let (class, word) = state_words(row.verdict, row.loses);
    html.wrap_text("<li class=\"state ", class, "\"><div>")
        .wrap_text("<a href=\"pipelines/", encode_segment(&row.namespace), "/")
        .wrap_text("", encode_segment(&row.name), "\">")
        .wrap_text("<b>", &row.name, "</b></a><br>")
        .wrap_text("<span class=\"dim\">", &row.namespace, "</span></div>")
        .wrap_text("<div><b class=\"", class, "ink\">")
        .wrap_text("", word, "</b> ")
        .wrap_text("<span class=\"dim\">", &row.reason, "</span>");
    if row.verdict != ReadyState::Ready && !row.message.is_empty() {
        html.wrap_text("<br>", shorten_message(&row.message), "");
    }
    html.raw("</div><div class=\"dim\">");
    if let Some(pods) = &row.pods {
        html.wrap_text("pods ", pods, "<br>");
    }
    if let Some(lag) = row.lag_seconds {
        push_row_lag(html, lag, row.lag_bound_seconds);
    }
    html.wrap_text("", row.signals.join(", "), "</div></li>\n");
}

fn push_row_lag(html: &mut Html, lag: i64, bound: Option<i64>) {
    let over = bound.filter(|bound| measure_lag(lag as f64, *bound).level == LagLevel::Over);
    html.raw(if over.is_some() { "<b class=\"badink\">" } else { "<span>" });
    html.wrap_text("lag ", format_duration(lag), "");
    if let Some(bound) = bound {
        html.raw(if over.is_some() { ", over the bound of " } else { " (bound " })
            .push_text(format_duration(bound))
            .raw(if over.is_some() { "" } else { ")" });
    }
    html.raw(if over.is_some() { "</b><br>" } else { "</span><br>" });
}

fn shorten_message(message: &str) -> String {
    match split_text(message, MESSAGE_CHARS_MAX) {
        (_, "") => message.to_owned(),
        (start, _) => format!("{start}…"),
    }
}

fn push_pages(html: &mut Html, view: &ListView<'_>) {
    let Filter { from, still, .. } = *view.filter;
    html.raw("<nav class=\"pages\" aria-label=\"Pages\">");
    if from > 0 {
        let before = view.filter.to_query(from.saturating_sub(ROWS_MAX), still);
        html.wrap_text("<a href=\"", before, "\" rel=\"prev\">Previous</a>");
    }
    if from + view.rows.len() < view.matching {
        let after = view.filter.to_query(from + ROWS_MAX, still);
        html.wrap_text("<a href=\"", after, "\" rel=\"next\">Next</a>");
    }
    html.wrap_text("<a href=\"", view.filter.to_query(from, !still), "\">")
        .raw(if still { "Auto-refresh" } else { "Stop auto-refresh" })
        .raw("</a></nav>\n");
}
