//! Which of what is known a pool asks for, and whether it is known whole. Pure.

use std::collections::BTreeSet;

use millrace_monitors::{Annotated, MonitorKind, Namespaces, Selector};

use super::state::{Stage, State, Watched};
use super::{Found, NotFound, Pick, Wants};

/// What has to be watched for a pool.
#[must_use]
pub fn needs(wants: &Wants) -> BTreeSet<Watched> {
    let mut needs: BTreeSet<Watched> =
        wants.monitors.keys().copied().map(Watched::Monitors).collect();
    let looks = |kind: &MonitorKind| *kind != MonitorKind::Probe;
    let annotated = wants.annotated.as_ref();
    let looks_into_cluster = wants.monitors.keys().any(looks) || annotated.is_some();
    if looks_into_cluster {
        needs.extend([Watched::Pods, Watched::Nodes]);
    }
    let by_service = [MonitorKind::ServiceMonitor, MonitorKind::ScrapeConfig];
    if by_service.iter().any(|kind| wants.monitors.contains_key(kind)) || annotated.is_some() {
        needs.extend([Watched::Services, Watched::Slices]);
    }
    let picks = wants.monitors.values().chain(annotated.map(|(pick, _)| pick));
    let by_labels = |pick: &Pick| pick.namespaces.as_ref().is_some_and(|it| !it.0.is_empty());
    if picks.into_iter().any(by_labels) {
        needs.insert(Watched::Namespaces);
    }
    needs
}

/// What there is for a pool.
pub(super) fn find(
    state: &State,
    (namespace, name): (&str, &str),
    wants: &Wants,
    is_wide: bool,
) -> Result<Found, NotFound> {
    for watched in needs(wants) {
        whole(state, watched)?;
    }
    if !is_wide {
        let monitors = wants.monitors.iter().map(|(kind, pick)| (field(*kind), pick));
        let annotated = wants.annotated.iter().map(|(pick, _)| ("annotations", pick));
        let mut all = monitors.chain(annotated);
        if let Some((field, _)) = all.find(|(_, pick)| pick.namespaces.is_some()) {
            return Err(NotFound::Across(field, namespace.to_owned()));
        }
    }
    let own = || Namespaces::Names(vec![namespace.to_owned()]);
    let mut monitors = Vec::new();
    let mut uids = std::collections::BTreeMap::new();
    for (id, kept) in &state.monitors {
        let Some(pick) = wants.monitors.get(&id.kind) else { continue };
        let is_picked = has(state, pick, namespace, &id.namespace);
        if is_picked && pick.selector.selects(&kept.labels) {
            monitors.push(kept.monitor.clone());
            uids.insert(id.clone(), kept.uid.clone());
        }
    }
    let annotated = match &wants.annotated {
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
            Some(Annotated::new((namespace, name), &namespaces, &pick.selector, rules)?)
        }
    };
    Ok(Found {
        version: state.version,
        cluster: state.cluster.clone(),
        reach: if is_wide { Namespaces::Any } else { own() },
        monitors,
        uids,
        annotated,
    })
}

/// Whether a namespace is picked by a pool in `own`.
fn has(state: &State, pick: &Pick, own: &str, namespace: &str) -> bool {
    match &pick.namespaces {
        None => namespace == own,
        Some(Selector(requirements)) if requirements.is_empty() => true,
        Some(selector) => {
            state.namespaces.get(namespace).is_some_and(|labels| selector.selects(labels))
        }
    }
}

/// Whether all objects of a kind are known. Of nodes only zones and labels would be missing.
fn whole(state: &State, watched: Watched) -> Result<(), NotFound> {
    let mut stages = state.stages.iter().filter(|((kind, _), _)| *kind == watched).peekable();
    let waiting = |why| NotFound::Waiting { watched: words(watched), why };
    if stages.peek().is_none() {
        return Err(waiting(None));
    }
    for (_, stage) in stages {
        match stage {
            Stage::Whole | Stage::NotServed => {}
            Stage::Waiting(Some(_)) if watched == Watched::Nodes => {}
            Stage::Waiting(why) => return Err(waiting(why.clone())),
        }
    }
    Ok(())
}

/// The field of a pool that selects a kind.
const fn field(kind: MonitorKind) -> &'static str {
    match kind {
        MonitorKind::ServiceMonitor => "serviceMonitors",
        MonitorKind::PodMonitor => "podMonitors",
        MonitorKind::Probe => "probes",
        MonitorKind::ScrapeConfig => "scrapeConfigs",
        MonitorKind::Pod | MonitorKind::Service => "annotations",
    }
}

/// A kind in words.
pub(super) fn words(watched: Watched) -> String {
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
#[path = "../../tests/unit/discovery/select.rs"]
mod tests;
