//! Probe and ScrapeConfig: targets are written out, or discovered as in a Prometheus file.

use std::collections::BTreeMap;

use millrace_scrape::relabel::Rule;
use serde_json::Value;

use crate::monitor::access::{HTTP_1, HasDraft, JobDraft, credential_fields, proxy_fields};
use crate::monitor::endpoint::{
    EndpointParts, EndpointSource, HasLimits, MonitorEndpoint, MonitorLimits, assemble_endpoint,
    limit_fields, read_params, read_path, read_scheme, sample_fields,
};
use crate::monitor::fields::{MonitorField, MonitorReader, no_effect, read, refused, text_excerpt};
use crate::monitor::rules::{copy_rule, job_name_rule, read_rules, set_rule};
use crate::selector::{Namespaces, Selector};

/// The advice for an unknown discovery.
const DISCOVERY: &str = "this discovery is not supported: write staticConfigs or \
                         kubernetesSDConfigs";

/// Addresses with labels.
type TargetGroup = (Vec<String>, BTreeMap<String, String>);

/// A monitor that is being read.
#[derive(Default)]
pub(crate) struct SpecDraft {
    http: JobDraft,
    limits: MonitorLimits,
    job_name: String,
    relabelings: Vec<Rule>,
    relabelings_at: String,
    metric_relabelings: Vec<Rule>,
    module: String,
    prober_url: String,
    groups: Option<Vec<TargetGroup>>,
    discovered: Vec<EndpointSource>,
}

impl HasDraft for SpecDraft {
    fn draft(&mut self) -> &mut JobDraft {
        &mut self.http
    }
}

impl HasLimits for SpecDraft {
    fn limits(&mut self) -> &mut MonitorLimits {
        &mut self.limits
    }
}

/// Fields of a Probe.
pub(crate) const PROBE: &[MonitorField<SpecDraft>] = &[
    read("jobName", |r, to, at, it| to.job_name = r.read_text(at, it)),
    read("module", |r, to, at, it| to.module = r.read_text(at, it)),
    read("prober", |r, to, at, it| r.read_fields(at, it, PROBER_TABLES, to)),
    read("targets", |r, to, at, it| r.read_fields(at, it, &[PROBE_TARGETS], to)),
    read("interval", |r, to, at, it| to.http.interval = r.read_seconds(at, it)),
    read("scrapeTimeout", |r, to, at, it| to.http.timeout = r.read_seconds(at, it)),
    read("metricRelabelings", |r, to, at, it| to.metric_relabelings = read_rules(r, at, it)),
    read("params", |r, to, at, it| {
        for (name, values) in r.read_list(at, it, read_param) {
            to.http.job.params.insert(name, values);
        }
    }),
];

/// All fields of a Probe.
pub(crate) const PROBE_TABLES: &[&[MonitorField<SpecDraft>]] =
    &[PROBE, &credential_fields(), &limit_fields()];

/// Fields of a prober.
pub(crate) const PROBER: &[MonitorField<SpecDraft>] = &[
    read("url", |r, to, at, it| to.prober_url = r.read_text(at, it)),
    read("scheme", |r, to, at, it| to.http.job.scheme = read_scheme(r, at, it)),
    read("path", |r, to, at, it| to.http.job.path = read_path(r, at, it)),
];

/// All fields of a prober.
pub(crate) const PROBER_TABLES: &[&[MonitorField<SpecDraft>]] = &[PROBER, &proxy_fields()];

/// Fields of a Probe's targets.
pub(crate) const PROBE_TARGETS: &[MonitorField<SpecDraft>] = &[
    read("staticConfig", |r, to, at, it| {
        to.relabelings_at = format!("{at}.relabelingConfigs");
        let mut written = (TargetGroup::default(), Vec::new());
        r.read_fields(at, it, &[STATIC], &mut written);
        let (group, rules) = written;
        to.relabelings = rules;
        to.groups = Some(vec![group]);
    }),
    refused("ingress", "Ingresses are not discovered: write staticConfig"),
];

/// Fields of a Probe's written addresses.
pub(crate) const STATIC: &[MonitorField<(TargetGroup, Vec<Rule>)>] = &[
    read("static", |r, to, at, it| to.0.0 = r.read_list(at, it, MonitorReader::read_text)),
    read("labels", |r, to, at, it| to.0.1 = r.read_map(at, it, MonitorReader::read_text)),
    read("relabelingConfigs", |r, to, at, it| to.1 = read_rules(r, at, it)),
];

/// Fields of a ScrapeConfig.
pub(crate) const CONFIG: &[MonitorField<SpecDraft>] = &[
    read("jobName", |r, to, at, it| to.job_name = r.read_text(at, it)),
    read("staticConfigs", |r, to, at, it| {
        to.groups = Some(r.read_list(at, it, |r, at, it| {
            let mut group = TargetGroup::default();
            r.read_fields(at, it, &[GROUP], &mut group);
            group
        }));
    }),
    read("kubernetesSDConfigs", |r, to, at, it| {
        to.discovered.extend(r.read_list(at, it, read_kubernetes).into_iter().flatten());
    }),
    read("metricsPath", |r, to, at, it| to.http.job.path = read_path(r, at, it)),
    read("scheme", |r, to, at, it| to.http.job.scheme = read_scheme(r, at, it)),
    read("params", |r, to, at, it| to.http.job.params = read_params(r, at, it)),
    read("scrapeInterval", |r, to, at, it| to.http.interval = r.read_seconds(at, it)),
    read("scrapeTimeout", |r, to, at, it| to.http.timeout = r.read_seconds(at, it)),
    read("relabelings", |r, to, at, it| to.relabelings = read_rules(r, at, it)),
    read("metricRelabelings", |r, to, at, it| to.metric_relabelings = read_rules(r, at, it)),
    no_effect("enableCompression", "targets may always compress"),
    no_effect("enableHTTP2", HTTP_1),
    no_effect("nameEscapingScheme", "names are accepted unchanged, in UTF-8"),
    refused("fileSDConfigs", "files of Prometheus' pods do not exist here: write staticConfigs"),
    refused("httpSDConfigs", "write http under receivers.prometheus.jobs of the pool"),
    refused("azureSDConfigs", DISCOVERY),
    refused("consulSDConfigs", DISCOVERY),
    refused("digitalOceanSDConfigs", DISCOVERY),
    refused("dnsSDConfigs", DISCOVERY),
    refused("dockerSDConfigs", DISCOVERY),
    refused("dockerSwarmSDConfigs", DISCOVERY),
    refused("ec2SDConfigs", DISCOVERY),
    refused("eurekaSDConfigs", DISCOVERY),
    refused("gceSDConfigs", DISCOVERY),
    refused("hetznerSDConfigs", DISCOVERY),
    refused("ionosSDConfigs", DISCOVERY),
    refused("kumaSDConfigs", DISCOVERY),
    refused("lightSailSDConfigs", DISCOVERY),
    refused("linodeSDConfigs", DISCOVERY),
    refused("nomadSDConfigs", DISCOVERY),
    refused("openstackSDConfigs", DISCOVERY),
    refused("ovhcloudSDConfigs", DISCOVERY),
    refused("puppetDBSDConfigs", DISCOVERY),
    refused("scalewaySDConfigs", DISCOVERY),
];

/// All fields of a ScrapeConfig.
pub(crate) const CONFIG_TABLES: &[&[MonitorField<SpecDraft>]] =
    &[CONFIG, &sample_fields(), &credential_fields(), &proxy_fields(), &limit_fields()];

/// Fields of a group of addresses.
pub(crate) const GROUP: &[MonitorField<TargetGroup>] = &[
    read("targets", |r, to, at, it| to.0 = r.read_list(at, it, MonitorReader::read_text)),
    read("labels", |r, to, at, it| to.1 = r.read_map(at, it, MonitorReader::read_text)),
];

/// A ScrapeConfig's discovery in Kubernetes that is being read.
#[derive(Default)]
pub(crate) struct KubernetesDraft {
    role: String,
    own_namespace: bool,
    names: Vec<String>,
    with_node: bool,
}

/// Fields of it.
pub(crate) const KUBERNETES: &[MonitorField<KubernetesDraft>] = &[
    read("role", |r, to, at, it| {
        to.role = r.read_text(at, it).to_ascii_lowercase();
        if !["pod", "endpointslice", "endpoints"].contains(&to.role.as_str()) {
            let excerpt = text_excerpt(&to.role);
            r.refuse(at, format!("role `{excerpt}` is not supported: write Pod or EndpointSlice"));
        }
    }),
    read("namespaces", |r, to, at, it| r.read_fields(at, it, &[KUBERNETES_NAMESPACES], to)),
    read("attachMetadata", |r, to, at, it| {
        r.read_fields(at, it, &[crate::monitor::by_labels::ATTACH], &mut to.with_node);
    }),
    no_effect("followRedirects", "the operator uses its own client for the API server"),
    no_effect("enableHTTP2", "the operator uses its own client for the API server"),
    refused("apiServer", "only this cluster is discovered: remove it"),
    refused("selectors", "write relabelings that keep the wanted targets"),
    refused("authorization", "only this cluster is discovered: remove it"),
    refused("basicAuth", "only this cluster is discovered: remove it"),
    refused("oauth2", "only this cluster is discovered: remove it"),
    refused("tlsConfig", "only this cluster is discovered: remove it"),
    refused("proxyUrl", "only this cluster is discovered: remove it"),
    refused("noProxy", "only this cluster is discovered: remove it"),
    refused("proxyFromEnvironment", "only this cluster is discovered: remove it"),
    refused("proxyConnectHeader", "only this cluster is discovered: remove it"),
];

/// Fields of its namespaces.
pub(crate) const KUBERNETES_NAMESPACES: &[MonitorField<KubernetesDraft>] = &[
    read("ownNamespace", |r, to, at, it| to.own_namespace = r.read_flag(at, it)),
    read("names", |r, to, at, it| to.names = r.read_list(at, it, MonitorReader::read_text)),
];

fn read_kubernetes(
    reader: &mut MonitorReader<'_>,
    at: &str,
    value: &Value,
) -> Option<EndpointSource> {
    let before = reader.refused_count();
    let mut draft = KubernetesDraft::default();
    reader.read_fields(at, value, &[KUBERNETES], &mut draft);
    if draft.role.is_empty() && reader.refused_count() == before {
        reader.refuse(&format!("{at}.role"), "write Pod or EndpointSlice");
    }
    if draft.own_namespace {
        // Prometheus would use its own pod's namespace.
        draft.names.push(reader.id().namespace.clone());
    }
    let KubernetesDraft { role, names, with_node, .. } = draft;
    let namespaces = if names.is_empty() { Namespaces::Any } else { Namespaces::Names(names) };
    let selector = Selector::default();
    let source = match role.as_str() {
        "pod" => EndpointSource::Pods { namespaces, selector, with_node },
        _ => EndpointSource::Services { namespaces, selector, with_node },
    };
    (reader.refused_count() == before).then_some(source)
}

fn read_param(reader: &mut MonitorReader<'_>, at: &str, value: &Value) -> (String, Vec<String>) {
    let mut param = (String::new(), Vec::new());
    reader.read_fields(at, value, &[PARAM], &mut param);
    param
}

/// Fields of a Probe's parameter.
pub(crate) const PARAM: &[MonitorField<(String, Vec<String>)>] = &[
    read("name", |r, to, at, it| to.0 = r.read_text(at, it)),
    read("values", |r, to, at, it| to.1 = r.read_list(at, it, MonitorReader::read_text)),
];

/// Returns a Probe's only endpoint, if it can be scraped.
pub(crate) fn read_probe(reader: &mut MonitorReader<'_>, spec: &Value) -> Option<MonitorEndpoint> {
    let mut draft = SpecDraft::default();
    draft.http.job.path = "/probe".to_owned();
    reader.read_fields("spec", spec, PROBE_TABLES, &mut draft);
    if draft.prober_url.is_empty() {
        reader.refuse("spec.prober.url", "write the prober's host:port");
    }
    if !draft.module.is_empty() {
        let module = vec![std::mem::take(&mut draft.module)];
        draft.http.job.params.insert("module".to_owned(), module);
    }
    let mut groups = draft.groups.take().unwrap_or_default();
    if groups.is_empty() && reader.refused_count() == 0 {
        reader.refuse("spec.targets.staticConfig", "write the addresses to probe");
    }
    for (_, labels) in &mut groups {
        let namespace = || reader.id().namespace.clone();
        labels.entry("namespace".to_owned()).or_insert_with(namespace);
    }
    let mut first_rules = vec![job_name_rule()];
    first_rules.extend((!draft.job_name.is_empty()).then(|| set_rule("job", &draft.job_name)));
    first_rules.extend([
        copy_rule("__address__", "__param_target"),
        copy_rule("__param_target", "instance"),
        set_rule("__address__", &draft.prober_url),
    ]);
    let source = EndpointSource::Static(groups);
    endpoint_of_spec(reader, draft, "probe", first_rules, source)
}

/// Returns a ScrapeConfig's only endpoint, if it can be scraped.
pub(crate) fn read_scrape_config(
    reader: &mut MonitorReader<'_>,
    spec: &Value,
) -> Option<MonitorEndpoint> {
    let mut draft =
        SpecDraft { relabelings_at: "spec.relabelings".to_owned(), ..SpecDraft::default() };
    reader.read_fields("spec", spec, CONFIG_TABLES, &mut draft);
    let mut sources = std::mem::take(&mut draft.discovered);
    sources.extend(draft.groups.take().map(EndpointSource::Static));
    if sources.is_empty() && reader.refused_count() == 0 {
        reader.refuse("spec.staticConfigs", "no target is given: write staticConfigs");
    }
    let mut first_rules = vec![job_name_rule()];
    first_rules.extend((!draft.job_name.is_empty()).then(|| set_rule("job", &draft.job_name)));
    endpoint_of_spec(reader, draft, "scrapeConfig", first_rules, EndpointSource::Several(sources))
}

fn endpoint_of_spec(
    reader: &mut MonitorReader<'_>,
    draft: SpecDraft,
    word: &str,
    first: Vec<Rule>,
    source: EndpointSource,
) -> Option<MonitorEndpoint> {
    let id = reader.id();
    let parts = EndpointParts {
        at: "spec".to_owned(),
        name: format!("{word}/{}/{}", id.namespace, id.name),
        draft: draft.http,
        first,
        monitor_rules: draft.relabelings,
        monitor_rules_at: draft.relabelings_at,
        metric_rules: draft.metric_relabelings,
        source,
    };
    assemble_endpoint(reader, parts, &draft.limits, 0)
}
