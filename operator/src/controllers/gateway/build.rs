//! From checked values to the objects of a gateway pool. Pure: no client.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetSpec};
use k8s_openapi::api::core::v1::{ConfigMap, Service, ServiceAccount, ServiceSpec};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use millrace_crds::v1alpha1::SizingStatus;

use super::rollout::{self, Rolled};
use super::template_resources::{RESOURCES_ANNOTATION, TemplateResources};
use super::validate::Validated;
use crate::pods::ADMIN_PORT;
use crate::pool::names::PoolNames;
use crate::pool::preflight::Tries;
use crate::pool::template::{BASELINE_ANNOTATION, give, note_secrets};
use crate::pool::{objects, scale};

/// Earlier revisions kept, for `kubectl rollout undo` in an emergency.
const REVISIONS_KEPT: i32 = 3;

/// The objects of a gateway pool, not yet written.
#[derive(Clone, Debug)]
pub(super) struct Prepared<'a> {
    pub(super) validated: &'a Validated<'a>,
    pub(super) account: ServiceAccount,
    pub(super) config_map: ConfigMap,
    pub(super) service: Service,
    pub(super) budget: Option<PodDisruptionBudget>,
    pub(super) policy: Option<NetworkPolicy>,
    pub(super) tries: Tries,
    pub(super) stateful_set: StatefulSet,
}

/// Builds the objects.
pub(super) fn build<'a>(validated: &'a Validated<'a>) -> Prepared<'a> {
    let Validated { pool, observed, secrets_digest, sizing, rollout, template, kept: _ } =
        validated;
    let TemplateResources { resources, annotation } = template;
    let draft = &observed.draft;
    let settings = &pool.spec.settings;
    let names = &draft.names;
    let mut template = draft.template.clone();
    give(&mut template, resources);
    note_secrets(&mut template, secrets_digest.as_deref());
    let tries = rollout::tries(pool, draft, &observed.watched.tries, rollout, &template);
    let rolled = rollout::roll(rollout, pool, observed, template, sizing.replicas);
    let policy = settings.network_policy.enabled;
    Prepared {
        validated,
        account: objects::service_account(names),
        config_map: objects::config_map(names, &draft.config_map, &draft.config),
        service: headless_service(names),
        budget: objects::disruption_budget(names, &settings.disruption_budget),
        tries,
        policy: policy.then(|| objects::network_policy(names, &[])),
        stateful_set: stateful_set(
            names,
            sizing,
            observed.live.as_ref(),
            rolled,
            annotation.clone(),
        ),
    }
}

/// A StatefulSet needs a Service that gives its pods their names; it also lets scrapers find them.
fn headless_service(names: &PoolNames) -> Service {
    let spec = ServiceSpec { cluster_ip: Some("None".into()), ..ServiceSpec::default() };
    objects::service(names, &[("admin", ADMIN_PORT)], spec)
}

/// Fixed pod names are the static members' names: a replaced pod gets its partitions back without a
/// rebalance. Pods start and stop in parallel; only a rolling update goes pod by pod, up to the
/// rollout's partition.
fn stateful_set(
    names: &PoolNames,
    sizing: &SizingStatus,
    live: Option<&StatefulSet>,
    rolled: Rolled,
    resources: Option<String>,
) -> StatefulSet {
    let Rolled { template, strategy, baseline } = rolled;
    let mut metadata = objects::metadata(names, &names.base);
    let kept = [(BASELINE_ANNOTATION, baseline), (RESOURCES_ANNOTATION, resources)];
    let kept = kept.into_iter().filter_map(|(key, text)| Some((key.to_owned(), text?)));
    let kept: BTreeMap<_, _> = kept.collect();
    metadata.annotations = (!kept.is_empty()).then_some(kept);
    StatefulSet {
        metadata,
        spec: Some(StatefulSetSpec {
            replicas: (!is_sized_elsewhere(live, sizing)).then_some(sizing.replicas),
            service_name: Some(names.base.clone()),
            selector: objects::selector(names),
            pod_management_policy: Some("Parallel".into()),
            update_strategy: Some(strategy),
            revision_history_limit: Some(REVISIONS_KEPT),
            template,
            ..StatefulSetSpec::default()
        }),
        status: None,
    }
}

/// Whether to leave `spec.replicas` to another autoscaler: only once it owns the field, since a
/// field without an owner falls back to 1.
fn is_sized_elsewhere(live: Option<&StatefulSet>, sizing: &SizingStatus) -> bool {
    sizing.sized_by.is_some() && live.is_some_and(|set| scale::is_others(&set.metadata))
}
