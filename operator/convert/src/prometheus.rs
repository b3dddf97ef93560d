//! The Prometheus receiver: its jobs are pasted as they are, each checked by the collector's own
//! reader, one by one. Fields as of contrib 0.12x to 0.15x.

use millrace_config as config;
use millrace_crds::v1alpha1::{
    AnnotatedSelection, EdgeMode, EdgeSettings, KubernetesDiscovery, LabelSelector,
    PrometheusReceiver,
};
use millrace_scrape::relabel::{Rule, Rules};
use serde_norway::{Mapping, Value};

use crate::account::Fate;
use crate::draft::{Draft, SCRAPER, pool_path};
use crate::tree::{Node, Text};
use crate::words;
use crate::work::Work;

/// Longest text of pasted jobs, in bytes.
const TEXT_BYTES_MAX: usize = 65_536;

/// The Collector's own port of metrics.
const OWN_PORT: &str = ":8888";

const MONITORS: &str = "monitors and annotations: receivers.prometheus.kubernetes, with \
     discovery.enabled of the operator's chart";

/// Fields of a job that are left out without changing what is stored, or that bound what few
/// targets reach.
const LEFT_OUT: [&str; 18] = [
    "always_scrape_classic_histograms",
    "convert_classic_histograms_to_nhcb",
    "enable_compression",
    "enable_http2",
    "extra_scrape_metrics",
    "fallback_scrape_protocol",
    "keep_dropped_targets",
    "label_name_length_limit",
    "label_value_length_limit",
    "metric_name_escaping_scheme",
    "metric_name_validation_scheme",
    "native_histogram_bucket_limit",
    "native_histogram_min_bucket_factor",
    "proxy_from_environment",
    "scrape_failure_log_file",
    "scrape_protocols",
    "target_limit",
    "track_timestamps_staleness",
];

/// Times that hold for all jobs, which are written into each.
const GLOBAL_TIMES: [&str; 2] = ["scrape_interval", "scrape_timeout"];

fn receiver_path() -> String {
    format!("{}.receivers.prometheus", pool_path(SCRAPER))
}

/// The pool that scrapes, and its receiver.
pub(crate) fn scraper(draft: &mut Draft) -> Option<&mut PrometheusReceiver> {
    let pool: &mut EdgeSettings = draft.pool(SCRAPER, EdgeMode::Deployment)?;
    Some(pool.receivers.prometheus.get_or_insert_default())
}

/// What is found in the cluster, of all namespaces until somebody says less.
pub(crate) fn discovery(draft: &mut Draft) -> Option<&mut KubernetesDiscovery> {
    let interval_seconds = 30;
    let none = || KubernetesDiscovery { interval_seconds, ..KubernetesDiscovery::default() };
    Some(scraper(draft)?.kubernetes.get_or_insert_with(none))
}

/// Converts it. `jobs` has the jobs of all receivers of the file.
pub(crate) fn receiver(work: &mut Work, node: &Node<'_>, jobs: &mut Vec<Value>) -> bool {
    let mut fields = work.account.open(node, Fate::left("it scrapes nothing"));
    let before = jobs.len();
    if let Some(written) = fields.take("config") {
        configuration(work, &written, jobs);
    }
    work.account.rest(fields, |name| match name {
        "target_allocator" => Fate::not_needed(words::ALLOCATOR),
        "trim_metric_suffixes" => Fate::left("names are kept as they are"),
        "use_start_time_metric" | "start_time_metric_regex" => {
            Fate::left("a series' start is what its target says, or its first scrape")
        }
        "report_extra_scrape_metrics" => {
            Fate::left("the scrape's own series are Prometheus' usual")
        }
        "api_server" => Fate::left("targets are on the page of a pod, and in status.targets"),
        "ignore_scope_name_and_version" | "skip_offset_scraping" | "initial_scrape_offset" => {
            Fate::not_needed("job, target and path decide when a scrape begins")
        }
        _ => Fate::left(words::UNKNOWN),
    });
    jobs.len() > before
}

/// Puts the jobs into the pool.
pub(crate) fn finish(work: &mut Work, jobs: Vec<Value>) {
    let text = if jobs.is_empty() { String::new() } else { pasted(jobs) };
    if let Some(receiver) = work.draft.edges.iter_mut().find_map(|edge| {
        (edge.name.as_str() == SCRAPER).then_some(edge.settings.receivers.prometheus.as_mut())?
    }) {
        receiver.scrape_configs = text;
    }
}

fn pasted(jobs: Vec<Value>) -> String {
    serde_norway::to_string(&Value::Sequence(jobs)).unwrap_or_default()
}

fn configuration(work: &mut Work, node: &Node<'_>, jobs: &mut Vec<Value>) {
    let mut fields = work.account.open(node, Fate::left("it scrapes nothing"));
    let global = fields.take("global");
    let list = fields.take("scrape_configs");
    if let Some(global) = &global {
        let mut each = work.account.open(global, Fate::not_needed("it says nothing"));
        for name in GLOBAL_TIMES {
            let Some(time) = each.take(name) else { continue };
            match list.as_ref().is_some_and(|list| list.items().next().is_some()) {
                true => work.account.not_needed(&time, "it is written into each job without it"),
                false => work.account.not_needed(&time, "no job is carried over"),
            }
        }
        work.account.rest(each, |name| match name {
            "evaluation_interval" | "query_log_file" | "rule_query_offset" => {
                Fate::not_needed("no rules are evaluated")
            }
            "external_labels" => Fate::left("write labels into each job"),
            _ => Fate::left("write it into each job, if a job may have it"),
        });
    }
    if let Some(list) = &list {
        for item in work.account.items(list, "it has no job") {
            job(work, &item, global.as_ref(), jobs);
        }
    }
    work.account.rest(fields, |name| match name {
        "scrape_config_files" => Fate::left("write one text: put the files' jobs into it"),
        _ => Fate::left("only global and scrape_configs are taken"),
    });
}

fn job(work: &mut Work, node: &Node<'_>, global: Option<&Node<'_>>, jobs: &mut Vec<Value>) {
    if scrapes_itself(node) {
        return work.account.not_needed(
            node,
            "it scrapes the Collector itself: pods of Millrace have metrics on port 9464, and the \
             chart PodMonitors for them",
        );
    }
    if found_by_annotations(node)
        && let Some(found) = discovery(&mut work.draft)
    {
        let namespace_selector = Some(LabelSelector::default());
        found.annotations =
            Some(AnnotatedSelection { namespace_selector, ..AnnotatedSelection::default() });
        let to = format!("{}.kubernetes.annotations", receiver_path());
        return work.account.differs(
            node,
            to,
            "pods and Services with the annotation prometheus.io/scrape; rules of the job are not \
             carried over. The operator's chart needs discovery.enabled, and for all namespaces \
             discovery.acrossNamespaces",
        );
    }
    if node.has_variable() {
        return work
            .account
            .left(node, "it has variables of the Collector's: write what they stand for");
    }
    let Value::Mapping(mut fields) = node.unescaped() else {
        return work.account.left(node, "a job is a block of fields");
    };
    for name in LEFT_OUT {
        fields.remove(name);
    }
    for name in GLOBAL_TIMES {
        let usual = global.and_then(|global| global.get(name)).map(|it| it.unescaped());
        if let Some(usual) = usual.filter(|_| !fields.contains_key(name)) {
            fields.insert(Value::from(name), usual);
        }
    }
    match checked(&fields, jobs) {
        Err(instead) => work.account.left(node, instead),
        Ok(()) => {
            jobs.push(Value::Mapping(fields));
            // The pool is there from now on.
            let _ = scraper(&mut work.draft);
            carried(work, node);
        }
    }
}

/// Each field of a job that goes along, or is left out.
fn carried(work: &mut Work, node: &Node<'_>) {
    let to = format!("{}.scrapeConfigs", receiver_path());
    for (name, field) in node.entries() {
        match LEFT_OUT.contains(&&*name) {
            true => work.account.left(&field, "leave it out: it isn't supported"),
            false => work.account.carried(&field, &*to),
        }
    }
}

/// Whether the collector would take the job, beside those before it.
fn checked(fields: &Mapping, before: &[Value]) -> Result<(), String> {
    let mut all = before.to_vec();
    all.push(Value::Mapping(fields.clone()));
    let text = pasted(all);
    if text.len() > TEXT_BYTES_MAX {
        return Err("all jobs have 64 KiB: put it into an edge pool of its own".to_owned());
    }
    let alone = pasted(vec![Value::Mapping(fields.clone())]);
    let read = |text: String| {
        let receiver = config::PrometheusReceiver {
            scrape_configs: text,
            ..config::PrometheusReceiver::default()
        };
        receiver.all_jobs().map_err(|error| told(&error.to_string()))
    };
    for job in read(alone)? {
        if !job.files.is_empty() {
            return Err("file_sd_configs: the operator, which shares targets out, has no such \
                 files: write static_configs or http_sd_configs"
                .to_owned());
        }
        for rules in [&job.relabel, &job.metric_relabel] {
            let rules: Vec<Rule> = rules.iter().map(Rule::from).collect();
            Rules::new(&rules).map_err(|error| format!("{}: {}", error.place, error.fault))?;
        }
    }
    // Names differ, and all are not too many.
    read(text).map(|_| ())
}

/// The collector's words without the place in a text that is no longer the user's, and for what is
/// found in the cluster where to go.
fn told(problem: &str) -> String {
    if problem.contains("kubernetes_sd_configs") {
        return MONITORS.to_owned();
    }
    let lines: Vec<&str> = problem.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let plain = lines.iter().map(|line| {
        let at = line.find("[0].").map(|at| at + "[0].".len()).unwrap_or_default();
        line.get(at..).unwrap_or(line)
    });
    plain.collect::<Vec<_>>().join("; ")
}

/// Whether all targets of a job are the Collector's own metrics.
fn scrapes_itself(job: &Node<'_>) -> bool {
    let groups = job.get("static_configs");
    let targets: Vec<Node<'_>> = groups
        .iter()
        .flat_map(|groups| groups.items())
        .filter_map(|group| group.get("targets"))
        .flat_map(|targets| targets.items())
        .collect();
    let is_own = |target: &Node<'_>| {
        let text = target.value.as_str().unwrap_or_default();
        let local = ["localhost", "127.0.0.1", "0.0.0.0", "[::]"];
        let host = text.strip_suffix(OWN_PORT);
        host.is_some_and(|host| local.contains(&host) || target.text() == Text::Variable)
    };
    !targets.is_empty() && targets.iter().all(is_own)
}

/// Whether a job finds pods or Services by the usual annotation.
fn found_by_annotations(job: &Node<'_>) -> bool {
    let usual = |rule: &Node<'_>| {
        let labels = rule.get("source_labels").map(|it| it.texts()).unwrap_or_default();
        let keeps = rule.get("action").and_then(|it| it.said()).as_deref() == Some("keep");
        keeps && labels.iter().any(|label| label.ends_with("_annotation_prometheus_io_scrape"))
    };
    job.get("kubernetes_sd_configs").is_some()
        && job.get("relabel_configs").is_some_and(|rules| rules.items().any(|rule| usual(&rule)))
}
