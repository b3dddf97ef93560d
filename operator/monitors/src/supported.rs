//! All fields of monitors that are known, and what becomes of each: for the documentation.

use crate::fields::{Field, Take};
use crate::scraped::MonitorKind;
use crate::{access, by_address, by_labels, fields, rules};

/// A field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Supported {
    /// The kind that has it.
    pub kind: MonitorKind,
    /// Where, as in `spec.endpoints[].tlsConfig.ca`.
    pub field: String,
    /// What becomes of it: `taken`, `no effect: ...`, `ignored: ...` or `refused: ...`.
    pub becomes: String,
}

/// All fields, in order. Fields of rules, TLS and the like are listed once, under `spec.endpoints`
/// of a ServiceMonitor.
#[must_use]
pub fn supported() -> Vec<Supported> {
    let mut all = Vec::new();
    let service = MonitorKind::ServiceMonitor;
    put(&mut all, service, "spec", &[by_labels::SPEC, by_labels::SERVICE_SPEC, by_labels::LIMITS]);
    put(&mut all, service, "spec.selector", &[fields::SELECTOR]);
    put(&mut all, service, "spec.namespaceSelector", &[by_labels::NAMESPACES]);
    put(&mut all, service, "spec.attachMetadata", &[by_labels::ATTACH]);
    let at = "spec.endpoints[]";
    put(&mut all, service, at, by_labels::SERVICE_TABLES);
    put(&mut all, service, &format!("{at}.tlsConfig"), &[access::TLS]);
    put(&mut all, service, &format!("{at}.authorization"), &[access::AUTHORIZATION]);
    put(&mut all, service, &format!("{at}.basicAuth"), &[access::BASIC_AUTH]);
    put(&mut all, service, &format!("{at}.oauth2"), &[access::OAUTH2, access::OAUTH2_PROXY]);
    put(&mut all, service, &format!("{at}.relabelings[]"), &[rules::RULE]);
    let pod = MonitorKind::PodMonitor;
    put(&mut all, pod, "spec", &[by_labels::SPEC, by_labels::POD_SPEC, by_labels::LIMITS]);
    put(&mut all, pod, "spec.podMetricsEndpoints[]", by_labels::POD_TABLES);
    let probe = MonitorKind::Probe;
    put(&mut all, probe, "spec", by_address::PROBE_TABLES);
    put(&mut all, probe, "spec.prober", by_address::PROBER_TABLES);
    put(&mut all, probe, "spec.targets", &[by_address::PROBE_TARGETS]);
    put(&mut all, probe, "spec.targets.staticConfig", &[by_address::STATIC]);
    put(&mut all, probe, "spec.params[]", &[by_address::PARAM]);
    let config = MonitorKind::ScrapeConfig;
    put(&mut all, config, "spec", by_address::CONFIG_TABLES);
    put(&mut all, config, "spec.staticConfigs[]", &[by_address::GROUP]);
    let at = "spec.kubernetesSDConfigs[]";
    put(&mut all, config, at, &[by_address::KUBERNETES]);
    put(&mut all, config, &format!("{at}.namespaces"), &[by_address::KUBERNETES_NAMESPACES]);
    all.sort();
    all
}

fn put<T>(all: &mut Vec<Supported>, kind: MonitorKind, at: &str, tables: &[&[Field<T>]]) {
    for Field { name, take } in tables.iter().flat_map(|table| table.iter()) {
        let becomes = match take {
            Take::Read(_) => "taken".to_owned(),
            Take::NoEffect(why) => format!("no effect: {why}"),
            Take::Ignored(why) => format!("ignored: {why}"),
            Take::Refused(why) => format!("refused: {why}"),
        };
        all.push(Supported { kind, field: format!("{at}.{name}"), becomes });
    }
}
