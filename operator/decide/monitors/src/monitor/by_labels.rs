//! ServiceMonitor and PodMonitor: select targets by labels.
//!
//! The first rules of each endpoint are those that prometheus-operator writes, in its order; the
//! selectors of labels and of namespaces are applied before, not as rules.

use millrace_scrape::relabel::Rule;
use serde_json::Value;

use crate::monitor::access::{
    HasDraft, JobDraft, credential_fields, proxy_fields, redirect_fields,
};
use crate::monitor::endpoint::{
    EndpointParts, EndpointSource, HasLimits, MonitorEndpoint, MonitorLimits, assemble_endpoint,
    http_fields, limit_fields, sample_fields,
};
use crate::monitor::fields::{MonitorField, MonitorReader, no_effect, read};
use crate::monitor::rules::{
    copy_nonempty_rule, copy_rule, job_name_rule, keep_rule, read_rules, running_rule,
    sanitize_name, set_rule,
};
use crate::scraped::MonitorKind;
use crate::selector::{Namespaces, Selector};

/// A port that an endpoint names.
#[derive(Clone, Debug)]
enum PortChoice {
    /// By its name in the Service or container.
    Named(String),
    /// By the number in the container; a PodMonitor sets no `endpoint` label from it.
    Number { number: u64, is_label: bool },
    /// By the name in the container.
    Container(String),
}

/// An endpoint that is being read.
#[derive(Default)]
pub(crate) struct EndpointDraft {
    http: JobDraft,
    port: Option<String>,
    number: Option<u64>,
    target_port: Option<PortChoice>,
    relabelings: Vec<Rule>,
    metric_relabelings: Vec<Rule>,
    includes_ended: bool,
}

impl HasDraft for EndpointDraft {
    fn draft(&mut self) -> &mut JobDraft {
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
    limits: MonitorLimits,
    endpoints: Vec<(String, Value)>,
}

impl HasLimits for SpecDraft {
    fn limits(&mut self) -> &mut MonitorLimits {
        &mut self.limits
    }
}

/// Fields that both kinds have.
pub(crate) const SPEC: &[MonitorField<SpecDraft>] = &[
    read("jobLabel", |r, to, at, it| to.job_label = r.read_text(at, it)),
    read("podTargetLabels", |r, to, at, it| {
        to.pod_target_labels = r.read_list(at, it, MonitorReader::read_text);
    }),
    read("selector", |r, to, at, it| to.selector = Some(r.read_selector(at, it))),
    no_effect("selectorMechanism", "labels are selected the same way by either mechanism"),
    read("namespaceSelector", |r, to, at, it| {
        r.read_fields(at, it, &[NAMESPACES], &mut to.namespaces);
    }),
    read("attachMetadata", |r, to, at, it| {
        r.read_fields(at, it, &[ATTACH], &mut to.with_node);
    }),
];

/// Fields that only a ServiceMonitor has.
pub(crate) const SERVICE_SPEC: &[MonitorField<SpecDraft>] = &[
    read("targetLabels", |r, to, at, it| {
        to.target_labels = r.read_list(at, it, MonitorReader::read_text)
    }),
    no_effect("serviceDiscoveryRole", "labels of both roles exist, from EndpointSlices"),
    read("endpoints", read_endpoints),
];

/// Fields that only a PodMonitor has.
pub(crate) const POD_SPEC: &[MonitorField<SpecDraft>] =
    &[read("podMetricsEndpoints", read_endpoints)];

/// Fields of limits.
pub(crate) const LIMITS: &[MonitorField<SpecDraft>] = &limit_fields();

/// Fields of a selector of namespaces.
pub(crate) const NAMESPACES: &[MonitorField<Option<Namespaces>>] = &[
    read("any", |r, to, at, it| {
        if r.read_flag(at, it) {
            *to = Some(Namespaces::Any);
        }
    }),
    read("matchNames", |r, to, at, it| {
        let names = r.read_list(at, it, MonitorReader::read_text);
        if *to != Some(Namespaces::Any) && !names.is_empty() {
            *to = Some(Namespaces::Names(names));
        }
    }),
];

/// Fields of attached metadata.
pub(crate) const ATTACH: &[MonitorField<bool>] =
    &[read("node", |r, to, at, it| *to = r.read_flag(at, it))];

/// Fields of an endpoint of both kinds that don't concern its job.
pub(crate) const ENDPOINT: &[MonitorField<EndpointDraft>] = &[
    read("port", |r, to, at, it| to.port = Some(r.read_text(at, it))),
    read("targetPort", |r, to, at, it| {
        to.target_port = match it.as_u64() {
            Some(0) => None,
            Some(number) => Some(PortChoice::Number { number, is_label: true }),
            None => Some(PortChoice::Container(r.read_text(at, it))),
        };
    }),
    read("relabelings", |r, to, at, it| to.relabelings = read_rules(r, at, it)),
    read("metricRelabelings", |r, to, at, it| to.metric_relabelings = read_rules(r, at, it)),
    read("filterRunning", |r, to, at, it| to.includes_ended = !r.read_flag(at, it)),
];

/// The field of an endpoint that only a PodMonitor has.
pub(crate) const POD_ENDPOINT: &[MonitorField<EndpointDraft>] =
    &[read("portNumber", |r, to, at, it| to.number = r.read_number(at, it))];

/// Fields of an endpoint of a ServiceMonitor.
pub(crate) const SERVICE_TABLES: &[&[MonitorField<EndpointDraft>]] = &[
    ENDPOINT,
    &http_fields(),
    &sample_fields(),
    &credential_fields(),
    &redirect_fields(),
    &proxy_fields(),
];

/// Fields of an endpoint of a PodMonitor.
pub(crate) const POD_TABLES: &[&[MonitorField<EndpointDraft>]] = &[
    ENDPOINT,
    POD_ENDPOINT,
    &http_fields(),
    &sample_fields(),
    &credential_fields(),
    &redirect_fields(),
    &proxy_fields(),
];

fn read_endpoints(reader: &mut MonitorReader<'_>, to: &mut SpecDraft, at: &str, value: &Value) {
    to.endpoints = reader.read_list(at, value, |_, at, it| (at.to_owned(), it.clone()));
}

/// Returns the endpoints of a monitor that can be scraped.
pub(crate) fn read_monitor(reader: &mut MonitorReader<'_>, spec: &Value) -> Vec<MonitorEndpoint> {
    let is_service = reader.id().kind == MonitorKind::ServiceMonitor;
    let own = if is_service { SERVICE_SPEC } else { POD_SPEC };
    let mut draft = SpecDraft::default();
    reader.read_fields("spec", spec, &[SPEC, own, LIMITS], &mut draft);
    if draft.selector.is_none() {
        reader.refuse("spec.selector", "write one; {} selects all");
    }
    if reader.refused_count() > 0 {
        return Vec::new();
    }
    let all = std::mem::take(&mut draft.endpoints).into_iter().enumerate();
    all.filter_map(|(index, (at, value))| read_endpoint(reader, &draft, index, &at, &value))
        .collect()
}

fn read_endpoint(
    reader: &mut MonitorReader<'_>,
    spec: &SpecDraft,
    index: usize,
    at: &str,
    value: &Value,
) -> Option<MonitorEndpoint> {
    let before = reader.refused_count();
    let is_service = reader.id().kind == MonitorKind::ServiceMonitor;
    let mut draft = EndpointDraft::default();
    let tables = if is_service { SERVICE_TABLES } else { POD_TABLES };
    reader.read_fields(at, value, tables, &mut draft);
    let namespace = reader.id().namespace.clone();
    let namespaces = spec.namespaces.clone().unwrap_or(Namespaces::Names(vec![namespace]));
    let (selector, with_node) = (spec.selector.clone().unwrap_or_default(), spec.with_node);
    let (source, word, first) = match is_service {
        true => {
            let source = EndpointSource::Services { namespaces, selector, with_node };
            (source, "serviceMonitor", service_rules(spec, &draft))
        }
        false => {
            let source = EndpointSource::Pods { namespaces, selector, with_node };
            (source, "podMonitor", pod_rules(reader, spec, &draft))
        }
    };
    let id = reader.id();
    let name = format!("{word}/{}/{}/{index}", id.namespace, id.name);
    let parts = EndpointParts {
        at: at.to_owned(),
        name,
        draft: draft.http,
        first,
        monitor_rules: draft.relabelings,
        monitor_rules_at: format!("{at}.relabelings"),
        metric_rules: draft.metric_relabelings,
        source,
    };
    assemble_endpoint(reader, parts, &spec.limits, before)
}

impl EndpointDraft {
    fn port_choice(&self) -> Option<PortChoice> {
        let named = self.port.clone().map(PortChoice::Named);
        let number = self.number.filter(|number| *number > 0);
        let number = number.map(|number| PortChoice::Number { number, is_label: false });
        named.or(number).or_else(|| self.target_port.clone())
    }
}

/// Returns a rule that retains targets with the port; `named` is the label of a port's name.
fn port_rule(choice: Option<&PortChoice>, named: &str) -> Option<Rule> {
    Some(match choice? {
        PortChoice::Named(name) => keep_rule(named, name),
        PortChoice::Container(name) => keep_rule("__meta_kubernetes_pod_container_port_name", name),
        PortChoice::Number { number, .. } => {
            keep_rule("__meta_kubernetes_pod_container_port_number", &number.to_string())
        }
    })
}

/// Returns the rule for the label `endpoint`.
fn endpoint_rule(choice: Option<&PortChoice>) -> Option<Rule> {
    match choice? {
        PortChoice::Named(name) | PortChoice::Container(name) => Some(set_rule("endpoint", name)),
        PortChoice::Number { number, is_label } => {
            is_label.then(|| set_rule("endpoint", &number.to_string()))
        }
    }
}

fn labels_of<'a>(kind: &'a str, names: &'a [String]) -> impl Iterator<Item = Rule> + 'a {
    let from = move |name: &str| format!("__meta_kubernetes_{kind}_label_{}", sanitize_name(name));
    names.iter().map(move |name| copy_nonempty_rule(&from(name), &sanitize_name(name)))
}

fn job_rule(kind: &str, label: &str) -> Option<Rule> {
    let from = format!("__meta_kubernetes_{kind}_label_{}", sanitize_name(label));
    (!label.is_empty()).then(|| copy_nonempty_rule(&from, "job"))
}

fn service_rules(spec: &SpecDraft, draft: &EndpointDraft) -> Vec<Rule> {
    let choice = draft.port_choice();
    let target = |kind: &str, to: &str| Rule {
        source_labels: vec![
            "__meta_kubernetes_endpointslice_address_target_kind".to_owned(),
            "__meta_kubernetes_endpointslice_address_target_name".to_owned(),
        ],
        regex: format!("{kind};(.*)"),
        target_label: to.to_owned(),
        ..Rule::default()
    };
    let mut rules = vec![job_name_rule()];
    rules.extend(port_rule(choice.as_ref(), "__meta_kubernetes_endpointslice_port_name"));
    rules.extend([
        target("Node", "node"),
        target("Pod", "pod"),
        copy_rule("__meta_kubernetes_namespace", "namespace"),
        copy_rule("__meta_kubernetes_service_name", "service"),
        copy_rule("__meta_kubernetes_pod_name", "pod"),
        copy_rule("__meta_kubernetes_pod_container_name", "container"),
    ]);
    rules.extend((!draft.includes_ended).then(running_rule));
    rules.extend(labels_of("service", &spec.target_labels));
    rules.extend(labels_of("pod", &spec.pod_target_labels));
    rules.push(copy_rule("__meta_kubernetes_service_name", "job"));
    rules.extend(job_rule("service", &spec.job_label));
    rules.extend(endpoint_rule(choice.as_ref()));
    rules
}

fn pod_rules(reader: &MonitorReader<'_>, spec: &SpecDraft, draft: &EndpointDraft) -> Vec<Rule> {
    let choice = draft.port_choice();
    let mut rules = vec![job_name_rule()];
    rules.extend((!draft.includes_ended).then(running_rule));
    rules.extend(port_rule(choice.as_ref(), "__meta_kubernetes_pod_container_port_name"));
    rules.extend([
        copy_rule("__meta_kubernetes_namespace", "namespace"),
        copy_rule("__meta_kubernetes_pod_container_name", "container"),
        copy_rule("__meta_kubernetes_pod_name", "pod"),
    ]);
    rules.extend(labels_of("pod", &spec.pod_target_labels));
    let id = reader.id();
    rules.push(set_rule("job", &format!("{}/{}", id.namespace, id.name)));
    rules.extend(job_rule("pod", &spec.job_label));
    rules.extend(endpoint_rule(choice.as_ref()));
    rules
}
