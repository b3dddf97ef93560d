//! One endpoint of a monitor: a job, rules for its targets, and where these are found.

use std::collections::{BTreeMap, BTreeSet};

use millrace_config::{ByteSize, RelabelRule, Scheme, ScrapeJob, ScrapeLimits};
use millrace_scrape::relabel::{Action, Rule, Rules};

use crate::access::{Draft, HasDraft};
use crate::fields::{Field, Reader, ignored, no_effect, read, refused, said};
use crate::secrets::SecretUse;
use crate::selector::{Namespaces, Selector};

/// The longest name of a job: collectors take no longer one.
const JOB_CHARACTERS_MAX: usize = 256;

/// The longest body that collectors take.
const BODY_BYTES_MAX: u64 = 4 << 30;

/// Most samples of a scrape that collectors take, and most labels.
const SAMPLES_MAX: u64 = 10_000_000;
const LABELS_MAX: u64 = 128;

/// The longest path with all parameters.
const QUERY_BYTES_MAX: usize = 4096;
const PATH_BYTES_MAX: usize = 1024;

/// One endpoint.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    /// Where it stands in its monitor.
    pub(crate) at: String,
    /// Where its rules for targets stand.
    pub(crate) rules_at: String,
    /// Its settings, but for times.
    pub(crate) job: ScrapeJob,
    pub(crate) interval: Option<u32>,
    pub(crate) timeout: Option<u32>,
    /// Rules for targets.
    pub(crate) rules: Rules,
    /// Which labels the rules can see.
    pub(crate) sees: Sees,
    pub(crate) source: Source,
    /// With more targets than that none is scraped.
    pub(crate) target_limit: Option<u64>,
    /// Keys that it names, with the fields that name them.
    pub(crate) uses: Vec<(String, SecretUse)>,
}

/// Where targets are found.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// Pods.
    Pods { namespaces: Namespaces, selector: Selector, with_node: bool },
    /// What EndpointSlices of Services list.
    Services { namespaces: Namespaces, selector: Selector, with_node: bool },
    /// Addresses that are written out, with labels.
    Static(Vec<(Vec<String>, BTreeMap<String, String>)>),
    /// Several of them.
    Several(Vec<Source>),
}

/// Labels that rules can see: meta labels that no rule names need not be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sees {
    /// Any: a rule goes by labels' names.
    All,
    /// These.
    Names(BTreeSet<String>),
}

impl Sees {
    pub(crate) fn of(rules: &[Rule]) -> Self {
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

    pub(crate) fn sees(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Names(names) => names.contains(name),
        }
    }
}

/// Fields of endpoints that concern their job.
pub(crate) const fn http<T: HasDraft>() -> [Field<T>; 5] {
    [
        read("path", |r, to, at, it| to.draft().job.path = path(r, at, it)),
        read("scheme", |r, to, at, it| to.draft().job.scheme = scheme(r, at, it)),
        read("params", |r, to, at, it| to.draft().job.params = params(r, at, it)),
        read("interval", |r, to, at, it| to.draft().interval = r.seconds(at, it)),
        read("scrapeTimeout", |r, to, at, it| to.draft().timeout = r.seconds(at, it)),
    ]
}

/// Fields that concern points.
pub(crate) const fn points<T: HasDraft>() -> [Field<T>; 3] {
    [
        read("honorLabels", |r, to, at, it| to.draft().job.honor_labels = r.flag(at, it)),
        read("honorTimestamps", |r, to, at, it| to.draft().job.honor_timestamps = r.flag(at, it)),
        ignored("trackTimestampsStaleness", "series with times of their own aren't marked as gone"),
    ]
}

/// Parameters of a query.
pub(crate) fn params(
    reader: &mut Reader<'_>,
    at: &str,
    value: &serde_json::Value,
) -> BTreeMap<String, Vec<String>> {
    reader.map(at, value, |r, at, it| r.list(at, it, Reader::text))
}

/// A monitor's path.
pub(crate) fn path(reader: &mut Reader<'_>, at: &str, value: &serde_json::Value) -> String {
    let text = reader.text(at, value);
    let text = if text.starts_with('/') { text } else { format!("/{text}") };
    let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'#';
    if text.len() > PATH_BYTES_MAX || !text.bytes().all(is_plain) {
        reader.refuse(at, format!("`{}` is no path: no blanks and no #", said(&text)));
    }
    text
}

/// A monitor's scheme, in any case.
pub(crate) fn scheme(reader: &mut Reader<'_>, at: &str, value: &serde_json::Value) -> Scheme {
    match reader.text(at, value).to_ascii_lowercase().as_str() {
        "http" => Scheme::Http,
        "https" => Scheme::Https,
        other => {
            reader.refuse(at, format!("`{}` is no scheme: write http or https", said(other)));
            Scheme::Http
        }
    }
}

/// Limits of a monitor, for all its endpoints.
#[derive(Clone, Debug, Default)]
pub(crate) struct Limits {
    scrape: ScrapeLimits,
    pub(crate) targets: Option<u64>,
    native_histograms: bool,
}

/// Gives a draft's limits.
pub(crate) trait HasLimits {
    fn limits(&mut self) -> &mut Limits;
}

/// Fields of the limits of a monitor of any kind.
pub(crate) const fn limits<T: HasLimits>() -> [Field<T>; 16] {
    [
        read("sampleLimit", |r, to, at, it| {
            if let Some(samples) = r.number(at, it).filter(|it| *it > 0) {
                to.limits().scrape.samples = samples.min(SAMPLES_MAX) as u32;
            }
        }),
        read("labelLimit", |r, to, at, it| {
            if let Some(labels) = r.number(at, it).filter(|it| *it > 0) {
                to.limits().scrape.labels = labels.min(LABELS_MAX) as u32;
            }
        }),
        read("targetLimit", |r, to, at, it| {
            to.limits().targets = r.number(at, it).filter(|it| *it > 0);
        }),
        read("bodySizeLimit", |r, to, at, it| {
            if let Some(bytes) = body_bytes(r, at, it) {
                to.limits().scrape.body_bytes = bytes;
            }
        }),
        read("scrapeNativeHistograms", |r, to, at, it| {
            to.limits().native_histograms = r.flag(at, it);
        }),
        no_effect("scrapeProtocols", "the target chooses among the formats that are read"),
        no_effect("fallbackScrapeProtocol", "an answer without a type is taken for text"),
        no_effect("keepDroppedTargets", "what rules drop is not kept"),
        no_effect("scrapeClassicHistograms", "text has them; of both native ones are taken"),
        ignored("labelNameLengthLimit", "names have at most what a line has, 64 KiB"),
        ignored("labelValueLengthLimit", "values have at most what a line has, 64 KiB"),
        ignored("nativeHistogramBucketLimit", "a side has 4,096 buckets; more are joined"),
        ignored("nativeHistogramMinBucketFactor", "native histograms keep their resolution"),
        ignored("convertClassicHistogramsToNHCB", "classic histograms stay explicit-bucket ones"),
        ignored("nameValidationScheme", "names are taken as they come, in UTF-8"),
        refused("scrapeClass", "a class is part of a Prometheus object: write its fields here"),
    ]
}

/// A size as Prometheus writes it: its units are powers of two.
fn body_bytes(reader: &mut Reader<'_>, at: &str, value: &serde_json::Value) -> Option<ByteSize> {
    let text = reader.text(at, value);
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
            reader.refuse(at, format!("`{}` is no size: write one as in 10MB", said(&text)));
            None
        }
    }
}

/// What an endpoint is finished with.
pub(crate) struct Parts {
    pub(crate) at: String,
    pub(crate) name: String,
    pub(crate) draft: Draft,
    /// Rules that every monitor of the kind has.
    pub(crate) first: Vec<Rule>,
    /// The monitor's own, and where they stand.
    pub(crate) own: Vec<Rule>,
    pub(crate) own_at: String,
    pub(crate) metric_rules: Vec<Rule>,
    pub(crate) source: Source,
}

/// Checks what of an endpoint depends on several fields. None if it can't be scraped: `before`
/// faults were known when its first field was read.
pub(crate) fn finish(
    reader: &mut Reader<'_>,
    parts: Parts,
    limits: &Limits,
    before: usize,
) -> Option<Endpoint> {
    let Parts { at, name, draft, first, own, own_at, metric_rules, source } = parts;
    let (mut job, interval, timeout) = draft.finish();
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
    let sees = Sees::of(&rules);
    let ready = Rules::new(&rules);
    if let Err(error) = &ready {
        let at = match error.place.checked_sub(firsts) {
            Some(place) => format!("{own_at}[{place}]"),
            None => at.clone(),
        };
        reader.refuse(&at, error.fault.to_string());
    }
    let uses = reader.take_uses();
    let (rules, target_limit) = (ready.unwrap_or_default(), limits.targets);
    let endpoint = Endpoint {
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
    (reader.left_out() == before).then_some(endpoint)
}

fn check_job(reader: &mut Reader<'_>, at: &str, job: &ScrapeJob) {
    if job.name.chars().count() > JOB_CHARACTERS_MAX {
        let name = &job.name;
        let said = format!("the job's name `{name}` is too long: write a shorter metadata.name");
        reader.refuse(at, said);
    }
    let ways = [job.authorization.is_some(), job.basic_auth.is_some(), job.oauth2.is_some()];
    if ways.into_iter().filter(|is| *is).count() > 1 {
        reader.refuse(at, "authorization, basicAuth and oauth2: write one of them at most");
    }
    if job.params.contains_key("") || job.path_and_query().len() > QUERY_BYTES_MAX {
        reader.refuse(&format!("{at}.params"), "write names, and 4,096 bytes in all at most");
    }
}
