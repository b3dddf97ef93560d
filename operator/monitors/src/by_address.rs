//! Probe and ScrapeConfig: what is scraped is written out, or found as in a Prometheus file.

use std::collections::BTreeMap;

use millrace_scrape::relabel::Rule;
use serde_json::Value;

use crate::access::{Draft, HTTP_1, HasDraft, credentials, proxy};
use crate::endpoint::{
    Endpoint, HasLimits, Limits, Parts, Source, finish, limits, params, path, points, scheme,
};
use crate::fields::{Field, Reader, no_effect, read, refused, said};
use crate::rules::{copy, first, rules, set};
use crate::selector::{Namespaces, Selector};

/// What is to be written where a discovery isn't known.
const DISCOVERY: &str = "there is no such discovery: write staticConfigs or kubernetesSDConfigs";

/// Addresses with labels.
type Group = (Vec<String>, BTreeMap<String, String>);

/// A monitor that is being read.
#[derive(Default)]
pub(crate) struct SpecDraft {
    http: Draft,
    limits: Limits,
    job_name: String,
    relabelings: Vec<Rule>,
    relabelings_at: String,
    metric_relabelings: Vec<Rule>,
    module: String,
    prober_url: String,
    groups: Option<Vec<Group>>,
    found: Vec<Source>,
}

impl HasDraft for SpecDraft {
    fn draft(&mut self) -> &mut Draft {
        &mut self.http
    }
}

impl HasLimits for SpecDraft {
    fn limits(&mut self) -> &mut Limits {
        &mut self.limits
    }
}

/// Fields of a Probe.
pub(crate) const PROBE: &[Field<SpecDraft>] = &[
    read("jobName", |r, to, at, it| to.job_name = r.text(at, it)),
    read("module", |r, to, at, it| to.module = r.text(at, it)),
    read("prober", |r, to, at, it| r.fields(at, it, PROBER_TABLES, to)),
    read("targets", |r, to, at, it| r.fields(at, it, &[PROBE_TARGETS], to)),
    read("interval", |r, to, at, it| to.http.interval = r.seconds(at, it)),
    read("scrapeTimeout", |r, to, at, it| to.http.timeout = r.seconds(at, it)),
    read("metricRelabelings", |r, to, at, it| to.metric_relabelings = rules(r, at, it)),
    read("params", |r, to, at, it| {
        for (name, values) in r.list(at, it, param) {
            to.http.job.params.insert(name, values);
        }
    }),
];

/// All fields of a Probe.
pub(crate) const PROBE_TABLES: &[&[Field<SpecDraft>]] = &[PROBE, &credentials(), &limits()];

/// Fields of a prober.
pub(crate) const PROBER: &[Field<SpecDraft>] = &[
    read("url", |r, to, at, it| to.prober_url = r.text(at, it)),
    read("scheme", |r, to, at, it| to.http.job.scheme = scheme(r, at, it)),
    read("path", |r, to, at, it| to.http.job.path = path(r, at, it)),
];

/// All fields of a prober.
pub(crate) const PROBER_TABLES: &[&[Field<SpecDraft>]] = &[PROBER, &proxy()];

/// Fields of a Probe's targets.
pub(crate) const PROBE_TARGETS: &[Field<SpecDraft>] = &[
    read("staticConfig", |r, to, at, it| {
        to.relabelings_at = format!("{at}.relabelingConfigs");
        let mut written = (Group::default(), Vec::new());
        r.fields(at, it, &[STATIC], &mut written);
        let (group, rules) = written;
        to.relabelings = rules;
        to.groups = Some(vec![group]);
    }),
    refused("ingress", "Ingresses aren't looked at: write staticConfig"),
];

/// Fields of a Probe's written addresses.
pub(crate) const STATIC: &[Field<(Group, Vec<Rule>)>] = &[
    read("static", |r, to, at, it| to.0.0 = r.list(at, it, Reader::text)),
    read("labels", |r, to, at, it| to.0.1 = r.map(at, it, Reader::text)),
    read("relabelingConfigs", |r, to, at, it| to.1 = rules(r, at, it)),
];

/// Fields of a ScrapeConfig.
pub(crate) const CONFIG: &[Field<SpecDraft>] = &[
    read("jobName", |r, to, at, it| to.job_name = r.text(at, it)),
    read("staticConfigs", |r, to, at, it| {
        to.groups = Some(r.list(at, it, |r, at, it| {
            let mut group = Group::default();
            r.fields(at, it, &[GROUP], &mut group);
            group
        }));
    }),
    read("kubernetesSDConfigs", |r, to, at, it| {
        to.found.extend(r.list(at, it, kubernetes).into_iter().flatten());
    }),
    read("metricsPath", |r, to, at, it| to.http.job.path = path(r, at, it)),
    read("scheme", |r, to, at, it| to.http.job.scheme = scheme(r, at, it)),
    read("params", |r, to, at, it| to.http.job.params = params(r, at, it)),
    read("scrapeInterval", |r, to, at, it| to.http.interval = r.seconds(at, it)),
    read("scrapeTimeout", |r, to, at, it| to.http.timeout = r.seconds(at, it)),
    read("relabelings", |r, to, at, it| to.relabelings = rules(r, at, it)),
    read("metricRelabelings", |r, to, at, it| to.metric_relabelings = rules(r, at, it)),
    no_effect("enableCompression", "targets may always compress"),
    no_effect("enableHTTP2", HTTP_1),
    no_effect("nameEscapingScheme", "names are taken as they come, in UTF-8"),
    refused("fileSDConfigs", "files of Prometheus' pods aren't here: write staticConfigs"),
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
pub(crate) const CONFIG_TABLES: &[&[Field<SpecDraft>]] =
    &[CONFIG, &points(), &credentials(), &proxy(), &limits()];

/// Fields of a group of addresses.
pub(crate) const GROUP: &[Field<Group>] = &[
    read("targets", |r, to, at, it| to.0 = r.list(at, it, Reader::text)),
    read("labels", |r, to, at, it| to.1 = r.map(at, it, Reader::text)),
];

/// What a ScrapeConfig finds in Kubernetes, as it is read.
#[derive(Default)]
pub(crate) struct KubernetesDraft {
    role: String,
    own: bool,
    names: Vec<String>,
    with_node: bool,
}

/// Fields of it.
pub(crate) const KUBERNETES: &[Field<KubernetesDraft>] = &[
    read("role", |r, to, at, it| {
        to.role = r.text(at, it).to_ascii_lowercase();
        if !["pod", "endpointslice", "endpoints"].contains(&to.role.as_str()) {
            let said = said(&to.role);
            r.refuse(at, format!("there is no role `{said}` here: write Pod or EndpointSlice"));
        }
    }),
    read("namespaces", |r, to, at, it| r.fields(at, it, &[KUBERNETES_NAMESPACES], to)),
    read("attachMetadata", |r, to, at, it| {
        r.fields(at, it, &[crate::by_labels::ATTACH], &mut to.with_node);
    }),
    no_effect("followRedirects", "the operator's own client asks the API server"),
    no_effect("enableHTTP2", "the operator's own client asks the API server"),
    refused("apiServer", "only this cluster is looked at: leave it out"),
    refused("selectors", "write rules in relabelings that keep what is wanted"),
    refused("authorization", "only this cluster is looked at: leave it out"),
    refused("basicAuth", "only this cluster is looked at: leave it out"),
    refused("oauth2", "only this cluster is looked at: leave it out"),
    refused("tlsConfig", "only this cluster is looked at: leave it out"),
    refused("proxyUrl", "only this cluster is looked at: leave it out"),
    refused("noProxy", "only this cluster is looked at: leave it out"),
    refused("proxyFromEnvironment", "only this cluster is looked at: leave it out"),
    refused("proxyConnectHeader", "only this cluster is looked at: leave it out"),
];

/// Fields of its namespaces.
pub(crate) const KUBERNETES_NAMESPACES: &[Field<KubernetesDraft>] = &[
    read("ownNamespace", |r, to, at, it| to.own = r.flag(at, it)),
    read("names", |r, to, at, it| to.names = r.list(at, it, Reader::text)),
];

fn kubernetes(reader: &mut Reader<'_>, at: &str, value: &Value) -> Option<Source> {
    let before = reader.left_out();
    let mut draft = KubernetesDraft::default();
    reader.fields(at, value, &[KUBERNETES], &mut draft);
    if draft.role.is_empty() && reader.left_out() == before {
        reader.refuse(&format!("{at}.role"), "write Pod or EndpointSlice");
    }
    if draft.own {
        // Prometheus would mean its own pod's.
        draft.names.push(reader.id().namespace.clone());
    }
    let KubernetesDraft { role, names, with_node, .. } = draft;
    let namespaces = if names.is_empty() { Namespaces::Any } else { Namespaces::Names(names) };
    let selector = Selector::default();
    let source = match role.as_str() {
        "pod" => Source::Pods { namespaces, selector, with_node },
        _ => Source::Services { namespaces, selector, with_node },
    };
    (reader.left_out() == before).then_some(source)
}

fn param(reader: &mut Reader<'_>, at: &str, value: &Value) -> (String, Vec<String>) {
    let mut param = (String::new(), Vec::new());
    reader.fields(at, value, &[PARAM], &mut param);
    param
}

/// Fields of a Probe's parameter.
pub(crate) const PARAM: &[Field<(String, Vec<String>)>] = &[
    read("name", |r, to, at, it| to.0 = r.text(at, it)),
    read("values", |r, to, at, it| to.1 = r.list(at, it, Reader::text)),
];

/// A Probe's only endpoint, if it can be scraped.
pub(crate) fn probe(reader: &mut Reader<'_>, spec: &Value) -> Option<Endpoint> {
    let mut draft = SpecDraft::default();
    draft.http.job.path = "/probe".to_owned();
    reader.fields("spec", spec, PROBE_TABLES, &mut draft);
    if draft.prober_url.is_empty() {
        reader.refuse("spec.prober.url", "write the prober's host:port");
    }
    if !draft.module.is_empty() {
        let module = vec![std::mem::take(&mut draft.module)];
        draft.http.job.params.insert("module".to_owned(), module);
    }
    let mut groups = draft.groups.take().unwrap_or_default();
    if groups.is_empty() && reader.left_out() == 0 {
        reader.refuse("spec.targets.staticConfig", "write what is to be probed");
    }
    for (_, labels) in &mut groups {
        let namespace = || reader.id().namespace.clone();
        labels.entry("namespace".to_owned()).or_insert_with(namespace);
    }
    let mut first_rules = vec![first()];
    first_rules.extend((!draft.job_name.is_empty()).then(|| set("job", &draft.job_name)));
    first_rules.extend([
        copy("__address__", "__param_target"),
        copy("__param_target", "instance"),
        set("__address__", &draft.prober_url),
    ]);
    let source = Source::Static(groups);
    endpoint(reader, draft, "probe", first_rules, source)
}

/// A ScrapeConfig's only endpoint, if it can be scraped.
pub(crate) fn scrape_config(reader: &mut Reader<'_>, spec: &Value) -> Option<Endpoint> {
    let mut draft =
        SpecDraft { relabelings_at: "spec.relabelings".to_owned(), ..SpecDraft::default() };
    reader.fields("spec", spec, CONFIG_TABLES, &mut draft);
    let mut sources = std::mem::take(&mut draft.found);
    sources.extend(draft.groups.take().map(Source::Static));
    if sources.is_empty() && reader.left_out() == 0 {
        reader.refuse("spec.staticConfigs", "no target is given: write staticConfigs");
    }
    let mut first_rules = vec![first()];
    first_rules.extend((!draft.job_name.is_empty()).then(|| set("job", &draft.job_name)));
    endpoint(reader, draft, "scrapeConfig", first_rules, Source::Several(sources))
}

fn endpoint(
    reader: &mut Reader<'_>,
    draft: SpecDraft,
    word: &str,
    first: Vec<Rule>,
    source: Source,
) -> Option<Endpoint> {
    let id = reader.id();
    let parts = Parts {
        at: "spec".to_owned(),
        name: format!("{word}/{}/{}", id.namespace, id.name),
        draft: draft.http,
        first,
        own: draft.relabelings,
        own_at: draft.relabelings_at,
        metric_rules: draft.metric_relabelings,
        source,
    };
    finish(reader, parts, &draft.limits, 0)
}
