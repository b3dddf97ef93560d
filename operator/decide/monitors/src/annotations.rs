//! Pods and Services with annotations `prometheus.io/...`.
//!
//! The rules are those of the usual Prometheus file for Kubernetes, except for labels: none of a
//! pod's or Service's own labels is copied, since a target has at most
//! [`millrace_share_documents::LABELS_MAX`].

use millrace_config::ScrapeJob;
use millrace_scrape::relabel::{Action, RelabelRuleError, Rule, Rules};

use crate::monitor::endpoint::{EndpointSource, MonitorEndpoint, VisibleLabels};
use crate::monitor::rules::{
    copy_nonempty_rule, copy_rule, drop_rule, job_name_rule, keep_rule, set_rule,
};
use crate::scraped::{MonitorId, MonitorKind};
use crate::selector::{Namespaces, Selector};

/// The jobs' names.
const PODS_JOB: &str = "annotations/pods";
const SERVICES_JOB: &str = "annotations/services";

/// Their targets' label `job` unless a rule sets another: as in the usual Prometheus file.
const PODS: &str = "kubernetes-pods";
const SERVICES: &str = "kubernetes-service-endpoints";

/// The annotations, each after `prometheus.io/`.
pub const ANNOTATIONS: [(&str, &str); 5] = [
    ("scrape", "`true`: it is scraped. Required"),
    ("port", "the port. Default: each declared port of a pod, each port of a Service"),
    ("path", "the path. Default: /metrics"),
    ("scheme", "`http` or `https`. Default: http"),
    ("param_NAME", "a parameter of the query"),
];

/// Selects the annotated objects to scrape.
#[derive(Clone, Debug)]
pub struct AnnotationSources {
    endpoints: Vec<(MonitorId, MonitorEndpoint)>,
}

impl AnnotationSources {
    /// Selects the objects in the namespaces of a selector, with further rules of a pool.
    ///
    /// # Errors
    /// A rule can't be used.
    pub fn new(
        pool: (&str, &str),
        namespaces: &Namespaces,
        selector: &Selector,
        own: &[Rule],
    ) -> Result<Self, RelabelRuleError> {
        let id = |kind| MonitorId { kind, namespace: pool.0.to_owned(), name: pool.1.to_owned() };
        let (pods, services) = (namespaces.clone(), namespaces.clone());
        let (of_pods, of_services) = (selector.clone(), selector.clone());
        let pods = EndpointSource::Pods { namespaces: pods, selector: of_pods, with_node: false };
        let services = EndpointSource::Services {
            namespaces: services,
            selector: of_services,
            with_node: false,
        };
        let pods = annotation_endpoint(PODS_JOB, pod_rules(), own, pods)?;
        let services = annotation_endpoint(SERVICES_JOB, service_rules(), own, services)?;
        let endpoints = vec![(id(MonitorKind::Pod), pods), (id(MonitorKind::Service), services)];
        Ok(Self { endpoints })
    }

    pub(crate) fn endpoints(&self) -> impl Iterator<Item = (&MonitorId, &MonitorEndpoint)> {
        self.endpoints.iter().map(|(id, endpoint)| (id, endpoint))
    }
}

fn annotation_endpoint(
    name: &str,
    first: Vec<Rule>,
    pool_rules: &[Rule],
    source: EndpointSource,
) -> Result<MonitorEndpoint, RelabelRuleError> {
    let firsts = first.len();
    let rules: Vec<Rule> = first.into_iter().chain(pool_rules.iter().cloned()).collect();
    let ready = Rules::new(&rules)
        .map_err(|error| RelabelRuleError { place: error.place.saturating_sub(firsts), ..error })?;
    Ok(MonitorEndpoint {
        at: "metadata.annotations".to_owned(),
        rules_at: "metadata.annotations".to_owned(),
        job: ScrapeJob { name: name.to_owned(), ..ScrapeJob::default() },
        interval: None,
        timeout: None,
        rules: ready,
        sees: VisibleLabels::from_rules(&rules),
        source,
        target_limit: None,
        uses: Vec::new(),
    })
}

/// Returns the rules for the annotations of a `kind` of object.
fn annotation_rules(kind: &str) -> Vec<Rule> {
    let from = |name: &str| format!("__meta_kubernetes_{kind}_annotation_prometheus_io_{name}");
    vec![
        job_name_rule(),
        keep_rule(&from("scrape"), "true"),
        Rule { regex: "(https?)".to_owned(), ..copy_rule(&from("scheme"), "__scheme__") },
        copy_nonempty_rule(&from("path"), "__metrics_path__"),
        Rule {
            action: Action::LabelMap,
            regex: format!("{}(.+)", from("param_")),
            replacement: "__param_$1".to_owned(),
            ..Rule::default()
        },
        copy_rule("__meta_kubernetes_namespace", "namespace"),
    ]
}

/// Returns a rule that sets the address from a host and the annotated port.
fn address_rule(host: &str, kind: &str, regex: &str, replacement: &str) -> Rule {
    Rule {
        source_labels: vec![
            format!("__meta_kubernetes_{kind}_annotation_prometheus_io_port"),
            host.to_owned(),
        ],
        regex: regex.to_owned(),
        replacement: replacement.to_owned(),
        target_label: "__address__".to_owned(),
        ..Rule::default()
    }
}

fn pod_rules() -> Vec<Rule> {
    let ip = "__meta_kubernetes_pod_ip";
    let mut rules = annotation_rules("pod");
    rules.extend([
        address_rule(ip, "pod", r"(\d+);([^;]*:[^;]*)", "[$2]:$1"),
        address_rule(ip, "pod", r"(\d+);([^;:]+)", "$2:$1"),
        drop_rule("__meta_kubernetes_pod_phase", "Pending|Succeeded|Failed|Completed"),
        copy_rule("__meta_kubernetes_pod_name", "pod"),
        copy_rule("__meta_kubernetes_pod_node_name", "node"),
        set_rule("job", PODS),
    ]);
    rules
}

fn service_rules() -> Vec<Rule> {
    let mut rules = annotation_rules("service");
    rules.extend([
        address_rule("__address__", "service", r"(\d+);(.+?)(?::\d+)?", "$2:$1"),
        copy_rule("__meta_kubernetes_service_name", "service"),
        copy_rule("__meta_kubernetes_pod_name", "pod"),
        copy_rule("__meta_kubernetes_pod_node_name", "node"),
        drop_rule("__meta_kubernetes_pod_phase", "Pending|Succeeded|Failed|Completed"),
        set_rule("job", SERVICES),
    ]);
    rules
}
