//! From a pool's spec to what is to be found for it in the cluster. Pure.

use millrace_crds::v1alpha1 as crds;
use millrace_monitors::{Holds, MonitorKind, Requirement, Selector};
use millrace_scrape::relabel::{Action, Rule};

use super::scrape;
use crate::discovery::{Pick, Wants};

/// What a pool asks for; none if it asks for nothing.
#[must_use]
pub fn wants(pool: &crds::EdgePool) -> Option<Wants> {
    let receiver = pool.spec.settings.receivers.prometheus.as_ref()?;
    let crds::KubernetesDiscovery {
        service_monitors,
        pod_monitors,
        probes,
        scrape_configs,
        annotations,
        interval_seconds,
    } = receiver.kubernetes.as_ref()?;
    let monitors = [
        (MonitorKind::ServiceMonitor, service_monitors),
        (MonitorKind::PodMonitor, pod_monitors),
        (MonitorKind::Probe, probes),
        (MonitorKind::ScrapeConfig, scrape_configs),
    ];
    let monitors = monitors.into_iter().filter_map(|(kind, wanted)| {
        let crds::MonitorSelection { selector, namespace_selector } = wanted.as_ref()?;
        Some((kind, pick(selector, namespace_selector.as_ref())))
    });
    let annotated = annotations.as_ref().map(|annotations| {
        let crds::AnnotatedSelection { selector, namespace_selector, relabel } = annotations;
        let rules = relabel.iter().map(rule).collect();
        (pick(selector, namespace_selector.as_ref()), rules)
    });
    Some(Wants { monitors: monitors.collect(), annotated, interval_seconds: *interval_seconds })
}

fn pick(of: &crds::LabelSelector, namespaces: Option<&crds::LabelSelector>) -> Pick {
    Pick { selector: selector(of), namespaces: namespaces.map(selector) }
}

fn selector(selector: &crds::LabelSelector) -> Selector {
    let crds::LabelSelector { match_labels, match_expressions } = selector;
    let labels = match_labels.iter().map(|(key, value)| Requirement {
        key: key.clone(),
        holds: Holds::In(vec![value.clone()]),
    });
    let expressions = match_expressions.iter().map(|expression| {
        let crds::LabelRequirement { key, operator, values } = expression;
        let holds = match operator {
            crds::LabelOperator::In => Holds::In(values.clone()),
            crds::LabelOperator::NotIn => Holds::NotIn(values.clone()),
            crds::LabelOperator::Exists => Holds::Exists,
            crds::LabelOperator::DoesNotExist => Holds::Absent,
        };
        Requirement { key: key.clone(), holds }
    });
    Selector(labels.chain(expressions).collect())
}

fn rule(spec: &crds::RelabelRule) -> Rule {
    let millrace_config::RelabelRule {
        action,
        source_labels,
        separator,
        regex,
        modulus,
        replacement,
        target_label,
    } = scrape::rule(spec);
    let action = Action::of(action.as_str()).unwrap_or_default();
    Rule { action, source_labels, separator, regex, modulus, replacement, target_label }
}
