//! One endpoint of a monitor: a job, rules for its targets, and the source of targets.

use std::collections::{BTreeMap, BTreeSet};

use millrace_config::{ByteSize, RelabelRule, Scheme, ScrapeJob, ScrapeLimits};
use millrace_scrape::relabel::{Action, Rule, Rules};

use crate::monitor::access::{HasDraft, JobDraft};
use crate::monitor::fields::{
    MonitorField, MonitorReader, ignored, no_effect, read, refused, text_excerpt,
};
use crate::monitor::secrets::SecretUse;
use crate::selector::{Namespaces, Selector};

/// Maximum length of a job's name that collectors accept.
const JOB_CHARACTERS_MAX: usize = 256;

/// Maximum body that collectors accept.
const BODY_BYTES_MAX: u64 = 4 << 30;

/// Maximum samples of a scrape, and maximum labels, that collectors accept.
const SAMPLES_MAX: u64 = 10_000_000;
const LABELS_MAX: u64 = 128;

/// Maximum length of a path with all parameters.
const QUERY_BYTES_MAX: usize = 4096;
const PATH_BYTES_MAX: usize = 1024;

/// One endpoint.
#[derive(Clone, Debug)]
pub(crate) struct MonitorEndpoint {
    /// Its field in the monitor.
    pub(crate) at: String,
    /// The field of its rules for targets.
    pub(crate) rules_at: String,
    /// Its settings, except for times.
    pub(crate) job: ScrapeJob,
    pub(crate) interval: Option<u32>,
    pub(crate) timeout: Option<u32>,
    /// Rules for targets.
    pub(crate) rules: Rules,
    /// Which labels the rules can see.
    pub(crate) sees: VisibleLabels,
    pub(crate) source: EndpointSource,
    /// If there are more targets than this, none is scraped.
    pub(crate) target_limit: Option<u64>,
    /// Keys that it names, with the fields that name them.
    pub(crate) uses: Vec<(String, SecretUse)>,
}

/// A source of targets.
#[derive(Clone, Debug)]
pub(crate) enum EndpointSource {
    /// Pods.
    Pods { namespaces: Namespaces, selector: Selector, with_node: bool },
    /// Endpoints in the EndpointSlices of Services.
    Services { namespaces: Namespaces, selector: Selector, with_node: bool },
    /// Addresses that are written out, with labels.
    Static(Vec<(Vec<String>, BTreeMap<String, String>)>),
    /// Several of them.
    Several(Vec<EndpointSource>),
}

/// Labels that rules can see: discovery does not create meta labels that no rule names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum VisibleLabels {
    /// Any: a rule matches labels' names.
    All,
    /// These.
    Names(BTreeSet<String>),
}

impl VisibleLabels {
    pub(crate) fn from_rules(rules: &[Rule]) -> Self {
        let mut names = BTreeSet::new();
        for rule in rules {
            match rule.action {
                Action::LabelMap | Action::LabelDrop | Action::LabelKeep => return Self::All,
                Action::KeepEqual | Action::DropEqual => {
                    names.insert(rule.target_label.clone());
                }
                _ => {}
            }
            names.extend(rule.source_labels.iter().cloned());
        }
        Self::Names(names)
    }

    pub(crate) fn includes(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Names(names) => names.contains(name),
        }
    }
}

/// Fields of endpoints that concern their job.
pub(crate) const fn http_fields<T: HasDraft>() -> [MonitorField<T>; 5] {
    [
        read("path", |r, to, at, it| to.draft().job.path = read_path(r, at, it)),
        read("scheme", |r, to, at, it| to.draft().job.scheme = read_scheme(r, at, it)),
        read("params", |r, to, at, it| to.draft().job.params = read_params(r, at, it)),
        read("interval", |r, to, at, it| to.draft().interval = r.read_seconds(at, it)),
        read("scrapeTimeout", |r, to, at, it| to.draft().timeout = r.read_seconds(at, it)),
    ]
}

/// Fields that concern samples.
pub(crate) const fn sample_fields<T: HasDraft>() -> [MonitorField<T>; 3] {
    [
        read("honorLabels", |r, to, at, it| to.draft().job.honor_labels = r.read_flag(at, it)),
        read("honorTimestamps", |r, to, at, it| {
            to.draft().job.honor_timestamps = r.read_flag(at, it)
        }),
        ignored("trackTimestampsStaleness", "series with explicit timestamps get no stale marker"),
    ]
}

/// Reads parameters of a query.
pub(crate) fn read_params(
    reader: &mut MonitorReader<'_>,
    at: &str,
    value: &serde_json::Value,
) -> BTreeMap<String, Vec<String>> {
    reader.read_map(at, value, |r, at, it| r.read_list(at, it, MonitorReader::read_text))
}

/// Reads a monitor's path.
pub(crate) fn read_path(
    reader: &mut MonitorReader<'_>,
    at: &str,
    value: &serde_json::Value,
) -> String {
    let text = reader.read_text(at, value);
    let text = if text.starts_with('/') { text } else { format!("/{text}") };
    let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'#';
    if text.len() > PATH_BYTES_MAX || !text.bytes().all(is_plain) {
        reader.refuse(at, format!("`{}` is not a path: no blanks and no #", text_excerpt(&text)));
    }
    text
}

/// Reads a monitor's scheme, in upper or lower case.
pub(crate) fn read_scheme(
    reader: &mut MonitorReader<'_>,
    at: &str,
    value: &serde_json::Value,
) -> Scheme {
    match reader.read_text(at, value).to_ascii_lowercase().as_str() {
        "http" => Scheme::Http,
        "https" => Scheme::Https,
        other => {
            reader.refuse(
                at,
                format!("`{}` is not a scheme: write http or https", text_excerpt(other)),
            );
            Scheme::Http
        }
    }
}

/// Limits of a monitor, for all its endpoints.
#[derive(Clone, Debug, Default)]
pub(crate) struct MonitorLimits {
    scrape: ScrapeLimits,
    pub(crate) targets: Option<u64>,
    native_histograms: bool,
}

/// Gives access to a draft's limits.
pub(crate) trait HasLimits {
    fn limits(&mut self) -> &mut MonitorLimits;
}

/// Fields of the limits of a monitor of any kind.
pub(crate) const fn limit_fields<T: HasLimits>() -> [MonitorField<T>; 16] {
    [
        read("sampleLimit", |r, to, at, it| {
            if let Some(samples) = r.read_number(at, it).filter(|it| *it > 0) {
                to.limits().scrape.samples = samples.min(SAMPLES_MAX) as u32;
            }
        }),
        read("labelLimit", |r, to, at, it| {
            if let Some(labels) = r.read_number(at, it).filter(|it| *it > 0) {
                to.limits().scrape.labels = labels.min(LABELS_MAX) as u32;
            }
        }),
        read("targetLimit", |r, to, at, it| {
            to.limits().targets = r.read_number(at, it).filter(|it| *it > 0);
        }),
        read("bodySizeLimit", |r, to, at, it| {
            if let Some(bytes) = body_bytes(r, at, it) {
                to.limits().scrape.body_bytes = bytes;
            }
        }),
        read("scrapeNativeHistograms", |r, to, at, it| {
            to.limits().native_histograms = r.read_flag(at, it);
        }),
        no_effect("scrapeProtocols", "the target selects one of the supported formats"),
        no_effect("fallbackScrapeProtocol", "a response without a content type is parsed as text"),
        no_effect("keepDroppedTargets", "dropped targets are not stored"),
        no_effect("scrapeClassicHistograms", "the text format has them; native ones are preferred"),
        ignored("labelNameLengthLimit", "names are limited by the line length, 64 KiB"),
        ignored("labelValueLengthLimit", "values are limited by the line length, 64 KiB"),
        ignored(
            "nativeHistogramBucketLimit",
            "each side has at most 4,096 buckets; more are merged",
        ),
        ignored("nativeHistogramMinBucketFactor", "native histograms keep their resolution"),
        ignored("convertClassicHistogramsToNHCB", "classic histograms stay explicit-bucket ones"),
        ignored("nameValidationScheme", "names are accepted unchanged, in UTF-8"),
        refused(
            "scrapeClass",
            "scrape classes belong to a Prometheus object: write the fields here",
        ),
    ]
}

/// Reads a size as Prometheus writes it: its units are powers of two.
fn body_bytes(
    reader: &mut MonitorReader<'_>,
    at: &str,
    value: &serde_json::Value,
) -> Option<ByteSize> {
    let text = reader.read_text(at, value);
    let units = [
        ("KIB", 1_u64 << 10),
        ("MIB", 1 << 20),
        ("GIB", 1 << 30),
        ("KB", 1 << 10),
        ("MB", 1 << 20),
        ("GB", 1 << 30),
        ("B", 1),
        ("", 1),
    ];
    let upper = text.to_ascii_uppercase();
    let read = units.into_iter().find_map(|(unit, factor)| {
        let digits = upper.strip_suffix(unit)?;
        digits.parse::<u64>().ok().and_then(|count| count.checked_mul(factor))
    });
    match read {
        Some(0) => None,
        Some(bytes) => Some(ByteSize::bytes(bytes.clamp(1024, BODY_BYTES_MAX))),
        None => {
            reader.refuse(
                at,
                format!("`{}` is not a size: write for example 10MB", text_excerpt(&text)),
            );
            None
        }
    }
}

/// The remaining parts of an endpoint.
pub(crate) struct EndpointParts {
    pub(crate) at: String,
    pub(crate) name: String,
    pub(crate) draft: JobDraft,
    /// Rules that every monitor of the kind has.
    pub(crate) first: Vec<Rule>,
    /// The monitor's own rules, and their field.
    pub(crate) monitor_rules: Vec<Rule>,
    pub(crate) monitor_rules_at: String,
    pub(crate) metric_rules: Vec<Rule>,
    pub(crate) source: EndpointSource,
}

/// Checks fields of an endpoint that depend on each other. Returns `None` if it can't be scraped:
/// `before` is the number of faults before its first field was read.
pub(crate) fn assemble_endpoint(
    reader: &mut MonitorReader<'_>,
    parts: EndpointParts,
    limits: &MonitorLimits,
    before: usize,
) -> Option<MonitorEndpoint> {
    let EndpointParts {
        at,
        name,
        draft,
        first,
        monitor_rules: own,
        monitor_rules_at: own_at,
        metric_rules,
        source,
    } = parts;
    let (mut job, interval, timeout) = draft.into_job();
    job.name = name;
    job.limits = limits.scrape.clone();
    check_job(reader, &at, &job);
    if let Err(error) = Rules::new(&metric_rules) {
        let at = format!("{at}.metricRelabelings[{}]", error.place);
        reader.refuse(&at, error.fault.to_string());
    }
    job.metric_relabel = metric_rules.iter().map(RelabelRule::from).collect();
    job.native_histograms = limits.native_histograms;
    let firsts = first.len();
    let rules: Vec<Rule> = first.into_iter().chain(own).collect();
    let sees = VisibleLabels::from_rules(&rules);
    let ready = Rules::new(&rules);
    if let Err(error) = &ready {
        let at = match error.place.checked_sub(firsts) {
            Some(index) => format!("{own_at}[{index}]"),
            None => at.clone(),
        };
        reader.refuse(&at, error.fault.to_string());
    }
    let uses = reader.take_uses();
    let (rules, target_limit) = (ready.unwrap_or_default(), limits.targets);
    let endpoint = MonitorEndpoint {
        at,
        rules_at: own_at,
        job,
        interval,
        timeout,
        rules,
        sees,
        source,
        target_limit,
        uses,
    };
    (reader.refused_count() == before).then_some(endpoint)
}

fn check_job(reader: &mut MonitorReader<'_>, at: &str, job: &ScrapeJob) {
    if job.name.chars().count() > JOB_CHARACTERS_MAX {
        let name = &job.name;
        let message = format!("the job's name `{name}` is too long: write a shorter metadata.name");
        reader.refuse(at, message);
    }
    let methods = [job.authorization.is_some(), job.basic_auth.is_some(), job.oauth2.is_some()];
    if methods.into_iter().filter(|is| *is).count() > 1 {
        reader.refuse(at, "authorization, basicAuth and oauth2: write at most one");
    }
    if job.params.contains_key("") || job.path_and_query().len() > QUERY_BYTES_MAX {
        reader.refuse(&format!("{at}.params"), "write names, at most 4,096 bytes in total");
    }
}
