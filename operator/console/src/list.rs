//! The list of pipelines: each with its state, and why it is not Ready.

use millrace_reports::units::{ago, count};
use millrace_reports::{Summary, Verdict};

use crate::html::{Frame, Html, segment};

/// Pipelines on a page: some 60 kB.
pub const ROWS_MAX: usize = 100;
/// The longest part of a message that a list shows.
const MESSAGE_CHARS_MAX: usize = 300;

/// Which pipelines are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// A part of the namespace; empty for all.
    pub namespace: String,
    /// A part of the name; empty for all.
    pub name: String,
    /// Only those that a person should look at.
    pub troubled: bool,
    /// Pipelines that come before the page.
    pub from: usize,
    /// Whether the page stays as it is.
    pub still: bool,
}

/// The longest part of a name that is looked for: a DNS name's length.
const PART_CHARS_MAX: usize = 253;

impl Filter {
    /// What a query asks for; what it doesn't know is passed over.
    #[must_use]
    pub fn of(query: &str) -> Self {
        let mut filter = Self::default();
        for (key, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            let value: String = decoded(value).chars().take(PART_CHARS_MAX).collect();
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

    /// Whether a name is asked for.
    #[must_use]
    pub fn names(&self, namespace: &str, name: &str) -> bool {
        namespace.contains(&self.namespace) && name.contains(&self.name)
    }

    fn query(&self, from: usize, still: bool) -> String {
        format!(
            "?namespace={}&name={}&state={}&from={from}&still={}",
            segment(&self.namespace),
            segment(&self.name),
            if self.troubled { "troubled" } else { "" },
            u8::from(still)
        )
    }
}

/// A query's value without its escapes; a broken one stays as it is.
#[must_use]
pub fn decoded(value: &str) -> String {
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

/// What the list shows.
#[derive(Clone, Debug)]
pub struct ListView<'a> {
    /// What was asked for.
    pub filter: &'a Filter,
    /// The pipelines of this page.
    pub rows: &'a [Summary],
    /// How many match the filter.
    pub matching: usize,
    /// How many there are.
    pub all: usize,
    /// Objects that can't be read, by name, with the cause.
    pub unreadable: &'a [(String, String)],
    /// What stands at the end of the page.
    pub note: &'a str,
}

/// The page.
#[must_use]
pub fn page(view: &ListView<'_>) -> String {
    let reloads = !view.filter.still;
    let mut html = Html::begin(Frame { title: "Millrace pipelines", home: "./", reloads });
    html.raw("<h1>Pipelines</h1>\n");
    form(&mut html, view.filter);
    let from = view.filter.from;
    html.put("<p>", count(view.matching as u64), " of ")
        .put("", count(view.all as u64), " pipelines")
        .raw(if view.filter.troubled { " need attention" } else { "" });
    if view.matching > view.rows.len() {
        let last = from + view.rows.len();
        html.put("; shown are ", (from + 1).min(last.max(1)), " to ").put("", last, "");
    }
    html.raw(".</p>\n<ul class=\"plain rows\">\n");
    for row in view.rows {
        one(&mut html, row);
    }
    html.raw("</ul>\n");
    for (name, cause) in view.unreadable {
        html.put("<p class=\"state bad\">", name, " can't be read: ").put("", cause, "</p>\n");
    }
    pages(&mut html, view);
    html.end(view.note)
}

fn form(html: &mut Html, filter: &Filter) {
    html.raw("<form method=\"get\" action=\"./\" role=\"search\">")
        .put(
            "<label>Namespace has<input name=\"namespace\" value=\"",
            &filter.namespace,
            "\"></label>",
        )
        .put("<label>Name has<input name=\"name\" value=\"", &filter.name, "\"></label>")
        .raw("<label>State<select name=\"state\"><option value=\"\">all</option>")
        .raw("<option value=\"troubled\"")
        .raw(if filter.troubled { " selected" } else { "" })
        .raw(">needs attention</option></select></label><button>Show</button></form>\n");
}

/// How a pipeline is, as a class and in words.
pub(crate) const fn state(verdict: Verdict, loses: bool) -> (&'static str, &'static str) {
    match (verdict, loses) {
        (Verdict::Ready, false) => ("good", "Ready"),
        (Verdict::Ready, true) => ("warn", "Ready, with losses"),
        (Verdict::NotReady, _) => ("bad", "Not ready"),
        (Verdict::Unknown, _) => ("warn", "Not known"),
    }
}

fn one(html: &mut Html, row: &Summary) {
    let (class, word) = state(row.verdict, row.loses);
    html.put("<li class=\"state ", class, "\"><div>")
        .put("<a href=\"pipelines/", segment(&row.namespace), "/")
        .put("", segment(&row.name), "\">")
        .put("<b>", &row.name, "</b></a><br>")
        .put("<span class=\"dim\">", &row.namespace, "</span></div>")
        .put("<div><b class=\"", class, "ink\">")
        .put("", word, "</b> ")
        .put("<span class=\"dim\">", &row.reason, "</span>");
    if row.verdict != Verdict::Ready && !row.message.is_empty() {
        html.put("<br>", shortened(&row.message), "");
    }
    html.raw("</div><div class=\"dim\">");
    if let Some(pods) = &row.pods {
        html.put("pods ", pods, "<br>");
    }
    if let Some(lag) = row.lag_seconds {
        html.put("lag ", ago(lag), "");
        if let Some(bound) = row.lag_bound_seconds {
            html.put(" (bound ", ago(bound), ")");
        }
        html.raw("<br>");
    }
    html.put("", row.signals.join(", "), "</div></li>\n");
}

fn shortened(message: &str) -> String {
    match message.char_indices().nth(MESSAGE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", message.get(..end).unwrap_or_default()),
        None => message.to_owned(),
    }
}

fn pages(html: &mut Html, view: &ListView<'_>) {
    let Filter { from, still, .. } = *view.filter;
    html.raw("<nav class=\"pages\" aria-label=\"Pages\">");
    if from > 0 {
        let before = view.filter.query(from.saturating_sub(ROWS_MAX), still);
        html.put("<a href=\"", before, "\" rel=\"prev\">Earlier</a>");
    }
    if from + view.rows.len() < view.matching {
        let after = view.filter.query(from + ROWS_MAX, still);
        html.put("<a href=\"", after, "\" rel=\"next\">Later</a>");
    }
    html.put("<a href=\"", view.filter.query(from, !still), "\">")
        .raw(if still { "Reload by itself" } else { "Stop reloading" })
        .raw("</a></nav>\n");
}
