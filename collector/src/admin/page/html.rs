//! Renders the page's HTML from figures. Pure: no clock, no I/O. Everything but this file's
//! literals is escaped, since a reason may contain a server's answer.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::Duration;

use millrace_pipeline::figures::{Figure, MetricsSnapshot};
use millrace_wire::Signal;

use super::{Earlier, ProcessState, View};

/// The page's reload interval, in seconds.
const RELOAD_SECONDS: u32 = 2;

/// Partitions shown, those with the oldest records first.
const PARTITIONS_MAX: usize = 20;

/// Counters that are zero in a healthy process, and what they mean.
const TROUBLES: [(&str, &str); 10] = [
    ("millrace_records_refused_total", "records refused with an error that their clients received"),
    ("millrace_records_dead_lettered_total", "records written to the dead-letter topic"),
    ("millrace_records_lost_to_retention_total", "messages that Kafka deleted unread: lost"),
    ("millrace_files_lost_bytes_total", "bytes of log files deleted unread: lost"),
    ("millrace_files_cut_total", "records of log files cut at maxLineBytes"),
    ("millrace_files_damaged_total", "compressed log files that could not be read"),
    ("millrace_produce_failures_total", "messages that Kafka did not confirm"),
    ("millrace_insert_retries_total", "retried inserts"),
    ("millrace_inserts_unverified_total", "inserts that no row count confirms"),
    ("millrace_connections_closed_total", "client connections closed by the collector"),
];

pub(super) const STYLE: &str = "\
:root{color-scheme:light dark}\
body{font:16px/1.45 system-ui,sans-serif;max-width:60rem;margin:auto;padding:1rem}\
h1{font-size:1.3rem}h2{font-size:1.05rem;margin-top:1.8rem}\
.path{display:flex;flex-wrap:wrap;align-items:center;gap:.6rem;padding:0;list-style:none}\
.path li{border:1px solid;border-radius:.4rem;padding:.5rem .8rem}\
.path li.flow{border:0;padding:0;font-variant-numeric:tabular-nums}\
table{border-collapse:collapse;width:100%}\
.wide{overflow-x:auto}\
th,td{text-align:left;padding:.25rem .8rem .25rem 0;border-bottom:1px solid #8884}\
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}\
.bad{border-left:.3rem solid #c33;padding-left:.6rem}\
.good{border-left:.3rem solid #393;padding-left:.6rem}\
meter{width:100%}footer{margin-top:2rem;font-size:.9rem}\
@media(max-width:30rem){th,td{padding-right:.4rem;font-size:.85rem}}";

/// Returns the complete document.
pub(super) fn render_page(view: &View<'_>) -> String {
    let mut text = String::with_capacity(8 * 1024);
    let kind = view.path.kind;
    push(
        &mut text,
        format_args!(
            "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\">\
         <meta http-equiv=\"refresh\" content=\"{RELOAD_SECONDS}\">\
         <title>Millrace {kind}</title><style>{STYLE}</style></head>\n<body><main>\n\
         <h1>Millrace {kind}</h1>\n"
        ),
    );
    push_state(&mut text, &view.state);
    push_path(&mut text, view);
    push_signals(&mut text, view);
    push_troubles(&mut text, view.now);
    push_lag(&mut text, view.now);
    push_files(&mut text, view);
    push_targets(&mut text, view);
    push_process(&mut text, view);
    let rates = view.earlier.as_ref().map_or_else(
        || "Rates appear after the next refresh.".to_owned(),
        |earlier| format!("Rates are means of the last {:.0} s.", earlier.age.as_secs_f64()),
    );
    push(
        &mut text,
        format_args!(
            "<footer>{rates} Refreshes every {RELOAD_SECONDS} s. \
         <a href=\"/metrics\">metrics</a> <a href=\"/readyz\">readiness</a> \
         millrace-collector {}</footer>\n</main></body></html>\n",
            Escaped(view.version)
        ),
    );
    text
}

fn push_state(text: &mut String, state: &ProcessState) {
    let (class, title, lines) = match state {
        ProcessState::Ready(notes) => ("good", "Ready", notes.as_slice()),
        ProcessState::NotReady(reasons) => ("bad", "Not ready", reasons.as_slice()),
        ProcessState::Draining => (
            "bad",
            "Draining: no new requests are accepted; records in flight are delivered",
            &[][..],
        ),
    };
    push(text, format_args!("<div class=\"{class}\" role=\"status\"><strong>{title}</strong>"));
    for line in lines {
        push(text, format_args!("<br>{}", Escaped(line)));
    }
    text.push_str("</div>\n");
}

/// Renders three boxes, with the rates between them.
fn push_path(text: &mut String, view: &View<'_>) {
    let View { path, now, .. } = view;
    let flow = |name: &str| match view.rate_per_second(name) {
        Some(rate) => format!("{} records/s →", format_count(rate)),
        None => "→".to_owned(),
    };
    let held = now.sum("millrace_records_in_flight").unwrap_or(0.0);
    push(
        text,
        format_args!(
            "<h2>Path of records</h2>\n<ol class=\"path\"><li>{}</li><li class=\"flow\">{}</li>\
         <li><strong>this process</strong><br>{} records in flight</li><li class=\"flow\">{}</li>\
         <li>{}{}</li></ol>\n",
            Escaped(&path.from),
            flow("millrace_records_in_total"),
            format_count(held),
            flow("millrace_records_out_total"),
            path.to,
            response_time(view),
        ),
    );
}

/// Returns the next system's mean answer time since the earlier sample.
fn response_time(view: &View<'_>) -> String {
    let metric = match view.path.to {
        "Kafka" => "millrace_produce_duration_seconds",
        _ => "millrace_insert_duration_seconds",
    };
    let growth = |suffix: &str| view.counter_growth(&format!("{metric}{suffix}"));
    match (growth("_sum"), growth("_count")) {
        (Some(sum), Some(count)) if count > 0.0 => {
            format!("<br>answers in {:.0} ms", sum / count * 1_000.0)
        }
        _ => String::new(),
    }
}

fn push_signals(text: &mut String, view: &View<'_>) {
    text.push_str(
        "<div class=\"wide\"><table><thead><tr><th>signal</th><th class=\"n\">in/s</th>\
         <th class=\"n\">in</th><th class=\"n\">in flight</th><th class=\"n\">out/s</th>\
         <th class=\"n\">out</th></tr></thead><tbody>",
    );
    for signal in Signal::ALL.map(Signal::as_str) {
        let total = |name: &str| view.now.sum_where(name, "signal", signal);
        let rate = |name: &str| view.rate_of(name, signal).map_or("–".to_owned(), format_count);
        push(
            text,
            format_args!(
                "<tr><th>{signal}</th><td class=\"n\">{}</td><td class=\"n\">{}</td>\
             <td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>",
                rate("millrace_records_in_total"),
                format_count(total("millrace_records_in_total")),
                format_count(total("millrace_records_in_flight")),
                rate("millrace_records_out_total"),
                format_count(total("millrace_records_out_total")),
            ),
        );
    }
    text.push_str("</tbody></table></div>\n");
}

fn push_troubles(text: &mut String, now: &MetricsSnapshot) {
    text.push_str("<h2>Refused, set aside, lost</h2>\n");
    let start = text.len();
    for (name, meaning) in TROUBLES {
        for figure in now.of_name(name).filter(|figure| figure.value > 0.0) {
            let labels = figure.labels.iter().map(|(_, value)| value.as_str());
            push(
                text,
                format_args!(
                    "<tr><td class=\"n\">{}</td><td>{}</td><td>{meaning}</td></tr>",
                    format_count(figure.value),
                    Escaped(&labels.collect::<Vec<_>>().join(", ")),
                ),
            );
        }
    }
    if text.len() == start {
        text.push_str("<p>None since the start.</p>\n");
        return;
    }
    text.insert_str(start, "<div class=\"wide\"><table><tbody>");
    text.push_str("</tbody></table></div>\n");
}

/// Renders the partitions whose records have waited longest.
fn push_lag(text: &mut String, now: &MetricsSnapshot) {
    let ages = now.of_name("millrace_consumer_lag_seconds");
    let ages: HashMap<_, f64> = ages.map(|age| (&age.labels, age.value)).collect();
    let messages = now.of_name("millrace_consumer_lag_messages");
    let mut partitions: Vec<(f64, &Figure)> =
        messages.map(|figure| (ages.get(&figure.labels).copied().unwrap_or(0.0), figure)).collect();
    if partitions.is_empty() {
        return;
    }
    partitions.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let shown = partitions.len().min(PARTITIONS_MAX);
    push(
        text,
        format_args!(
            "<h2>Lag: {shown} of {} partitions</h2>\n<div class=\"wide\"><table><thead><tr>\
         <th>topic</th><th class=\"n\">partition</th><th class=\"n\">messages</th>\
         <th class=\"n\">seconds</th></tr></thead><tbody>",
            partitions.len()
        ),
    );
    for (seconds, figure) in &partitions[..shown] {
        push(
            text,
            format_args!(
                "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
             <td class=\"n\">{seconds:.1}</td></tr>",
                Escaped(figure.label_value("topic")),
                Escaped(figure.label_value("partition")),
                format_count(figure.value),
            ),
        );
    }
    text.push_str("</tbody></table></div>\n");
}

fn push_files(text: &mut String, view: &View<'_>) {
    let Some(known) = view.now.sum("millrace_files_known") else { return };
    let of = |name: &str| view.now.sum(name).unwrap_or(0.0);
    let rate = view.rate_per_second("millrace_files_read_bytes_total");
    push(
        text,
        format_args!(
            "<h2>Log files</h2>\n<p>{} known, {} open; {} unread or unconfirmed; {} read.</p>\n",
            format_count(known),
            format_count(of("millrace_files_open")),
            format_bytes(of("millrace_files_behind_bytes")),
            rate.map_or("–".to_owned(), |rate| format!("{}/s", format_bytes(rate))),
        ),
    );
}

fn push_targets(text: &mut String, view: &View<'_>) {
    let Some(targets) = view.now.sum("millrace_scrape_targets") else { return };
    let of = |name: &str| view.now.sum(name).unwrap_or(0.0);
    push(
        text,
        format_args!(
            "<h2>Targets</h2>\n<p>{} scraped, {} of them up; {} lists can't be read. \
             <a href=\"/targets\">All targets</a></p>\n",
            format_count(targets),
            format_count(of("millrace_scrape_targets_up")),
            format_count(of("millrace_scrape_lists_failing")),
        ),
    );
}

fn push_process(text: &mut String, view: &View<'_>) {
    let of = |name: &str| view.now.sum(name).unwrap_or(0.0);
    let (used, limit) = (of("millrace_bytes_in_flight"), of("millrace_budget_bytes"));
    push(
        text,
        format_args!(
            "<h2>Process</h2>\n<p><label>Byte budget: {} of {} in use\
         <meter min=\"0\" max=\"{limit}\" value=\"{used}\">{used}</meter></label></p>\n",
            format_bytes(used),
            format_bytes(limit),
        ),
    );
    push(text, format_args!("<p>{} resident", format_bytes(of("process_resident_memory_bytes"))));
    if let Some(cores) = view.rate_per_second("process_cpu_seconds_total") {
        push(text, format_args!("; {cores:.2} cores"));
    }
    push(text, format_args!("; running for {}", format_elapsed(view.uptime)));
    if let Some(disk) = view.now.sum("millrace_buffer_bytes").filter(|disk| *disk > 0.0) {
        push(text, format_args!("; {} buffered on disk", format_bytes(disk)));
    }
    text.push_str("</p>\n");
}

impl View<'_> {
    /// Returns a counter's growth since the earlier sample.
    fn counter_growth(&self, name: &str) -> Option<f64> {
        let Earlier { figures, .. } = self.earlier.as_ref()?;
        Some((self.now.sum(name)? - figures.sum(name)?).max(0.0))
    }

    /// Returns a counter's growth per second.
    fn rate_per_second(&self, name: &str) -> Option<f64> {
        let seconds = self.earlier.as_ref()?.age.as_secs_f64();
        Some(self.counter_growth(name)? / seconds.max(f64::MIN_POSITIVE))
    }

    /// Returns the same for one signal.
    fn rate_of(&self, name: &str, signal: &str) -> Option<f64> {
        let Earlier { figures, age } = self.earlier.as_ref()?;
        let of = |figures: &MetricsSnapshot| figures.sum_where(name, "signal", signal);
        let growth = (of(self.now) - of(figures)).max(0.0);
        Some(growth / age.as_secs_f64().max(f64::MIN_POSITIVE))
    }
}

/// Returns a whole number with a comma at each thousand.
pub(super) fn format_count(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.char_indices() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn format_bytes(number: f64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut number = number;
    let mut unit = 0;
    while number >= 1_024.0 && unit + 1 < UNITS.len() {
        number /= 1_024.0;
        unit += 1;
    }
    let decimals = usize::from(unit > 0);
    format!("{number:.decimals$} {}", UNITS[unit])
}

/// Returns the two largest units of a time.
pub(super) fn format_elapsed(time: Duration) -> String {
    let seconds = time.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{minutes} min {} s", seconds % 60),
        3_600..86_400 => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

/// Text with all markup escaped.
pub(super) struct Escaped<'a>(pub(super) &'a str);

impl std::fmt::Display for Escaped<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.chars().try_for_each(|char| match char {
            '&' => out.write_str("&amp;"),
            '<' => out.write_str("&lt;"),
            '>' => out.write_str("&gt;"),
            '"' => out.write_str("&quot;"),
            '\'' => out.write_str("&#39;"),
            other => out.write_char(other),
        })
    }
}

pub(super) fn push(text: &mut String, words: std::fmt::Arguments<'_>) {
    // Writing into a String can't fail.
    let _ = text.write_fmt(words);
}
