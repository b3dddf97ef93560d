//! Renders problems: each cause once, grouped by severity. Faults and losses are unfolded,
//! advice is folded.

use millrace_crds::Remedy;
use millrace_reports::units::{format_duration, format_plural};
use millrace_reports::{Finding, ProblemGroup, Severity, group_findings};

use crate::html::{Html, split_text};
use crate::pipeline::limits::ITEMS_MAX;

/// The severities in the order of the page: word, class, whether they are unfolded.
const SEVERITIES: [(Severity, &str, &str, bool); 4] = [
    (Severity::Broken, "Broken", "bad", true),
    (Severity::Loss, "Records lost or dead-lettered", "bad", true),
    (Severity::Unknown, "Unknown", "warn", false),
    (Severity::Advice, "Advice", "warn", false),
];
/// Maximum objects that a card names; an image can stop all pools of a pipeline.
const OBJECTS_MAX: usize = 12;
/// Maximum characters of a message before it is folded: some three lines.
const MESSAGE_CHARS_MAX: usize = 280;

/// Renders the section; remedies link to a page below `book_url`.
pub(crate) fn push_problems(html: &mut Html, findings: &[Finding], book_url: Option<&str>) {
    if findings.is_empty() {
        html.raw("<h2 id=\"problems\">No problems</h2>\n");
        return;
    }
    html.raw("<h2 id=\"problems\">Problems</h2>\n");
    let groups = group_findings(findings);
    for (severity, word, class, is_open) in SEVERITIES {
        let mut of_severity = groups.iter().filter(|it| it.main.severity == severity).peekable();
        if of_severity.peek().is_none() {
            continue;
        }
        let all: Vec<_> = of_severity.collect();
        html.raw(if is_open { "<details open>" } else { "<details>" })
            .wrap_text("<summary><b class=\"", class, "ink\">")
            .wrap_text("", word, "</b> ")
            .wrap_text("<span class=\"dim\">", format_plural(all.len() as u64, "cause"), "</span>")
            .raw("</summary>\n<ul class=\"plain\">\n");
        for group in all.iter().take(ITEMS_MAX) {
            push_card(html, group, class, book_url);
        }
        html.raw("</ul>\n").push_omitted(all.len(), ITEMS_MAX).raw("</details>\n");
    }
}

fn push_card(
    html: &mut Html,
    group: &ProblemGroup<'_>,
    class: &'static str,
    book_url: Option<&str>,
) {
    let one = group.main;
    html.wrap_text("<li class=\"state ", class, "\"><b>")
        .wrap_text("", &one.reason, "</b> ")
        .wrap_text("<span class=\"dim\">", &one.condition, " is ")
        .wrap_text("", &one.status, "");
    if let Some(seconds) = one.for_seconds {
        html.wrap_text(" for ", format_duration(seconds), "");
    }
    html.raw("</span><br>");
    for (at, object) in group.objects.iter().take(OBJECTS_MAX).enumerate() {
        html.raw(if at > 0 { ", " } else { "" }).push_text(object);
    }
    if group.objects.len() > OBJECTS_MAX {
        html.wrap_text(" and ", group.objects.len() - OBJECTS_MAX, " more");
    }
    match split_text(&one.message, MESSAGE_CHARS_MAX) {
        (_, "") => {
            html.wrap_text("<p>", &one.message, "</p>");
        }
        (start, _) => {
            html.wrap_text("<details><summary>", start, "…</summary>").wrap_text(
                "<p>",
                &one.message,
                "</p></details>",
            );
        }
    }
    if let Some(remedy) = &one.remedy {
        push_remedy(html, remedy, book_url);
    }
    html.raw("</li>\n");
}

/// Renders what to do, with a link to the section that has more where the documentation's address
/// is known.
fn push_remedy(html: &mut Html, remedy: &Remedy, book_url: Option<&str>) {
    html.wrap_text("<p class=\"remedy\">→ ", remedy.text, " <span class=\"dim\">");
    // Whoever may write a status chooses the address: a browser would run one of another scheme.
    match book_url.filter(|url| url.starts_with("https://") || url.starts_with("http://")) {
        Some(_) => html
            .wrap_text("<a rel=\"noreferrer\" href=\"", remedy.address(book_url), "\">")
            .wrap_text("", remedy.section, "</a>"),
        None => html.push_text(remedy.section),
    };
    html.raw("</span></p>");
}
