//! Converts the Prometheus receiver: its jobs are copied unchanged; the collector's own reader
//! checks each of them. Fields as of contrib 0.12x to 0.15x.

use millrace_config as config;
use millrace_crds::v1alpha1::{
    AnnotatedSelection, EdgeMode, EdgeSettings, KubernetesDiscovery, LabelSelector,
    PrometheusReceiver,
};
use millrace_scrape::relabel::{Rule, Rules};
use serde_norway::{Mapping, Value};

use crate::account::Fate;
use crate::advice;
use crate::draft::{PipelineDraft, SCRAPER, pool_path};
use crate::tree::{Node, TextValue};
use crate::work::Work;

/// Maximum length of the copied jobs, in bytes.
const TEXT_BYTES_MAX: usize = 65_536;

/// The port of the Collector's own metrics.
const METRICS_PORT: &str = ":8888";

const MONITORS: &str = "monitors and annotations: receivers.prometheus.kubernetes, with \
     discovery.enabled of the operator's chart";

/// Fields of a job whose omission doesn't change what is stored, or that bound what few targets
/// reach.
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

/// Times that apply to all jobs; the conversion writes them into each.
const GLOBAL_TIMES: [&str; 2] = ["scrape_interval", "scrape_timeout"];

fn receiver_path() -> String {
    format!("{}.receivers.prometheus", pool_path(SCRAPER))
}

/// Returns the receiver of the pool that scrapes.
pub(crate) fn scraper_receiver(draft: &mut PipelineDraft) -> Option<&mut PrometheusReceiver> {
    let pool: &mut EdgeSettings = draft.pool_settings(SCRAPER, EdgeMode::Deployment)?;
    Some(pool.receivers.prometheus.get_or_insert_default())
}

/// Returns the discovery in the cluster, of all namespaces unless the file restricts them.
pub(crate) fn kubernetes_discovery(draft: &mut PipelineDraft) -> Option<&mut KubernetesDiscovery> {
    let interval_seconds = 30;
    let none = || KubernetesDiscovery { interval_seconds, ..KubernetesDiscovery::default() };
    Some(scraper_receiver(draft)?.kubernetes.get_or_insert_with(none))
}

/// Converts the receiver. `jobs` collects the jobs of all receivers of the file.
pub(crate) fn convert_receiver(work: &mut Work, node: &Node<'_>, jobs: &mut Vec<Value>) -> bool {
    let mut fields = work.account.open_block(node, Fate::unsupported("it scrapes nothing"));
    let before = jobs.len();
    if let Some(written) = fields.take_field("config") {
        convert_configuration(work, &written, jobs);
    }
    work.account.account_remaining(fields, |name| match name {
        "target_allocator" => Fate::not_needed(advice::ALLOCATOR),
        "trim_metric_suffixes" => Fate::unsupported("names are stored unchanged"),
        "use_start_time_metric" | "start_time_metric_regex" => {
            Fate::unsupported("a series' start is the target's, or its first scrape")
        }
        "report_extra_scrape_metrics" => {
            Fate::unsupported("only Prometheus' standard series of a scrape are written")
        }
        "api_server" => Fate::unsupported("a pod's page and status.targets have the targets"),
        "ignore_scope_name_and_version" | "skip_offset_scraping" | "initial_scrape_offset" => {
            Fate::not_needed("the offset of a scrape is derived from job, target and path")
        }
        _ => Fate::unsupported(advice::UNKNOWN),
    });
    jobs.len() > before
}

/// Writes the jobs into the pool.
pub(crate) fn store_jobs(work: &mut Work, jobs: Vec<Value>) {
    let text = if jobs.is_empty() { String::new() } else { jobs_yaml(jobs) };
    if let Some(receiver) = work.draft.edges.iter_mut().find_map(|edge| {
        (edge.name.as_str() == SCRAPER).then_some(edge.settings.receivers.prometheus.as_mut())?
    }) {
        receiver.scrape_configs = text;
    }
}

fn jobs_yaml(jobs: Vec<Value>) -> String {
    serde_norway::to_string(&Value::Sequence(jobs)).unwrap_or_default()
}

fn convert_configuration(work: &mut Work, node: &Node<'_>, jobs: &mut Vec<Value>) {
    let mut fields = work.account.open_block(node, Fate::unsupported("it scrapes nothing"));
    let global = fields.take_field("global");
    let list = fields.take_field("scrape_configs");
    if let Some(global) = &global {
        let mut each = work.account.open_block(global, Fate::not_needed("it is empty"));
        for name in GLOBAL_TIMES {
            let Some(time) = each.take_field(name) else { continue };
            match list.as_ref().is_some_and(|list| list.items().next().is_some()) {
                true => work.account.not_needed(&time, "it is written into each job that lacks it"),
                false => work.account.not_needed(&time, "no job is carried over"),
            }
        }
        work.account.account_remaining(each, |name| match name {
            "evaluation_interval" | "query_log_file" | "rule_query_offset" => {
                Fate::not_needed("no rules are evaluated")
            }
            "external_labels" => Fate::unsupported("write labels into each job"),
            _ => Fate::unsupported("write it into each job, if jobs support it"),
        });
    }
    if let Some(list) = &list {
        for item in work.account.list_items(list, "it has no job") {
            convert_job(work, &item, global.as_ref(), jobs);
        }
    }
    work.account.account_remaining(fields, |name| match name {
        "scrape_config_files" => {
            Fate::unsupported("put the jobs of these files into the configuration")
        }
        _ => Fate::unsupported("only global and scrape_configs are supported"),
    });
}

fn convert_job(work: &mut Work, node: &Node<'_>, global: Option<&Node<'_>>, jobs: &mut Vec<Value>) {
    if scrapes_itself(node) {
        return work.account.not_needed(
            node,
            "it scrapes the Collector itself: Millrace's pods have metrics on port 9464, and the \
             chart has PodMonitors for them",
        );
    }
    if uses_annotations(node)
        && let Some(found) = kubernetes_discovery(&mut work.draft)
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
            .unsupported(node, "it has variables of the Collector's: write their values");
    }
    let Value::Mapping(mut fields) = node.unescape_value() else {
        return work.account.unsupported(node, "a job is a block of fields");
    };
    for name in LEFT_OUT {
        fields.remove(name);
    }
    for name in GLOBAL_TIMES {
        let usual = global.and_then(|global| global.get(name)).map(|it| it.unescape_value());
        if let Some(usual) = usual.filter(|_| !fields.contains_key(name)) {
            fields.insert(Value::from(name), usual);
        }
    }
    match check_job(&fields, jobs) {
        Err(instead) => work.account.unsupported(node, instead),
        Ok(()) => {
            jobs.push(Value::Mapping(fields));
            // This creates the pool.
            let _ = scraper_receiver(&mut work.draft);
            account_job(work, node);
        }
    }
}

/// Accounts for each field of a job, copied or omitted.
fn account_job(work: &mut Work, node: &Node<'_>) {
    let to = format!("{}.scrapeConfigs", receiver_path());
    for (name, field) in node.entries() {
        match LEFT_OUT.contains(&&*name) {
            true => work.account.unsupported(&field, "remove it: unsupported"),
            false => work.account.carried(&field, &*to),
        }
    }
}

/// Returns an error if the collector would refuse the job after those before it.
fn check_job(fields: &Mapping, before: &[Value]) -> Result<(), String> {
    let mut all = before.to_vec();
    all.push(Value::Mapping(fields.clone()));
    let text = jobs_yaml(all);
    if text.len() > TEXT_BYTES_MAX {
        return Err(
            "all jobs together are limited to 64 KiB: put it into a separate edge pool".to_owned()
        );
    }
    let alone = jobs_yaml(vec![Value::Mapping(fields.clone())]);
    let read = |text: String| {
        let receiver = config::PrometheusReceiver {
            scrape_configs: text,
            ..config::PrometheusReceiver::default()
        };
        receiver.all_jobs().map_err(|error| plain_problem(&error.to_string()))
    };
    for job in read(alone)? {
        if !job.files.is_empty() {
            return Err("file_sd_configs: the operator, which distributes targets, has no such \
                        files: write static_configs or http_sd_configs"
                .to_owned());
        }
        for rules in [&job.relabel, &job.metric_relabel] {
            let rules: Vec<Rule> = rules.iter().map(Rule::from).collect();
            Rules::new(&rules).map_err(|error| format!("{}: {}", error.place, error.fault))?;
        }
    }
    // Names differ, and the number is within the limit.
    read(text).map(|_| ())
}

/// Returns the collector's message without the position in a text that is no longer the user's, and
/// with the alternative for discovery in the cluster.
fn plain_problem(problem: &str) -> String {
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

/// Returns whether all targets of a job are the Collector's own metrics.
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
        let host = text.strip_suffix(METRICS_PORT);
        host.is_some_and(|host| {
            local.contains(&host) || target.scalar_text() == TextValue::Variable
        })
    };
    !targets.is_empty() && targets.iter().all(is_own)
}

/// Returns whether a job finds pods or Services by the usual annotation.
fn uses_annotations(job: &Node<'_>) -> bool {
    let usual = |rule: &Node<'_>| {
        let labels = rule.get("source_labels").map(|it| it.list_texts()).unwrap_or_default();
        let retains = rule.get("action").and_then(|it| it.plain_text()).as_deref() == Some("keep");
        retains && labels.iter().any(|label| label.ends_with("_annotation_prometheus_io_scrape"))
    };
    job.get("kubernetes_sd_configs").is_some()
        && job.get("relabel_configs").is_some_and(|rules| rules.items().any(|rule| usual(&rule)))
}
