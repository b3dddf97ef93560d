//! ServiceMonitor and PodMonitor: what has labels is scraped.
//!
//! The rules that each endpoint begins with are those that prometheus-operator writes, in its
//! order; the selectors of labels and of namespaces are applied before, not as rules.

use millrace_scrape::relabel::Rule;
use serde_json::Value;

use crate::access::{Draft, HasDraft, credentials, following, proxy};
use crate::endpoint::{Endpoint, HasLimits, Limits, Parts, Source, finish, http, limits, points};
use crate::fields::{Field, Reader, no_effect, read};
use crate::rules::{copy, copy_given, first, keep, rules, running, sanitized, set};
use crate::scraped::MonitorKind;
use crate::selector::{Namespaces, Selector};

/// A port that an endpoint names.
#[derive(Clone, Debug)]
enum PortChoice {
    /// By the name that it has in the Service or container.
    Named(String),
    /// By the number in the container, which is no `endpoint` label in a PodMonitor.
    Number { number: u64, is_label: bool },
    /// By the name in the container.
    Container(String),
}

/// An endpoint that is being read.
#[derive(Default)]
pub(crate) struct EndpointDraft {
    http: Draft,
    port: Option<String>,
    number: Option<u64>,
    target_port: Option<PortChoice>,
    relabelings: Vec<Rule>,
    metric_relabelings: Vec<Rule>,
    keeps_ended: bool,
}

impl HasDraft for EndpointDraft {
    fn draft(&mut self) -> &mut Draft {
        &mut self.http
    }
}

/// A monitor that is being read.
#[derive(Default)]
pub(crate) struct SpecDraft {
    job_label: String,
    target_labels: Vec<String>,
    pod_target_labels: Vec<String>,
    selector: Option<Selector>,
    namespaces: Option<Namespaces>,
    with_node: bool,
    limits: Limits,
    endpoints: Vec<(String, Value)>,
}

impl HasLimits for SpecDraft {
    fn limits(&mut self) -> &mut Limits {
        &mut self.limits
    }
}

/// Fields that both kinds have.
pub(crate) const SPEC: &[Field<SpecDraft>] = &[
    read("jobLabel", |r, to, at, it| to.job_label = r.text(at, it)),
    read("podTargetLabels", |r, to, at, it| {
        to.pod_target_labels = r.list(at, it, Reader::text);
    }),
    read("selector", |r, to, at, it| to.selector = Some(r.selector(at, it))),
    no_effect("selectorMechanism", "labels are selected as Kubernetes does it, either way"),
    read("namespaceSelector", |r, to, at, it| {
        r.fields(at, it, &[NAMESPACES], &mut to.namespaces);
    }),
    read("attachMetadata", |r, to, at, it| {
        r.fields(at, it, &[ATTACH], &mut to.with_node);
    }),
];

/// Fields that only a ServiceMonitor has.
pub(crate) const SERVICE_SPEC: &[Field<SpecDraft>] = &[
    read("targetLabels", |r, to, at, it| to.target_labels = r.list(at, it, Reader::text)),
    no_effect("serviceDiscoveryRole", "labels of both roles are there, from EndpointSlices"),
    read("endpoints", endpoints),
];

/// Fields that only a PodMonitor has.
pub(crate) const POD_SPEC: &[Field<SpecDraft>] = &[read("podMetricsEndpoints", endpoints)];

/// Fields of limits.
pub(crate) const LIMITS: &[Field<SpecDraft>] = &limits();

/// Fields of a selector of namespaces.
pub(crate) const NAMESPACES: &[Field<Option<Namespaces>>] = &[
    read("any", |r, to, at, it| {
        if r.flag(at, it) {
            *to = Some(Namespaces::Any);
        }
    }),
    read("matchNames", |r, to, at, it| {
        let names = r.list(at, it, Reader::text);
        if *to != Some(Namespaces::Any) && !names.is_empty() {
            *to = Some(Namespaces::Names(names));
        }
    }),
];

/// Fields of what is attached.
pub(crate) const ATTACH: &[Field<bool>] = &[read("node", |r, to, at, it| *to = r.flag(at, it))];

/// Fields of an endpoint of both kinds that aren't its job's.
pub(crate) const ENDPOINT: &[Field<EndpointDraft>] = &[
    read("port", |r, to, at, it| to.port = Some(r.text(at, it))),
    read("targetPort", |r, to, at, it| {
        to.target_port = match it.as_u64() {
            Some(0) => None,
            Some(number) => Some(PortChoice::Number { number, is_label: true }),
            None => Some(PortChoice::Container(r.text(at, it))),
        };
    }),
    read("relabelings", |r, to, at, it| to.relabelings = rules(r, at, it)),
    read("metricRelabelings", |r, to, at, it| to.metric_relabelings = rules(r, at, it)),
    read("filterRunning", |r, to, at, it| to.keeps_ended = !r.flag(at, it)),
];

/// The field of an endpoint that only a PodMonitor has.
pub(crate) const POD_ENDPOINT: &[Field<EndpointDraft>] =
    &[read("portNumber", |r, to, at, it| to.number = r.number(at, it))];

/// Fields of an endpoint of a ServiceMonitor.
pub(crate) const SERVICE_TABLES: &[&[Field<EndpointDraft>]] =
    &[ENDPOINT, &http(), &points(), &credentials(), &following(), &proxy()];

/// Fields of an endpoint of a PodMonitor.
pub(crate) const POD_TABLES: &[&[Field<EndpointDraft>]] =
    &[ENDPOINT, POD_ENDPOINT, &http(), &points(), &credentials(), &following(), &proxy()];

fn endpoints(reader: &mut Reader<'_>, to: &mut SpecDraft, at: &str, value: &Value) {
    to.endpoints = reader.list(at, value, |_, at, it| (at.to_owned(), it.clone()));
}

/// The endpoints of a monitor that can be scraped.
pub(crate) fn monitor(reader: &mut Reader<'_>, spec: &Value) -> Vec<Endpoint> {
    let is_service = reader.id().kind == MonitorKind::ServiceMonitor;
    let own = if is_service { SERVICE_SPEC } else { POD_SPEC };
    let mut draft = SpecDraft::default();
    reader.fields("spec", spec, &[SPEC, own, LIMITS], &mut draft);
    if draft.selector.is_none() {
        reader.refuse("spec.selector", "write one; {} selects all");
    }
    if reader.left_out() > 0 {
        return Vec::new();
    }
    let all = std::mem::take(&mut draft.endpoints).into_iter().enumerate();
    all.filter_map(|(place, (at, value))| endpoint(reader, &draft, place, &at, &value)).collect()
}

fn endpoint(
    reader: &mut Reader<'_>,
    spec: &SpecDraft,
    place: usize,
    at: &str,
    value: &Value,
) -> Option<Endpoint> {
    let before = reader.left_out();
    let is_service = reader.id().kind == MonitorKind::ServiceMonitor;
    let mut draft = EndpointDraft::default();
    let tables = if is_service { SERVICE_TABLES } else { POD_TABLES };
    reader.fields(at, value, tables, &mut draft);
    let namespace = reader.id().namespace.clone();
    let namespaces = spec.namespaces.clone().unwrap_or(Namespaces::Names(vec![namespace]));
    let (selector, with_node) = (spec.selector.clone().unwrap_or_default(), spec.with_node);
    let (source, word, first) = match is_service {
        true => {
            let source = Source::Services { namespaces, selector, with_node };
            (source, "serviceMonitor", service_rules(spec, &draft))
        }
        false => {
            let source = Source::Pods { namespaces, selector, with_node };
            (source, "podMonitor", pod_rules(reader, spec, &draft))
        }
    };
    let id = reader.id();
    let name = format!("{word}/{}/{}/{place}", id.namespace, id.name);
    let parts = Parts {
        at: at.to_owned(),
        name,
        draft: draft.http,
        first,
        own: draft.relabelings,
        own_at: format!("{at}.relabelings"),
        metric_rules: draft.metric_relabelings,
        source,
    };
    finish(reader, parts, &spec.limits, before)
}

impl EndpointDraft {
    fn choice(&self) -> Option<PortChoice> {
        let named = self.port.clone().map(PortChoice::Named);
        let number = self.number.filter(|number| *number > 0);
        let number = number.map(|number| PortChoice::Number { number, is_label: false });
        named.or(number).or_else(|| self.target_port.clone())
    }
}

/// Keeps what has the port; `named` is the label of a port's name.
fn port_rule(choice: Option<&PortChoice>, named: &str) -> Option<Rule> {
    Some(match choice? {
        PortChoice::Named(name) => keep(named, name),
        PortChoice::Container(name) => keep("__meta_kubernetes_pod_container_port_name", name),
        PortChoice::Number { number, .. } => {
            keep("__meta_kubernetes_pod_container_port_number", &number.to_string())
        }
    })
}

/// The label `endpoint`.
fn endpoint_rule(choice: Option<&PortChoice>) -> Option<Rule> {
    match choice? {
        PortChoice::Named(name) | PortChoice::Container(name) => Some(set("endpoint", name)),
        PortChoice::Number { number, is_label } => {
            is_label.then(|| set("endpoint", &number.to_string()))
        }
    }
}

fn labels_of<'a>(kind: &'a str, names: &'a [String]) -> impl Iterator<Item = Rule> + 'a {
    let from = move |name: &str| format!("__meta_kubernetes_{kind}_label_{}", sanitized(name));
    names.iter().map(move |name| copy_given(&from(name), &sanitized(name)))
}

fn job_rule(kind: &str, label: &str) -> Option<Rule> {
    let from = format!("__meta_kubernetes_{kind}_label_{}", sanitized(label));
    (!label.is_empty()).then(|| copy_given(&from, "job"))
}

fn service_rules(spec: &SpecDraft, draft: &EndpointDraft) -> Vec<Rule> {
    let choice = draft.choice();
    let target = |kind: &str, to: &str| Rule {
        source_labels: vec![
            "__meta_kubernetes_endpointslice_address_target_kind".to_owned(),
            "__meta_kubernetes_endpointslice_address_target_name".to_owned(),
        ],
        regex: format!("{kind};(.*)"),
        target_label: to.to_owned(),
        ..Rule::default()
    };
    let mut rules = vec![first()];
    rules.extend(port_rule(choice.as_ref(), "__meta_kubernetes_endpointslice_port_name"));
    rules.extend([
        target("Node", "node"),
        target("Pod", "pod"),
        copy("__meta_kubernetes_namespace", "namespace"),
        copy("__meta_kubernetes_service_name", "service"),
        copy("__meta_kubernetes_pod_name", "pod"),
        copy("__meta_kubernetes_pod_container_name", "container"),
    ]);
    rules.extend((!draft.keeps_ended).then(running));
    rules.extend(labels_of("service", &spec.target_labels));
    rules.extend(labels_of("pod", &spec.pod_target_labels));
    rules.push(copy("__meta_kubernetes_service_name", "job"));
    rules.extend(job_rule("service", &spec.job_label));
    rules.extend(endpoint_rule(choice.as_ref()));
    rules
}

fn pod_rules(reader: &Reader<'_>, spec: &SpecDraft, draft: &EndpointDraft) -> Vec<Rule> {
    let choice = draft.choice();
    let mut rules = vec![first()];
    rules.extend((!draft.keeps_ended).then(running));
    rules.extend(port_rule(choice.as_ref(), "__meta_kubernetes_pod_container_port_name"));
    rules.extend([
        copy("__meta_kubernetes_namespace", "namespace"),
        copy("__meta_kubernetes_pod_container_name", "container"),
        copy("__meta_kubernetes_pod_name", "pod"),
    ]);
    rules.extend(labels_of("pod", &spec.pod_target_labels));
    let id = reader.id();
    rules.push(set("job", &format!("{}/{}", id.namespace, id.name)));
    rules.extend(job_rule("pod", &spec.job_label));
    rules.extend(endpoint_rule(choice.as_ref()));
    rules
}
