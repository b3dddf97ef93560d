//! Pods and Services with annotations `prometheus.io/...`.
//!
//! The rules are those of the usual Prometheus file for Kubernetes, but for labels: of a pod's or
//! Service's own labels none is copied, since a target has [`millrace_shares::LABELS_MAX`] at most.

use millrace_config::ScrapeJob;
use millrace_scrape::relabel::{Action, Rule, RuleError, Rules};

use crate::endpoint::{Endpoint, Sees, Source};
use crate::rules::{copy, copy_given, drop, first, keep, set};
use crate::scraped::{MonitorId, MonitorKind};
use crate::selector::{Namespaces, Selector};

/// The jobs' names.
const PODS_JOB: &str = "annotations/pods";
const SERVICES_JOB: &str = "annotations/services";

/// Their targets' label `job` where no rule sets another: as in the usual Prometheus file.
const PODS: &str = "kubernetes-pods";
const SERVICES: &str = "kubernetes-service-endpoints";

/// The annotations, each behind `prometheus.io/`.
pub const ANNOTATIONS: [(&str, &str); 5] = [
    ("scrape", "`true`: it is scraped. Must be given"),
    ("port", "the port. Default: each declared port of a pod, each port of a Service"),
    ("path", "the path. Default: /metrics"),
    ("scheme", "`http` or `https`. Default: http"),
    ("param_NAME", "a parameter of the query"),
];

/// Which annotated objects are scraped.
#[derive(Clone, Debug)]
pub struct Annotated {
    endpoints: Vec<(MonitorId, Endpoint)>,
}

impl Annotated {
    /// Those in namespaces that a selector selects, with further rules of a pool.
    ///
    /// # Errors
    /// A rule can't be used.
    pub fn new(
        pool: (&str, &str),
        namespaces: &Namespaces,
        selector: &Selector,
        own: &[Rule],
    ) -> Result<Self, RuleError> {
        let id = |kind| MonitorId { kind, namespace: pool.0.to_owned(), name: pool.1.to_owned() };
        let (pods, services) = (namespaces.clone(), namespaces.clone());
        let (of_pods, of_services) = (selector.clone(), selector.clone());
        let pods = Source::Pods { namespaces: pods, selector: of_pods, with_node: false };
        let services =
            Source::Services { namespaces: services, selector: of_services, with_node: false };
        let pods = endpoint(PODS_JOB, pod_rules(), own, pods)?;
        let services = endpoint(SERVICES_JOB, service_rules(), own, services)?;
        let endpoints = vec![(id(MonitorKind::Pod), pods), (id(MonitorKind::Service), services)];
        Ok(Self { endpoints })
    }

    pub(crate) fn endpoints(&self) -> impl Iterator<Item = (&MonitorId, &Endpoint)> {
        self.endpoints.iter().map(|(id, endpoint)| (id, endpoint))
    }
}

fn endpoint(
    name: &str,
    first: Vec<Rule>,
    own: &[Rule],
    source: Source,
) -> Result<Endpoint, RuleError> {
    let firsts = first.len();
    let rules: Vec<Rule> = first.into_iter().chain(own.iter().cloned()).collect();
    let ready = Rules::new(&rules)
        .map_err(|error| RuleError { place: error.place.saturating_sub(firsts), ..error })?;
    Ok(Endpoint {
        at: "metadata.annotations".to_owned(),
        rules_at: "metadata.annotations".to_owned(),
        job: ScrapeJob { name: name.to_owned(), ..ScrapeJob::default() },
        interval: None,
        timeout: None,
        rules: ready,
        sees: Sees::of(&rules),
        source,
        target_limit: None,
        uses: Vec::new(),
    })
}

/// What annotations of a `kind` of object say.
fn annotated(kind: &str) -> Vec<Rule> {
    let from = |name: &str| format!("__meta_kubernetes_{kind}_annotation_prometheus_io_{name}");
    vec![
        first(),
        keep(&from("scrape"), "true"),
        Rule { regex: "(https?)".to_owned(), ..copy(&from("scheme"), "__scheme__") },
        copy_given(&from("path"), "__metrics_path__"),
        Rule {
            action: Action::LabelMap,
            regex: format!("{}(.+)", from("param_")),
            replacement: "__param_$1".to_owned(),
            ..Rule::default()
        },
        copy("__meta_kubernetes_namespace", "namespace"),
    ]
}

/// Sets the address from a host and the annotated port.
fn address(host: &str, kind: &str, regex: &str, replacement: &str) -> Rule {
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
    let mut rules = annotated("pod");
    rules.extend([
        address(ip, "pod", r"(\d+);([^;]*:[^;]*)", "[$2]:$1"),
        address(ip, "pod", r"(\d+);([^;:]+)", "$2:$1"),
        drop("__meta_kubernetes_pod_phase", "Pending|Succeeded|Failed|Completed"),
        copy("__meta_kubernetes_pod_name", "pod"),
        copy("__meta_kubernetes_pod_node_name", "node"),
        set("job", PODS),
    ]);
    rules
}

fn service_rules() -> Vec<Rule> {
    let mut rules = annotated("service");
    rules.extend([
        address("__address__", "service", r"(\d+);(.+?)(?::\d+)?", "$2:$1"),
        copy("__meta_kubernetes_service_name", "service"),
        copy("__meta_kubernetes_pod_name", "pod"),
        copy("__meta_kubernetes_pod_node_name", "node"),
        drop("__meta_kubernetes_pod_phase", "Pending|Succeeded|Failed|Completed"),
        set("job", SERVICES),
    ]);
    rules
}
