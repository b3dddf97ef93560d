//! Jobs pasted from a Prometheus file: `scrape_configs` become jobs of the settings. Unsupported
//! fields are refused with their line, their path and what to do.
//!
//! [`FIELDS`] lists all accepted fields except a proxy's: any other field of a job is
//! refused. The text may be the list alone or a document with `scrape_configs` and `global`.
//!
//! # Limits
//! The text is part of the settings' document, whose length is bounded; at most
//! [`PROBLEMS_MAX`] problems are named.

mod access;
mod read;

use serde_norway::Value;

use crate::document::lines::Lines;
use crate::{Authorization, ByteSize, HttpTargets, RelabelAction, RelabelRule, Scheme, ScrapeJob};
use access::{ProxyFields, parse_authorization, parse_basic_auth, parse_oauth2, parse_tls};
use read::PastedReader;

/// Most problems of one text: people read the first ones.
const PROBLEMS_MAX: usize = 32;

/// Prometheus' own interval and time-out.
const INTERVAL_SECONDS: u32 = 60;
const TIMEOUT_SECONDS: u32 = 10;

/// Takes a field's value into a job.
type FieldReader = fn(&mut PastedReader, &mut PastedJob, &str, &Value);

/// A job that is being read, and times that are set separately.
#[derive(Default)]
struct PastedJob {
    job: ScrapeJob,
    interval: Option<u32>,
    timeout: Option<u32>,
    proxy: ProxyFields,
    groups: Vec<PastedGroup>,
}

/// Targets with labels of their own.
struct PastedGroup {
    targets: Vec<String>,
    labels: Vec<(String, String)>,
}

/// Fields of a `scrape_config`, and what becomes of each.
const FIELDS: &[(&str, FieldReader)] = &[
    ("job_name", |r, to, at, it| to.job.name = r.read_text(at, it)),
    ("scrape_interval", |r, to, at, it| to.interval = r.read_seconds(at, it)),
    ("scrape_timeout", |r, to, at, it| to.timeout = r.read_seconds(at, it)),
    ("metrics_path", |r, to, at, it| to.job.path = r.read_text(at, it)),
    ("scheme", |r, to, at, it| match r.read_text(at, it).as_str() {
        "http" => to.job.scheme = Scheme::Http,
        "https" => to.job.scheme = Scheme::Https,
        _ => r.refuse(at, "use http or https"),
    }),
    ("params", |r, to, at, it| {
        to.job.params =
            r.read_map(at, it, |r, at, it| r.read_list(at, it, PastedReader::read_text));
    }),
    ("honor_labels", |r, to, at, it| to.job.honor_labels = r.read_flag(at, it)),
    ("honor_timestamps", |r, to, at, it| to.job.honor_timestamps = r.read_flag(at, it)),
    ("follow_redirects", |r, to, at, it| to.job.follow_redirects = r.read_flag(at, it)),
    ("scrape_native_histograms", |r, to, at, it| {
        to.job.native_histograms = r.read_flag(at, it);
    }),
    ("body_size_limit", |r, to, at, it| {
        let bytes = r.read_bytes(at, it).filter(|bytes| *bytes > 0);
        to.job.limits.body_bytes = bytes.map_or(to.job.limits.body_bytes, ByteSize::bytes);
    }),
    ("sample_limit", |r, to, at, it| {
        to.job.limits.samples = r.read_limit(at, it).unwrap_or(to.job.limits.samples);
    }),
    ("label_limit", |r, to, at, it| {
        to.job.limits.labels = r.read_limit(at, it).unwrap_or(to.job.limits.labels);
    }),
    ("static_configs", |r, to, at, it| to.groups = r.read_list(at, it, parse_group)),
    ("file_sd_configs", |r, to, at, it| to.job.files = r.read_list(at, it, parse_files).concat()),
    ("http_sd_configs", |r, to, at, it| to.job.http = r.read_list(at, it, parse_http)),
    ("relabel_configs", |r, to, at, it| to.job.relabel = r.read_list(at, it, parse_rule)),
    ("metric_relabel_configs", |r, to, at, it| {
        to.job.metric_relabel = r.read_list(at, it, parse_rule)
    }),
    ("tls_config", |r, to, at, it| to.job.tls = Some(parse_tls(r, at, it))),
    ("basic_auth", |r, to, at, it| to.job.basic_auth = Some(parse_basic_auth(r, at, it))),
    ("authorization", |r, to, at, it| to.job.authorization = parse_authorization(r, at, it)),
    ("oauth2", |r, to, at, it| to.job.oauth2 = parse_oauth2(r, at, it)),
    ("bearer_token_file", |r, to, at, it| {
        let file = r.read_parsed(at, it);
        to.job.authorization = file.map(|credentials_file| Authorization {
            r#type: "Bearer".to_owned(),
            credentials_file,
        });
    }),
];

/// The jobs of a pasted text, or what is wrong with it.
pub(crate) fn parse_jobs(text: &str) -> Result<Vec<ScrapeJob>, Vec<String>> {
    let document: Value =
        serde_norway::from_str(text).map_err(|error| vec![format!("not valid YAML: {error}")])?;
    let mut reader = PastedReader::new(Lines::from_text(text));
    let mut usual = PastedJob::default();
    let mut jobs = Vec::new();
    if document.is_sequence() {
        jobs = reader.read_list("", &document, |r, at, it| parse_job(r, at, it, &usual));
    } else {
        // `global` applies to all jobs, wherever it appears.
        let mut list = None;
        reader.read_fields("", &document, |r, name, at, it| match name {
            "global" => r.read_fields(at, it, |r, name, at, it| match name {
                "scrape_interval" => usual.interval = r.read_seconds(at, it),
                "scrape_timeout" => usual.timeout = r.read_seconds(at, it),
                _ => {
                    r.refuse(at, "remove it: only scrape_interval and scrape_timeout are supported")
                }
            }),
            "scrape_configs" => list = Some((at.to_owned(), it.clone())),
            _ => r.refuse(at, "remove it: only global and scrape_configs are supported"),
        });
        if let Some((at, list)) = list {
            jobs = reader.read_list(&at, &list, |r, at, it| parse_job(r, at, it, &usual));
        }
    }
    let problems = reader.into_problems(PROBLEMS_MAX);
    match (problems.is_empty(), jobs.is_empty()) {
        (false, _) => Err(problems),
        (true, true) => Err(vec!["no job found: paste scrape_configs, or its list".to_owned()]),
        (true, false) => Ok(jobs),
    }
}

fn parse_job(reader: &mut PastedReader, at: &str, written: &Value, usual: &PastedJob) -> ScrapeJob {
    let mut pasted = PastedJob::default();
    reader.read_fields(at, written, |r, name, at, it| {
        match FIELDS.iter().find(|(known, _)| *known == name) {
            Some((_, take)) => take(r, &mut pasted, at, it),
            None => {
                if !pasted.proxy.take_field(r, name, at, it) {
                    r.refuse(at, advice_for(name));
                }
            }
        }
    });
    let interval = pasted.interval.or(usual.interval).unwrap_or(INTERVAL_SECONDS);
    let timeout = pasted.timeout.or(usual.timeout);
    pasted.job.interval_seconds = interval;
    // As in Prometheus, where none is written.
    pasted.job.timeout_seconds = timeout.unwrap_or(TIMEOUT_SECONDS.min(interval));
    put_groups(reader, at, &mut pasted);
    pasted.job.proxy = pasted.proxy.into_proxy();
    pasted.job
}

/// What to do about a field that isn't taken.
fn advice_for(name: &str) -> &'static str {
    match name {
        name if name.ends_with("_sd_configs") => {
            "this discovery is not supported: use static_configs, file_sd_configs or \
             http_sd_configs"
        }
        "proxy_from_environment" => {
            "proxies from environment variables are not supported: use proxy_url"
        }
        "proxy_connect_header" => "additional headers for a proxy are not supported: remove it",
        "bearer_token" => "a secret must be in a file: use authorization.credentials_file",
        "scrape_protocols" | "fallback_scrape_protocol" | "enable_compression" => {
            "remove it: format and compression are negotiated with the target"
        }
        _ => "not supported: remove it",
    }
}

fn parse_group(reader: &mut PastedReader, at: &str, written: &Value) -> PastedGroup {
    let mut group = PastedGroup { targets: Vec::new(), labels: Vec::new() };
    reader.read_fields(at, written, |r, name, at, it| match name {
        "targets" => group.targets = r.read_list(at, it, PastedReader::read_text),
        "labels" => {
            group.labels = r.read_map(at, it, PastedReader::read_text).into_iter().collect()
        }
        _ => r.refuse(at, "only targets and labels are supported"),
    });
    group
}

/// Targets of all groups. Labels that not all targets have, or that set how one is scraped, become
/// rules that come first.
fn put_groups(reader: &mut PastedReader, at: &str, pasted: &mut PastedJob) {
    let PastedJob { job, groups, .. } = pasted;
    let (mut rules, is_one) = (Vec::new(), groups.len() == 1);
    for (index, PastedGroup { targets, labels }) in groups.drain(..).enumerate() {
        let at = format!("{at}.static_configs[{index}].targets");
        for (index, target) in targets.iter().enumerate() {
            match target.parse() {
                Ok(target) => job.targets.push(target),
                Err(error) => reader.refuse(&format!("{at}[{index}]"), &format!("{error}")),
            }
        }
        for (name, value) in labels.into_iter().filter(|(_, value)| !value.is_empty()) {
            let is_plain = !name.starts_with("__") && name != "job" && name != "instance";
            if is_one && is_plain {
                job.labels.insert(name, value);
                continue;
            }
            let escaped: Vec<_> = targets.iter().map(|target| escape_regex(target)).collect();
            rules.push(RelabelRule {
                source_labels: vec!["__address__".to_owned()],
                regex: escaped.join("|"),
                target_label: name,
                replacement: value.replace('$', "$$"),
                ..RelabelRule::default()
            });
        }
    }
    job.relabel.splice(0..0, rules);
}

/// A text as a regular expression.
fn escape_regex(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for one in text.chars() {
        if one.is_ascii_punctuation() && !"_:-".contains(one) {
            out.push('\\');
        }
        out.push(one);
    }
    out
}

fn parse_files(reader: &mut PastedReader, at: &str, written: &Value) -> Vec<String> {
    let mut files = Vec::new();
    reader.read_fields(at, written, |r, name, at, it| match name {
        "files" => files = r.read_list(at, it, PastedReader::read_text),
        // Files are read when they change.
        "refresh_interval" => drop(r.read_seconds(at, it)),
        _ => r.refuse(at, "only files and refresh_interval are supported"),
    });
    files
}

fn parse_http(reader: &mut PastedReader, at: &str, written: &Value) -> HttpTargets {
    let mut list = HttpTargets::default();
    reader.read_fields(at, written, |r, name, at, it| match name {
        "url" => list.url = r.read_text(at, it),
        "refresh_interval" => {
            list.refresh_seconds = r.read_seconds(at, it).unwrap_or(list.refresh_seconds);
        }
        _ => r.refuse(at, "lists are fetched with the job's own HTTP settings: remove it"),
    });
    list
}

fn parse_rule(reader: &mut PastedReader, at: &str, written: &Value) -> RelabelRule {
    let mut rule = RelabelRule::default();
    reader.read_fields(at, written, |r, name, at, it| match name {
        "source_labels" => rule.source_labels = r.read_list(at, it, PastedReader::read_text),
        "separator" => rule.separator = r.read_text(at, it),
        "regex" => rule.regex = r.read_text(at, it),
        "modulus" => rule.modulus = r.read_parsed(at, it).unwrap_or_default(),
        "replacement" => rule.replacement = r.read_text(at, it),
        "target_label" => rule.target_label = r.read_text(at, it),
        "action" => {
            let text = r.read_text(at, it).to_ascii_lowercase();
            let action = RelabelAction::ALL.into_iter().find(|action| action.as_str() == text);
            match action {
                Some(action) => rule.action = action,
                None => r.refuse(at, "unknown action"),
            }
        }
        _ => r.refuse(at, "unknown field of a relabeling rule"),
    });
    rule
}

#[cfg(test)]
mod tests;
