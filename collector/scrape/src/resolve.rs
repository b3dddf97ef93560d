//! What is scraped, of what was discovered: a job's settings and a target's labels become an
//! address, a path, times and labels, by the job's rules, as Prometheus does it.
//!
//! Labels that begin with `__` say how a target is scraped (`__address__`, `__scheme__`,
//! `__metrics_path__`, `__param_NAME`, `__scrape_interval__`, `__scrape_timeout__`), or are known
//! to rules alone (`__meta_...`). None of them is part of a point.

use std::time::Duration;

use crate::duration;
use crate::relabel::{Labels, Rules, Scratch, TooLong};

/// The shortest and the longest time between scrapes.
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

/// How a target is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Scheme {
    /// Without TLS.
    #[default]
    Http,
    /// With TLS.
    Https,
}

impl Scheme {
    /// Its name in a URL.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// The port of an address that names none.
    #[must_use]
    pub const fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// What a job's settings say of all its targets, before rules.
#[derive(Debug, Clone, Copy)]
pub struct Defaults<'a> {
    /// The job's name.
    pub job: &'a str,
    /// How its targets are spoken to.
    pub scheme: Scheme,
    /// The path, with a query if there is one.
    pub path: &'a str,
    /// Parameters of the query.
    pub parameters: &'a [(String, Vec<String>)],
    /// The time from one scrape to the next.
    pub interval: Duration,
    /// The time for a scrape.
    pub timeout: Duration,
    /// The job's rules for targets.
    pub rules: &'a Rules,
}

/// A target as it is scraped.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Resolved {
    /// `job` of its points.
    pub job: String,
    /// `instance` of its points.
    pub instance: String,
    /// How it is spoken to.
    pub scheme: Scheme,
    /// The host's name or address, IPv6 in brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The path and its query, as they stand in a request.
    pub path: String,
    /// The time from one scrape to the next.
    pub interval: Duration,
    /// The time for a scrape.
    pub timeout: Duration,
    /// All other labels of its points, by name.
    pub labels: Vec<(String, String)>,
}

/// A target that can't be scraped as its labels say.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("target `{target}`, label `{label}`: {fault}")]
pub struct TargetError {
    /// Its address as it was discovered.
    pub target: String,
    /// The label that can't be used.
    pub label: String,
    /// What is wrong with it.
    pub fault: TargetFault,
}

/// What is wrong with a label of a target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetFault {
    /// No address.
    #[error("it is missing: discovery or a rule must set it")]
    Missing,
    /// An address with a path, without a host, with a port that is none.
    #[error("`{0}` is no address: write host:port, IPv6 in brackets")]
    Address(String),
    /// A scheme that isn't known.
    #[error("`{0}` is no scheme: write http or https")]
    Scheme(String),
    /// A time that can't be read.
    #[error("`{0}` is no time: write a number and a unit, as in 30s or 1m30s")]
    Time(String),
    /// A time out of bounds.
    #[error("`{0}` is out of bounds: write 1s to 1h")]
    Interval(String),
    /// A time-out of nothing, or over the interval.
    #[error("`{0}` is out of bounds: write more than nothing, and the interval at most")]
    Timeout(String),
    /// A label without a name.
    #[error("a rule made a label without a name")]
    Name,
    /// Too long labels.
    #[error(transparent)]
    TooLong(#[from] TooLong),
}

/// Makes a target of what was discovered: its labels, among them `__address__`. `discovered` holds
/// the labels after the rules then. None: a rule dropped it.
///
/// # Errors
/// It can't be scraped as its labels say.
pub fn resolve(
    defaults: &Defaults<'_>,
    discovered: &mut Labels,
    scratch: &mut Scratch,
) -> Result<Option<Resolved>, TargetError> {
    let target = discovered.get(ADDRESS).to_owned();
    let fault = |label: &str, fault: TargetFault| TargetError {
        target: target.clone(),
        label: label.to_owned(),
        fault,
    };
    put_defaults(defaults, discovered);
    let is_kept = defaults.rules.apply(discovered, scratch);
    if !is_kept.map_err(|error| fault(ADDRESS, error.into()))? {
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
        let time = duration::parse(text);
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
    Ok(Some(Resolved {
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

/// Adds what the settings say where discovery says nothing.
fn put_defaults(defaults: &Defaults<'_>, labels: &mut Labels) {
    let Defaults { job, scheme, path, parameters, interval, timeout, rules: _ } = defaults;
    let (interval, timeout) = (duration::text(*interval), duration::text(*timeout));
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

/// A host, and its port or the scheme's.
fn host_and_port(address: &str, scheme: Scheme) -> Option<(&str, u16)> {
    let colon = match address.rfind(']') {
        Some(bracket) => address[bracket..].find(':').map(|colon| bracket + colon),
        None => address.find(':'),
    };
    let (host, port) = match colon {
        Some(colon) => (&address[..colon], address[colon + 1..].parse().ok()?),
        None => (address, scheme.port()),
    };
    let is_bracketed = host.starts_with('[') && host.ends_with(']') && host.len() > 2;
    let is_name = !host.is_empty() && !host.contains([':', '[', ']']);
    let is_plain = host.bytes().all(|byte| byte.is_ascii_graphic() && !b"/?#@\\".contains(&byte));
    let is_host = is_plain && (is_bracketed || is_name);
    (is_host && port > 0).then_some((host, port))
}

/// The path, with a slash before it, and the query: what the path has of it, then parameters by
/// name. A label stands for the first value of its parameter.
fn path_and_query(labels: &Labels, parameters: &[(String, Vec<String>)]) -> String {
    let path = labels.get(PATH);
    let mut out = String::with_capacity(path.len() + 1);
    if !path.starts_with('/') {
        out.push('/');
    }
    for byte in path.bytes() {
        let is_kept = byte.is_ascii_alphanumeric() || b"/?&=%$+,:;@-_.~!*'()".contains(&byte);
        put_byte(&mut out, byte, is_kept);
    }
    let mut query: Vec<(&str, &str)> = Vec::new();
    for (name, value) in labels.iter() {
        if let Some(name) = name.strip_prefix(PARAMETER) {
            query.push((name, value));
        }
    }
    for (name, values) in parameters {
        // A rule may have removed the label: the settings' first value stays then, as in
        // Prometheus.
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

/// Writes a part of a query.
fn put_escaped(out: &mut String, text: &str) {
    for byte in text.bytes() {
        match byte {
            b' ' => out.push('+'),
            _ => put_byte(out, byte, byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte)),
        }
    }
}

fn put_byte(out: &mut String, byte: u8, is_kept: bool) {
    if is_kept {
        out.push(char::from(byte));
    } else {
        out.push_str(&format!("%{byte:02X}"));
    }
}

#[cfg(test)]
#[path = "../tests/unit/resolve.rs"]
mod tests;
