//! Resolves a discovered target: a job's settings, its rules and the target's labels determine an
//! address, a path, times and labels, as in Prometheus.
//!
//! Labels that begin with `__` determine how a target is scraped (`__address__`, `__scheme__`,
//! `__metrics_path__`, `__param_NAME`, `__scrape_interval__`, `__scrape_timeout__`), or are visible
//! only to rules (`__meta_...`). None of them is part of a point.

use std::time::Duration;

use crate::duration;
use crate::relabel::{LabelSet, RelabelScratch, Rules, TooLong};

/// The range of scrape intervals.
const INTERVALS: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(3600);

const ADDRESS: &str = "__address__";
const SCHEME: &str = "__scheme__";
const PATH: &str = "__metrics_path__";
const INTERVAL: &str = "__scrape_interval__";
const TIMEOUT: &str = "__scrape_timeout__";
const PARAMETER: &str = "__param_";
const INNER: &str = "__";
const JOB: &str = "job";
const INSTANCE: &str = "instance";

/// The scheme of a target's URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Scheme {
    /// HTTP without TLS.
    #[default]
    Http,
    /// HTTP with TLS.
    Https,
}

impl Scheme {
    /// Returns its name in a URL.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// Returns the port of an address without one.
    #[must_use]
    pub const fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// A job's settings for all its targets, before rules.
#[derive(Debug, Clone, Copy)]
pub struct Defaults<'a> {
    /// The job's name.
    pub job: &'a str,
    /// The scheme of its targets.
    pub scheme: Scheme,
    /// The path, with an optional query.
    pub path: &'a str,
    /// The parameters of the query.
    pub parameters: &'a [(String, Vec<String>)],
    /// The interval of scrapes.
    pub interval: Duration,
    /// The time-out of a scrape.
    pub timeout: Duration,
    /// The job's rules for targets.
    pub rules: &'a Rules,
}

/// A target as it is scraped.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ResolvedTarget {
    /// `job` of its points.
    pub job: String,
    /// `instance` of its points.
    pub instance: String,
    /// Its scheme.
    pub scheme: Scheme,
    /// The host's name or address, IPv6 in brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The path and query, escaped for a request.
    pub path: String,
    /// The interval of scrapes.
    pub interval: Duration,
    /// The time-out of a scrape.
    pub timeout: Duration,
    /// All other labels of its points, by name.
    pub labels: Vec<(String, String)>,
}

/// A target whose labels are invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("target `{target}`, label `{label}`: {fault}")]
pub struct TargetError {
    /// Its discovered address.
    pub target: String,
    /// The invalid label.
    pub label: String,
    /// The fault.
    pub fault: TargetFault,
}

/// The fault of a target's label.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetFault {
    /// The address is missing.
    #[error("missing: discovery or a rule must set it")]
    Missing,
    /// The address has a path, no host, or an invalid port.
    #[error("`{0}` is not an address: use host:port, with IPv6 in brackets")]
    Address(String),
    /// The scheme is unknown.
    #[error("`{0}` is not a scheme: use http or https")]
    Scheme(String),
    /// The duration is malformed.
    #[error("`{0}` is not a duration: use a number and a unit, as in 30s or 1m30s")]
    Time(String),
    /// The interval is out of bounds.
    #[error("`{0}` is out of range: use 1s to 1h")]
    Interval(String),
    /// The time-out is zero or longer than the interval.
    #[error("`{0}` is out of range: use more than 0 and at most the interval")]
    Timeout(String),
    /// A label has no name.
    #[error("a rule created a label without a name")]
    Name,
    /// The labels are too long.
    #[error(transparent)]
    TooLong(#[from] TooLong),
}

/// Resolves a target from its discovered labels, including `__address__`. `discovered` has the
/// labels after the rules then. Returns `None` if a rule dropped it.
///
/// # Errors
/// A label is invalid.
pub fn resolve_target(
    defaults: &Defaults<'_>,
    discovered: &mut LabelSet,
    scratch: &mut RelabelScratch,
) -> Result<Option<ResolvedTarget>, TargetError> {
    let target = discovered.get(ADDRESS).to_owned();
    let fault = |label: &str, fault: TargetFault| TargetError {
        target: target.clone(),
        label: label.to_owned(),
        fault,
    };
    put_defaults(defaults, discovered);
    let is_accepted = defaults.rules.apply(discovered, scratch);
    if !is_accepted.map_err(|error| fault(ADDRESS, error.into()))? {
        return Ok(None);
    }
    let labels = &*discovered;
    let scheme = match labels.get(SCHEME) {
        "http" => Scheme::Http,
        "https" => Scheme::Https,
        other => return Err(fault(SCHEME, TargetFault::Scheme(other.to_owned()))),
    };
    let address = labels.get(ADDRESS);
    if address.is_empty() {
        return Err(fault(ADDRESS, TargetFault::Missing));
    }
    let (host, port) = host_and_port(address, scheme)
        .ok_or_else(|| fault(ADDRESS, TargetFault::Address(address.to_owned())))?;
    let time = |label| {
        let text = labels.get(label);
        let time = duration::parse_duration(text);
        time.ok_or_else(|| fault(label, TargetFault::Time(text.to_owned())))
    };
    let (interval, timeout) = (time(INTERVAL)?, time(TIMEOUT)?);
    if !INTERVALS.contains(&interval) {
        return Err(fault(INTERVAL, TargetFault::Interval(labels.get(INTERVAL).to_owned())));
    }
    if timeout.is_zero() || timeout > interval {
        return Err(fault(TIMEOUT, TargetFault::Timeout(labels.get(TIMEOUT).to_owned())));
    }
    if labels.iter().any(|(name, _)| name.is_empty()) {
        return Err(fault("", TargetFault::Name));
    }
    let instance = Some(labels.get(INSTANCE)).filter(|it| !it.is_empty()).unwrap_or(address);
    let is_own = |name: &str| !name.starts_with(INNER) && name != JOB && name != INSTANCE;
    let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    Ok(Some(ResolvedTarget {
        job: labels.get(JOB).to_owned(),
        instance: instance.to_owned(),
        scheme,
        host: host.to_owned(),
        port,
        path: path_and_query(labels, defaults.parameters),
        interval,
        timeout,
        labels: labels.iter().filter(|(name, _)| is_own(name)).map(owned).collect(),
    }))
}

/// Adds the settings' values of labels that discovery didn't set.
fn put_defaults(defaults: &Defaults<'_>, labels: &mut LabelSet) {
    let Defaults { job, scheme, path, parameters, interval, timeout, rules: _ } = defaults;
    let (interval, timeout) =
        (duration::render_duration(*interval), duration::render_duration(*timeout));
    for (name, value) in [
        (JOB, *job),
        (INTERVAL, &interval),
        (TIMEOUT, &timeout),
        (PATH, path),
        (SCHEME, scheme.as_str()),
    ] {
        if labels.get(name).is_empty() {
            labels.push(name, value);
        }
    }
    for (name, values) in *parameters {
        let name = format!("{PARAMETER}{name}");
        if let (Some(value), "") = (values.first(), labels.get(&name)) {
            labels.push(&name, value);
        }
    }
}

/// Parses a host, and its port or the scheme's.
fn host_and_port(address: &str, scheme: Scheme) -> Option<(&str, u16)> {
    let colon = match address.rfind(']') {
        Some(bracket) => address[bracket..].find(':').map(|colon| bracket + colon),
        None => address.find(':'),
    };
    let (host, port) = match colon {
        Some(colon) => (&address[..colon], address[colon + 1..].parse().ok()?),
        None => (address, scheme.default_port()),
    };
    let is_bracketed = host.starts_with('[') && host.ends_with(']') && host.len() > 2;
    let is_name = !host.is_empty() && !host.contains([':', '[', ']']);
    let is_plain = host.bytes().all(|byte| byte.is_ascii_graphic() && !b"/?#@\\".contains(&byte));
    let is_host = is_plain && (is_bracketed || is_name);
    (is_host && port > 0).then_some((host, port))
}

/// Returns the path, with a leading slash, and the query: the path's own, then parameters by name.
/// A label replaces the first value of its parameter.
fn path_and_query(labels: &LabelSet, parameters: &[(String, Vec<String>)]) -> String {
    let path = labels.get(PATH);
    let mut out = String::with_capacity(path.len() + 1);
    if !path.starts_with('/') {
        out.push('/');
    }
    for byte in path.bytes() {
        let is_literal = byte.is_ascii_alphanumeric() || b"/?&=%$+,:;@-_.~!*'()".contains(&byte);
        put_byte(&mut out, byte, is_literal);
    }
    let mut query: Vec<(&str, &str)> = Vec::new();
    for (name, value) in labels.iter() {
        if let Some(name) = name.strip_prefix(PARAMETER) {
            query.push((name, value));
        }
    }
    for (name, values) in parameters {
        // If a rule removed the label, the settings' first value applies, as in Prometheus.
        let has_label = query.iter().any(|(known, _)| known == name);
        let rest = values.iter().skip(usize::from(has_label));
        query.extend(rest.map(|value| (name.as_str(), value.as_str())));
    }
    query.sort_by_key(|(name, _)| *name);
    for (name, value) in query {
        out.push(if out.contains('?') { '&' } else { '?' });
        put_escaped(&mut out, name);
        out.push('=');
        put_escaped(&mut out, value);
    }
    out
}

/// Writes a part of a query, escaped.
fn put_escaped(out: &mut String, text: &str) {
    for byte in text.bytes() {
        match byte {
            b' ' => out.push('+'),
            _ => put_byte(out, byte, byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte)),
        }
    }
}

fn put_byte(out: &mut String, byte: u8, is_literal: bool) {
    if is_literal {
        out.push(char::from(byte));
    } else {
        out.push_str(&format!("%{byte:02X}"));
    }
}

#[cfg(test)]
mod tests;
