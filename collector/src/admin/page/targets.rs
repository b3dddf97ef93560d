//! Renders the page `/targets` and its JSON: the scraped targets, the lists that name them, and the
//! targets that aren't scraped. Pure: no clock, no I/O. Everything but this file's literals is
//! escaped: labels are others' text.
//!
//! # Limits
//! A page has [`ROWS_MAX`] targets, a JSON document [`JSON_MAX`], and both end after [`BYTES_MAX`]
//! of them; `?from=N` shows the next.

use std::time::Duration;

use millrace_source_prometheus::{JobView, ListView, ShareView, TargetView, TargetsView};
use serde_json::{Value, json};

use super::html::{Escaped, STYLE, format_count, format_elapsed, push};

/// The maximum number of targets on a page.
pub(crate) const ROWS_MAX: usize = 200;

/// The maximum number of targets in a JSON document.
pub(crate) const JSON_MAX: usize = 1000;

/// The maximum bytes of an answer's targets: a thousand of 1 KiB each. The last may exceed it by 30
/// KiB (4 KiB of labels, each byte escaped as six).
const BYTES_MAX: usize = 1024 * 1024;

/// The maximum number of lists on a page; unreadable lists come first.
const LISTS_MAX: usize = 100;

/// The page's reload interval, in seconds.
const RELOAD_SECONDS: u32 = 10;

const MORE_STYLE: &str = "\
td{vertical-align:top}\
td:first-child{overflow-wrap:anywhere}\
table.targets td:first-child{min-width:14rem}\
table.targets td+td{white-space:nowrap}\
.up{color:#183}.down{color:#c33;font-weight:bold}\
@media(prefers-color-scheme:dark){.up{color:#7d8}.down{color:#f88}}\
.labels{font-size:.85rem;opacity:.85}\
.error{border-left:.2rem solid #c33;padding-left:.4rem}";

/// Returns the number of `from=` in a query.
pub(crate) fn parse_from(query: &str) -> usize {
    let value = query.split('&').find_map(|pair| pair.strip_prefix("from="));
    value.and_then(|value| value.parse().ok()).unwrap_or(0)
}

/// Renders the page.
pub(crate) fn render_page(view: &TargetsView) -> String {
    let mut text = String::with_capacity(16 * 1024);
    push(
        &mut text,
        format_args!(
            "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width\">\
             <meta http-equiv=\"refresh\" content=\"{RELOAD_SECONDS}\">\
             <title>Millrace targets</title><style>{STYLE}{MORE_STYLE}</style></head>\n\
             <body><main>\n<h1>Targets</h1>\n"
        ),
    );
    if let Some(share) = &view.share {
        push_share(&mut text, share);
    }
    if view.share.is_none() || !view.jobs.is_empty() {
        push_jobs(&mut text, &view.jobs);
    }
    let shown = push_targets(&mut text, view);
    push_pages(&mut text, view, shown);
    push_lists(&mut text, view);
    push(
        &mut text,
        format_args!(
            "<footer>Refreshes every {RELOAD_SECONDS} s. <a href=\"/\">process</a> \
             <a href=\"/targets.json?from={}\">JSON</a> <a href=\"/metrics\">metrics</a></footer>\n\
             </main></body></html>\n",
            view.from
        ),
    );
    text
}

/// Renders which version of this pod's share is scraped.
fn push_share(text: &mut String, share: &ShareView) {
    let ShareView { read, version, entries, fault } = share;
    match read {
        None => text.push_str(
            "<p>Targets come from this pod's share, which the operator has not written yet.</p>\n",
        ),
        Some(read) => {
            push(
                text,
                format_args!(
                    "<p>Targets come from this pod's share: version {read}, entries {entries}.",
                ),
            );
            if version != &Some(*read) {
                text.push_str(" Scrapes of removed targets are ending.");
            }
            text.push_str("</p>\n");
        }
    }
    if !fault.is_empty() {
        push(text, format_args!("<p class=\"error\">{}</p>\n", Escaped(fault)));
    }
}

fn push_jobs(text: &mut String, jobs: &[JobView]) {
    if jobs.is_empty() {
        text.push_str(
            "<p>This process scrapes nothing: its settings have no \
                       receivers.prometheus.</p>\n",
        );
        return;
    }
    text.push_str(
        "<div class=\"wide\"><table><thead><tr><th>job</th><th class=\"n\">up</th>\
         <th class=\"n\">down</th><th class=\"n\">unknown</th><th class=\"n\">not scraped</th>\
         </tr></thead><tbody>",
    );
    for job in jobs {
        let down = if job.down > 0 { " down" } else { "" };
        push(
            text,
            format_args!(
                "<tr><th>{}</th><td class=\"n\">{}</td><td class=\"n{down}\">{}</td>\
                 <td class=\"n\">{}</td><td class=\"n\">{}</td></tr>",
                Escaped(&job.name),
                format_count(job.up as f64),
                format_count(job.down as f64),
                format_count(job.unknown as f64),
                format_count(job.dropped.total_count() as f64),
            ),
        );
        let reasons = drop_reasons(job);
        if !reasons.is_empty() {
            push(
                text,
                format_args!(
                    "<tr><td colspan=\"5\"><div class=\"labels\">Not scraped: {}</div></td></tr>",
                    Escaped(&reasons)
                ),
            );
        }
    }
    text.push_str("</tbody></table></div>\n");
}

/// Returns why entries of a job's lists aren't scraped.
fn drop_reasons(job: &JobView) -> String {
    let dropped = &job.dropped;
    let counted = [
        (dropped.relabeled, "dropped by relabeling"),
        (dropped.duplicate, "duplicate"),
        (dropped.over_limit, "over the limit of targets"),
        (dropped.invalid, "unusable"),
    ];
    let counted = counted.into_iter().filter(|(count, _)| *count > 0);
    let mut reasons: Vec<_> = counted.map(|(count, what)| format!("{count} {what}")).collect();
    if !dropped.example.is_empty() {
        reasons.push(format!("for example {}", dropped.example));
    }
    reasons.join(", ")
}

/// Renders the targets, by job, and returns how many are shown.
fn push_targets(text: &mut String, view: &TargetsView) -> usize {
    let start = text.len();
    let mut job = None;
    for (index, target) in view.targets.iter().enumerate() {
        if text.len() - start > BYTES_MAX {
            end_of_table(text, job);
            return index;
        }
        if job != Some(target.job.as_str()) {
            end_of_table(text, job);
            job = Some(&target.job);
            push(
                text,
                format_args!(
                    "<h2>{}</h2>\n<div class=\"wide\"><table class=\"targets\"><thead><tr>\
                     <th>target</th><th>state</th><th class=\"n\">last scrape</th>\
                     <th class=\"n\">took</th><th class=\"n\">samples</th>\
                     <th class=\"n\">series</th><th class=\"n\">next</th></tr></thead><tbody>",
                    Escaped(&target.job)
                ),
            );
        }
        push_row(text, target, view.now_unix_millis);
    }
    end_of_table(text, job);
    view.targets.len()
}

fn end_of_table(text: &mut String, job: Option<&str>) {
    if job.is_some() {
        text.push_str("</tbody></table></div>\n");
    }
}

fn push_row(text: &mut String, target: &TargetView, now_unix_millis: u64) {
    let TargetView { job: _, url, labels, last } = target;
    push(text, format_args!("<tr><td>{}", Escaped(url)));
    if !labels.is_empty() {
        text.push_str("<div class=\"labels\">");
        for (index, (name, value)) in labels.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            push(text, format_args!("{comma}{}=\"{}\"", Escaped(name), Escaped(value)));
        }
        text.push_str("</div>");
    }
    if !last.error.is_empty() {
        push(text, format_args!("<div class=\"error\">{}</div>", Escaped(&last.error)));
    }
    let state = last.state.as_str();
    let next = match last.next_unix_millis {
        0 => "–".to_owned(),
        next if next <= now_unix_millis => "now".to_owned(),
        next => format!("in {}", format_millis(next - now_unix_millis)),
    };
    let is_scraped = last.began_unix_millis > 0;
    let if_scraped = |shown: String| if is_scraped { shown } else { "–".to_owned() };
    push(
        text,
        format_args!(
            "</td><td class=\"{state}\">{state}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
             <td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{next}</td></tr>\n",
            format_ago(last.began_unix_millis, now_unix_millis),
            if_scraped(format!("{:.0} ms", last.duration_seconds * 1000.0)),
            if_scraped(format_count(last.samples as f64)),
            if_scraped(format_count(last.series as f64)),
        ),
    );
}

fn push_pages(text: &mut String, view: &TargetsView, shown: usize) {
    let (first, last) = (view.from + 1, view.from + shown);
    if view.from == 0 && last >= view.total {
        return;
    }
    push(text, format_args!("<p>Targets {first} to {last} of {}.", view.total));
    if view.from > 0 {
        let before = view.from.saturating_sub(ROWS_MAX);
        push(text, format_args!(" <a href=\"/targets?from={before}\">earlier</a>"));
    }
    if last < view.total {
        push(text, format_args!(" <a href=\"/targets?from={last}\">later</a>"));
    }
    text.push_str("</p>\n");
}

fn push_lists(text: &mut String, view: &TargetsView) {
    if view.lists.is_empty() {
        return;
    }
    let mut lists: Vec<&ListView> = view.lists.iter().collect();
    lists.sort_by_key(|list| list.error.is_empty());
    let shown = lists.len().min(LISTS_MAX);
    push(
        text,
        format_args!(
            "<h2>Lists: {shown} of {}</h2>\n<div class=\"wide\"><table class=\"targets\"><thead>\
             <tr><th>list</th><th>job</th><th class=\"n\">targets</th><th class=\"n\">read</th>\
             </tr></thead><tbody>",
            lists.len()
        ),
    );
    for list in &lists[..shown] {
        push(text, format_args!("<tr><td>{}", Escaped(&list.source)));
        if !list.error.is_empty() {
            push(text, format_args!("<div class=\"error\">{}</div>", Escaped(&list.error)));
        }
        push(
            text,
            format_args!(
                "</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>\n",
                Escaped(&list.job),
                format_count(list.targets as f64),
                format_ago(list.read_unix_millis, view.now_unix_millis),
            ),
        );
    }
    text.push_str("</tbody></table></div>\n");
}

/// Returns how long ago a time was.
fn format_ago(unix_millis: u64, now_unix_millis: u64) -> String {
    match unix_millis {
        0 => "never".to_owned(),
        then => format!("{} ago", format_millis(now_unix_millis.saturating_sub(then))),
    }
}

fn format_millis(millis: u64) -> String {
    format_elapsed(Duration::from_millis(millis))
}

/// Returns the same as JSON. `next` is the start of the next part, if there is one.
pub(crate) fn render_json(view: &TargetsView) -> String {
    let jobs: Vec<Value> = view.jobs.iter().map(job_json).collect();
    let lists: Vec<Value> = view.lists.iter().map(list_json).collect();
    let mut targets = String::new();
    let mut shown = 0;
    for target in &view.targets {
        if targets.len() > BYTES_MAX {
            break;
        }
        if shown > 0 {
            targets.push(',');
        }
        targets.push_str(&target_json(target).to_string());
        shown += 1;
    }
    let share = view.share.as_ref().map_or(Value::Null, share_json);
    let end = view.from + shown;
    let next = if end < view.total && shown > 0 { json!(end) } else { Value::Null };
    format!(
        "{{\"nowUnixMillis\":{},\"from\":{},\"total\":{},\"next\":{next},\"share\":{share},\"jobs\":{},\"lists\":{},\
         \"targets\":[{targets}]}}\n",
        view.now_unix_millis,
        view.from,
        view.total,
        Value::Array(jobs),
        Value::Array(lists)
    )
}

/// Returns a time, or null if there is none.
fn time_json(unix_millis: u64) -> Value {
    if unix_millis == 0 { Value::Null } else { json!(unix_millis) }
}

/// Returns a text, or null if it is empty.
fn text_json(text: &str) -> Value {
    if text.is_empty() { Value::Null } else { json!(text) }
}

fn share_json(share: &ShareView) -> Value {
    let ShareView { read, version, entries, fault } = share;
    json!({"read": read, "version": version, "entries": entries, "error": text_json(fault)})
}

fn job_json(job: &JobView) -> Value {
    let JobView { name, up, down, unknown, dropped } = job;
    json!({
        "name": name,
        "up": up,
        "down": down,
        "unknown": unknown,
        "dropped": {
            "relabeled": dropped.relabeled,
            "duplicate": dropped.duplicate,
            "over": dropped.over_limit,
            "invalid": dropped.invalid,
            "example": text_json(&dropped.example),
        },
    })
}

fn list_json(list: &ListView) -> Value {
    let ListView { job, source, read_unix_millis, targets, error } = list;
    json!({
        "job": job,
        "source": source,
        "readUnixMillis": time_json(*read_unix_millis),
        "targets": targets,
        "error": text_json(error),
    })
}

fn target_json(target: &TargetView) -> Value {
    let TargetView { job, url, labels, last } = target;
    let labels: serde_json::Map<_, _> =
        labels.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    let is_scraped = last.began_unix_millis > 0;
    let if_scraped = |value: Value| if is_scraped { value } else { Value::Null };
    json!({
        "job": job,
        "url": url,
        "labels": labels,
        "state": last.state.as_str(),
        "scrapedUnixMillis": time_json(last.began_unix_millis),
        "durationSeconds": if_scraped(json!(last.duration_seconds)),
        "samples": if_scraped(json!(last.samples)),
        "series": if_scraped(json!(last.series)),
        "nextUnixMillis": time_json(last.next_unix_millis),
        "error": text_json(&last.error),
    })
}

#[cfg(test)]
mod tests;
