//! All known fields of monitors with their handling, for the documentation.

use crate::monitor::fields::{FieldHandling, MonitorField};
use crate::monitor::{access, by_address, by_labels, fields, rules};
use crate::scraped::MonitorKind;

/// A field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SupportedField {
    /// The kind that has it.
    pub kind: MonitorKind,
    /// Its path, as in `spec.endpoints[].tlsConfig.ca`.
    pub field: String,
    /// Its handling: `supported`, `no effect: ...`, `ignored: ...` or `refused: ...`.
    pub becomes: String,
}

/// Returns all fields, in order. Fields of rules, TLS and the like are listed once, under
/// `spec.endpoints` of a ServiceMonitor.
#[must_use]
pub fn supported_fields() -> Vec<SupportedField> {
    let mut all = Vec::new();
    let service = MonitorKind::ServiceMonitor;
    push_fields(
        &mut all,
        service,
        "spec",
        &[by_labels::SPEC, by_labels::SERVICE_SPEC, by_labels::LIMITS],
    );
    push_fields(&mut all, service, "spec.selector", &[fields::SELECTOR]);
    push_fields(&mut all, service, "spec.namespaceSelector", &[by_labels::NAMESPACES]);
    push_fields(&mut all, service, "spec.attachMetadata", &[by_labels::ATTACH]);
    let at = "spec.endpoints[]";
    push_fields(&mut all, service, at, by_labels::SERVICE_TABLES);
    push_fields(&mut all, service, &format!("{at}.tlsConfig"), &[access::TLS]);
    push_fields(&mut all, service, &format!("{at}.authorization"), &[access::AUTHORIZATION]);
    push_fields(&mut all, service, &format!("{at}.basicAuth"), &[access::BASIC_AUTH]);
    push_fields(
        &mut all,
        service,
        &format!("{at}.oauth2"),
        &[access::OAUTH2, access::OAUTH2_PROXY],
    );
    push_fields(&mut all, service, &format!("{at}.relabelings[]"), &[rules::RULE]);
    let pod = MonitorKind::PodMonitor;
    push_fields(&mut all, pod, "spec", &[by_labels::SPEC, by_labels::POD_SPEC, by_labels::LIMITS]);
    push_fields(&mut all, pod, "spec.podMetricsEndpoints[]", by_labels::POD_TABLES);
    let probe = MonitorKind::Probe;
    push_fields(&mut all, probe, "spec", by_address::PROBE_TABLES);
    push_fields(&mut all, probe, "spec.prober", by_address::PROBER_TABLES);
    push_fields(&mut all, probe, "spec.targets", &[by_address::PROBE_TARGETS]);
    push_fields(&mut all, probe, "spec.targets.staticConfig", &[by_address::STATIC]);
    push_fields(&mut all, probe, "spec.params[]", &[by_address::PARAM]);
    let config = MonitorKind::ScrapeConfig;
    push_fields(&mut all, config, "spec", by_address::CONFIG_TABLES);
    push_fields(&mut all, config, "spec.staticConfigs[]", &[by_address::GROUP]);
    let at = "spec.kubernetesSDConfigs[]";
    push_fields(&mut all, config, at, &[by_address::KUBERNETES]);
    push_fields(
        &mut all,
        config,
        &format!("{at}.namespaces"),
        &[by_address::KUBERNETES_NAMESPACES],
    );
    all.sort();
    all
}

fn push_fields<T>(
    all: &mut Vec<SupportedField>,
    kind: MonitorKind,
    at: &str,
    tables: &[&[MonitorField<T>]],
) {
    for MonitorField { name, handling: take } in tables.iter().flat_map(|table| table.iter()) {
        let becomes = match take {
            FieldHandling::Read(_) => "supported".to_owned(),
            FieldHandling::NoEffect(why) => format!("no effect: {why}"),
            FieldHandling::Ignored(why) => format!("ignored: {why}"),
            FieldHandling::Refused(why) => format!("refused: {why}"),
        };
        all.push(SupportedField { kind, field: format!("{at}.{name}"), becomes });
    }
}
