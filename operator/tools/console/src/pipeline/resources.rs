//! Renders the tree of a pipeline's objects, and their recent events.

use millrace_reports::facts::EventFacts;
use millrace_reports::units::{format_count, format_duration, format_plural};
use millrace_reports::{ReadyState, ResourceNode};

use crate::html::{Html, HtmlCell};
use crate::list::state_words;

/// Maximum pods shown of a pool: the table of pods has more.
const PODS_MAX: usize = 20;
/// Maximum objects shown below the pipeline.
const OBJECTS_MAX: usize = 60;
/// Maximum events shown, the newest first.
const EVENTS_MAX: usize = 30;

/// Renders the tree; pods are folded below their pool.
pub(crate) fn push_tree(html: &mut Html, pipeline: &ResourceNode) {
    html.raw("<h2>Resources</h2>\n<ul class=\"tree\"><li>");
    push_node(html, pipeline);
    html.raw("<ul>\n");
    for object in pipeline.children.iter().take(OBJECTS_MAX) {
        html.raw("<li>");
        push_node(html, object);
        push_pods(html, &object.children);
        html.raw("</li>\n");
    }
    html.raw("</ul></li></ul>\n").push_omitted(pipeline.children.len(), OBJECTS_MAX);
}

fn push_node(html: &mut Html, node: &ResourceNode) {
    let (class, word) = state_words(node.state, false);
    html.wrap_text("<span class=\"dim\">", &node.kind, "</span> ")
        .push_text(&node.name)
        .wrap_text(" <b class=\"", class, "ink\">")
        .wrap_text("", word, "</b>");
    if node.state != ReadyState::Ready || node.kind == "Pod" {
        html.wrap_text(" <span class=\"dim\">", &node.detail, "</span>");
    }
}

fn push_pods(html: &mut Html, pods: &[ResourceNode]) {
    if pods.is_empty() {
        return;
    }
    let ready = pods.iter().filter(|pod| pod.state == ReadyState::Ready).count();
    // A pod that is not ready is what the reader searches.
    html.raw(if ready < pods.len() { "<details open>" } else { "<details>" })
        .wrap_text("<summary>", format_plural(pods.len() as u64, "pod"), "")
        .wrap_text(", ", format_count(ready as u64), " ready</summary><ul>\n");
    for pod in pods.iter().take(PODS_MAX) {
        html.raw("<li>");
        push_node(html, pod);
        html.raw("</li>\n");
    }
    html.raw("</ul>").push_omitted(pods.len(), PODS_MAX).raw("</details>");
}

/// Renders events, the newest first; `now` is the time of the page.
pub(crate) fn push_events(html: &mut Html, events: &[EventFacts], now: i64) {
    html.raw("<h2>Events</h2>\n");
    if events.is_empty() {
        html.raw("<p>None in the last hour: the API server deletes older ones.</p>\n");
        return;
    }
    let row = |one: &EventFacts| {
        vec![
            HtmlCell::text(format_args!("{} ago", format_duration(now - one.at_second))),
            HtmlCell::text(if one.is_warning { "Warning" } else { "Normal" }),
            HtmlCell::text(format_args!("{} {}", one.kind, one.name)),
            HtmlCell::text(&one.reason),
            HtmlCell::text(&one.note),
            HtmlCell::figure(Some(one.count)),
        ]
    };
    let rows: Vec<_> = events.iter().take(EVENTS_MAX).map(row).collect();
    let heads = ["last", "type", "object", "reason", "message", ">count"];
    html.push_table("Events", &heads, &rows).push_omitted(events.len(), EVENTS_MAX);
}
