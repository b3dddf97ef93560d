//! Jobs pasted from a Prometheus file: `scrape_configs` as they stand there become jobs as they
//! stand here. What isn't supported is refused with its line, its field and what to do.
//!
//! [`FIELDS`] is the list of all that is taken beside a proxy's fields: any other field of a job is
//! refused. The text may be the list alone or a document with `scrape_configs` and `global`.
//!
//! # Limits
//! The text is part of the settings' document, whose length is bounded; at most
//! [`PROBLEMS_MAX`] problems are named.

mod access;
mod read;

use serde_norway::Value;

use crate::lines::Lines;
use crate::{Authorization, ByteSize, HttpTargets, RelabelAction, RelabelRule, Scheme, ScrapeJob};
use access::{ProxyFields, authorization, basic_auth, oauth2, tls};
use read::Reader;

/// Most problems of one text: people read the first ones.
const PROBLEMS_MAX: usize = 32;

/// Prometheus' own interval and time-out.
const INTERVAL_SECONDS: u32 = 60;
const TIMEOUT_SECONDS: u32 = 10;

/// Takes a field's value into a job.
type Take = fn(&mut Reader, &mut Pasted, &str, &Value);

/// A job that is being read, and times that are said apart.
#[derive(Default)]
struct Pasted {
    job: ScrapeJob,
    interval: Option<u32>,
    timeout: Option<u32>,
    proxy: ProxyFields,
    groups: Vec<Group>,
}

/// Targets with labels of their own.
struct Group {
    targets: Vec<String>,
    labels: Vec<(String, String)>,
}

/// Fields of a `scrape_config`, and what becomes of each.
const FIELDS: &[(&str, Take)] = &[
    ("job_name", |r, to, at, it| to.job.name = r.text(at, it)),
    ("scrape_interval", |r, to, at, it| to.interval = r.seconds(at, it)),
    ("scrape_timeout", |r, to, at, it| to.timeout = r.seconds(at, it)),
    ("metrics_path", |r, to, at, it| to.job.path = r.text(at, it)),
    ("scheme", |r, to, at, it| match r.text(at, it).as_str() {
        "http" => to.job.scheme = Scheme::Http,
        "https" => to.job.scheme = Scheme::Https,
        _ => r.refuse(at, "write http or https"),
    }),
    ("params", |r, to, at, it| {
        to.job.params = r.map(at, it, |r, at, it| r.list(at, it, Reader::text));
    }),
    ("honor_labels", |r, to, at, it| to.job.honor_labels = r.flag(at, it)),
    ("honor_timestamps", |r, to, at, it| to.job.honor_timestamps = r.flag(at, it)),
    ("follow_redirects", |r, to, at, it| to.job.follow_redirects = r.flag(at, it)),
    ("scrape_native_histograms", |r, to, at, it| {
        to.job.native_histograms = r.flag(at, it);
    }),
    ("body_size_limit", |r, to, at, it| {
        let bytes = r.bytes(at, it).filter(|bytes| *bytes > 0);
        to.job.limits.body_bytes = bytes.map_or(to.job.limits.body_bytes, ByteSize::bytes);
    }),
    ("sample_limit", |r, to, at, it| {
        to.job.limits.samples = r.limit(at, it).unwrap_or(to.job.limits.samples);
    }),
    ("label_limit", |r, to, at, it| {
        to.job.limits.labels = r.limit(at, it).unwrap_or(to.job.limits.labels);
    }),
    ("static_configs", |r, to, at, it| to.groups = r.list(at, it, group)),
    ("file_sd_configs", |r, to, at, it| to.job.files = r.list(at, it, files).concat()),
    ("http_sd_configs", |r, to, at, it| to.job.http = r.list(at, it, http)),
    ("relabel_configs", |r, to, at, it| to.job.relabel = r.list(at, it, rule)),
    ("metric_relabel_configs", |r, to, at, it| to.job.metric_relabel = r.list(at, it, rule)),
    ("tls_config", |r, to, at, it| to.job.tls = Some(tls(r, at, it))),
    ("basic_auth", |r, to, at, it| to.job.basic_auth = Some(basic_auth(r, at, it))),
    ("authorization", |r, to, at, it| to.job.authorization = authorization(r, at, it)),
    ("oauth2", |r, to, at, it| to.job.oauth2 = oauth2(r, at, it)),
    ("bearer_token_file", |r, to, at, it| {
        let file = r.parsed(at, it);
        to.job.authorization = file.map(|credentials_file| Authorization {
            r#type: "Bearer".to_owned(),
            credentials_file,
        });
    }),
];

/// The jobs of a pasted text, or what is wrong with it.
pub(crate) fn jobs(text: &str) -> Result<Vec<ScrapeJob>, Vec<String>> {
    let document: Value =
        serde_norway::from_str(text).map_err(|error| vec![format!("it is no YAML: {error}")])?;
    let mut reader = Reader::new(Lines::of(text));
    let mut usual = Pasted::default();
    let mut jobs = Vec::new();
    if document.is_sequence() {
        jobs = reader.list("", &document, |r, at, it| job(r, at, it, &usual));
    } else {
        // `global` holds for all jobs, wherever it stands.
        let mut list = None;
        reader.fields("", &document, |r, name, at, it| match name {
            "global" => r.fields(at, it, |r, name, at, it| match name {
                "scrape_interval" => usual.interval = r.seconds(at, it),
                "scrape_timeout" => usual.timeout = r.seconds(at, it),
                _ => {
                    r.refuse(at, "leave it out: only scrape_interval and scrape_timeout are taken")
                }
            }),
            "scrape_configs" => list = Some((at.to_owned(), it.clone())),
            _ => r.refuse(at, "leave it out: only global and scrape_configs are taken"),
        });
        if let Some((at, list)) = list {
            jobs = reader.list(&at, &list, |r, at, it| job(r, at, it, &usual));
        }
    }
    let problems = reader.problems(PROBLEMS_MAX);
    match (problems.is_empty(), jobs.is_empty()) {
        (false, _) => Err(problems),
        (true, true) => Err(vec!["it has no job: paste scrape_configs, or its list".to_owned()]),
        (true, false) => Ok(jobs),
    }
}

fn job(reader: &mut Reader, at: &str, written: &Value, usual: &Pasted) -> ScrapeJob {
    let mut pasted = Pasted::default();
    reader.fields(at, written, |r, name, at, it| {
        match FIELDS.iter().find(|(known, _)| *known == name) {
            Some((_, take)) => take(r, &mut pasted, at, it),
            None => {
                if !pasted.proxy.take(r, name, at, it) {
                    r.refuse(at, advice(name));
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
    pasted.job.proxy = pasted.proxy.whole();
    pasted.job
}

/// What to do about a field that isn't taken.
fn advice(name: &str) -> &'static str {
    match name {
        name if name.ends_with("_sd_configs") => {
            "there is no such discovery: write static_configs, file_sd_configs or http_sd_configs"
        }
        "proxy_from_environment" => "the collector's environment names no proxy: write proxy_url",
        "proxy_connect_header" => "a proxy gets no further headers: leave it out",
        "bearer_token" => "a secret must be in a file: write authorization.credentials_file",
        "scrape_protocols" | "fallback_scrape_protocol" | "enable_compression" => {
            "leave it out: the format and compression are the target's to choose"
        }
        _ => "it isn't supported: leave it out",
    }
}

fn group(reader: &mut Reader, at: &str, written: &Value) -> Group {
    let mut group = Group { targets: Vec::new(), labels: Vec::new() };
    reader.fields(at, written, |r, name, at, it| match name {
        "targets" => group.targets = r.list(at, it, Reader::text),
        "labels" => group.labels = r.map(at, it, Reader::text).into_iter().collect(),
        _ => r.refuse(at, "write targets and labels"),
    });
    group
}

/// Targets of all groups. Labels that not all targets have, or that say how one is scraped, become
/// rules that stand first.
fn put_groups(reader: &mut Reader, at: &str, pasted: &mut Pasted) {
    let Pasted { job, groups, .. } = pasted;
    let (mut rules, is_one) = (Vec::new(), groups.len() == 1);
    for (place, Group { targets, labels }) in groups.drain(..).enumerate() {
        let at = format!("{at}.static_configs[{place}].targets");
        for (place, target) in targets.iter().enumerate() {
            match target.parse() {
                Ok(target) => job.targets.push(target),
                Err(error) => reader.refuse(&format!("{at}[{place}]"), &format!("{error}")),
            }
        }
        for (name, value) in labels.into_iter().filter(|(_, value)| !value.is_empty()) {
            let is_plain = !name.starts_with("__") && name != "job" && name != "instance";
            if is_one && is_plain {
                job.labels.insert(name, value);
                continue;
            }
            let escaped: Vec<_> = targets.iter().map(|target| escaped(target)).collect();
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
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for one in text.chars() {
        if one.is_ascii_punctuation() && !"_:-".contains(one) {
            out.push('\\');
        }
        out.push(one);
    }
    out
}

fn files(reader: &mut Reader, at: &str, written: &Value) -> Vec<String> {
    let mut files = Vec::new();
    reader.fields(at, written, |r, name, at, it| match name {
        "files" => files = r.list(at, it, Reader::text),
        // Files are read when they change.
        "refresh_interval" => drop(r.seconds(at, it)),
        _ => r.refuse(at, "write files"),
    });
    files
}

fn http(reader: &mut Reader, at: &str, written: &Value) -> HttpTargets {
    let mut list = HttpTargets::default();
    reader.fields(at, written, |r, name, at, it| match name {
        "url" => list.url = r.text(at, it),
        "refresh_interval" => {
            list.refresh_seconds = r.seconds(at, it).unwrap_or(list.refresh_seconds);
        }
        _ => r.refuse(at, "lists are asked for as targets are: leave it out"),
    });
    list
}

fn rule(reader: &mut Reader, at: &str, written: &Value) -> RelabelRule {
    let mut rule = RelabelRule::default();
    reader.fields(at, written, |r, name, at, it| match name {
        "source_labels" => rule.source_labels = r.list(at, it, Reader::text),
        "separator" => rule.separator = r.text(at, it),
        "regex" => rule.regex = r.text(at, it),
        "modulus" => rule.modulus = r.parsed(at, it).unwrap_or_default(),
        "replacement" => rule.replacement = r.text(at, it),
        "target_label" => rule.target_label = r.text(at, it),
        "action" => {
            let text = r.text(at, it).to_ascii_lowercase();
            let action = RelabelAction::ALL.into_iter().find(|action| action.as_str() == text);
            match action {
                Some(action) => rule.action = action,
                None => r.refuse(at, "there is no such action"),
            }
        }
        _ => r.refuse(at, "a rule has no such field"),
    });
    rule
}

#[cfg(test)]
#[path = "../tests/unit/pasted.rs"]
mod tests;
