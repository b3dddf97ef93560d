//! Selects a pool's objects from the observed state, and checks that the state is complete. Pure.

use std::collections::BTreeSet;

use millrace_monitors::{AnnotationSources, MonitorKind, Namespaces, Selector};

use super::state::{DiscoveryState, WatchStage, Watched};
use super::{DiscoveryError, DiscoveryRequest, Pick, PoolDiscovery};

/// Returns the kinds to watch for a pool.
#[must_use]
pub fn needed_watches(request: &DiscoveryRequest) -> BTreeSet<Watched> {
    let mut needs: BTreeSet<Watched> =
        request.monitors.keys().copied().map(Watched::Monitors).collect();
    let reads_objects = |kind: &MonitorKind| *kind != MonitorKind::Probe;
    let annotated = request.annotated.as_ref();
    let reads_cluster = request.monitors.keys().any(reads_objects) || annotated.is_some();
    if reads_cluster {
        needs.extend([Watched::Pods, Watched::Nodes]);
    }
    let by_service = [MonitorKind::ServiceMonitor, MonitorKind::ScrapeConfig];
    if by_service.iter().any(|kind| request.monitors.contains_key(kind)) || annotated.is_some() {
        needs.extend([Watched::Services, Watched::Slices]);
    }
    let picks = request.monitors.values().chain(annotated.map(|(pick, _)| pick));
    let by_labels = |pick: &Pick| pick.namespaces.as_ref().is_some_and(|it| !it.0.is_empty());
    if picks.into_iter().any(by_labels) {
        needs.insert(Watched::Namespaces);
    }
    needs
}

pub(super) fn select_for_pool(
    state: &DiscoveryState,
    (namespace, name): (&str, &str),
    request: &DiscoveryRequest,
    is_wide: bool,
) -> Result<PoolDiscovery, DiscoveryError> {
    for watched in needed_watches(request) {
        check_complete(state, watched)?;
    }
    if !is_wide {
        let monitors = request.monitors.iter().map(|(kind, pick)| (selector_field(*kind), pick));
        let annotated = request.annotated.iter().map(|(pick, _)| ("annotations", pick));
        let mut all = monitors.chain(annotated);
        if let Some((field, _)) = all.find(|(_, pick)| pick.namespaces.is_some()) {
            return Err(DiscoveryError::Across(field, namespace.to_owned()));
        }
    }
    let own = || Namespaces::Names(vec![namespace.to_owned()]);
    let mut monitors = Vec::new();
    let mut uids = std::collections::BTreeMap::new();
    for (id, cached) in &state.monitors {
        let Some(pick) = request.monitors.get(&id.kind) else { continue };
        let is_picked = picks_namespace(state, pick, namespace, &id.namespace);
        if is_picked && pick.selector.selects(&cached.labels) {
            monitors.push(cached.monitor.clone());
            uids.insert(id.clone(), cached.uid.clone());
        }
    }
    let annotated = match &request.annotated {
        None => None,
        Some((pick, rules)) => {
            let namespaces = match &pick.namespaces {
                None => own(),
                Some(Selector(requirements)) if requirements.is_empty() => Namespaces::Any,
                Some(selector) => {
                    let all = state.namespaces.iter();
                    let picked = all.filter(|(_, labels)| selector.selects(labels));
                    Namespaces::Names(picked.map(|(name, _)| name.clone()).collect())
                }
            };
            Some(AnnotationSources::new((namespace, name), &namespaces, &pick.selector, rules)?)
        }
    };
    Ok(PoolDiscovery {
        version: state.version,
        cluster: state.cluster.clone(),
        reach: if is_wide { Namespaces::Any } else { own() },
        monitors,
        uids,
        annotated,
    })
}

/// Returns whether a pool in `own` selects a namespace.
fn picks_namespace(state: &DiscoveryState, pick: &Pick, own: &str, namespace: &str) -> bool {
    match &pick.namespaces {
        None => namespace == own,
        Some(Selector(requirements)) if requirements.is_empty() => true,
        Some(selector) => {
            state.namespaces.get(namespace).is_some_and(|labels| selector.selects(labels))
        }
    }
}

/// Checks that all objects of a kind are known. Unreadable nodes are no error: only zones and
/// labels would be missing.
fn check_complete(state: &DiscoveryState, watched: Watched) -> Result<(), DiscoveryError> {
    let mut stages = state.stages.iter().filter(|((kind, _), _)| *kind == watched).peekable();
    let waiting = |why| DiscoveryError::Waiting { watched: kind_plural(watched), why };
    if stages.peek().is_none() {
        return Err(waiting(None));
    }
    for (_, stage) in stages {
        match stage {
            WatchStage::Complete | WatchStage::NotServed => {}
            WatchStage::Waiting(Some(_)) if watched == Watched::Nodes => {}
            WatchStage::Waiting(why) => return Err(waiting(why.clone())),
        }
    }
    Ok(())
}

/// Returns the field of a pool that selects a kind.
const fn selector_field(kind: MonitorKind) -> &'static str {
    match kind {
        MonitorKind::ServiceMonitor => "serviceMonitors",
        MonitorKind::PodMonitor => "podMonitors",
        MonitorKind::Probe => "probes",
        MonitorKind::ScrapeConfig => "scrapeConfigs",
        MonitorKind::Pod | MonitorKind::Service => "annotations",
    }
}

/// Returns a kind's plural for messages.
pub(super) fn kind_plural(watched: Watched) -> String {
    match watched {
        Watched::Monitors(kind) => format!("{}s", kind.as_str()),
        Watched::Pods => "Pods".to_owned(),
        Watched::Services => "Services".to_owned(),
        Watched::Slices => "EndpointSlices".to_owned(),
        Watched::Nodes => "Nodes".to_owned(),
        Watched::Namespaces => "Namespaces".to_owned(),
    }
}

#[cfg(test)]
mod tests;
