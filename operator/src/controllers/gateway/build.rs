//! Builds the objects of a gateway pool from checked values. Pure: no client.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetSpec};
use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use millrace_crds::v1alpha1::SizingStatus;

use super::rollout::{self, RolloutTemplate};
use super::template_resources::{self, RESOURCES_ANNOTATION};
use super::validate::Validated;
use crate::pods::ADMIN_PORT;
use crate::pool::common::CommonObjects;
use crate::pool::names::PoolNames;
use crate::pool::preflight::TrialPods;
use crate::pool::template::{BASELINE_ANNOTATION, annotate_secrets, set_resources};
use crate::pool::{objects, scale};

/// The number of earlier revisions retained, for `kubectl rollout undo` in an emergency.
const REVISIONS_RETAINED: i32 = 3;

/// The objects of a gateway pool, not yet written.
#[derive(Clone, Debug)]
pub(super) struct GatewayObjects<'a> {
    pub(super) validated: &'a Validated<'a>,
    pub(super) common: CommonObjects,
    pub(super) tries: TrialPods,
    pub(super) stateful_set: StatefulSet,
}

pub(super) fn build_objects<'a>(validated: &'a Validated<'a>) -> GatewayObjects<'a> {
    let Validated { pool, observed, secrets_digest, sizing, rollout, resources, memory: _ } =
        validated;
    let draft = &observed.draft;
    let settings = &pool.spec.settings;
    let names = &draft.names;
    let mut template = draft.template.clone();
    set_resources(&mut template, resources);
    annotate_secrets(&mut template, secrets_digest.as_deref());
    let tries = rollout::plan_trial_pods(pool, draft, &observed.watched.tries, rollout, &template);
    let rolled = rollout::build_template(rollout, pool, observed, template, sizing.replicas);
    let annotation = template_resources::build_annotation(pool, resources, &rolled.template);
    let policy = settings.network_policy.enabled;
    GatewayObjects {
        validated,
        common: CommonObjects {
            account: objects::service_account(names, &settings.service_account),
            config_map: objects::config_map(names, &draft.config_map, &draft.config),
            service: headless_service(names),
            budget: objects::disruption_budget(names, &settings.disruption_budget),
            policy: policy.then(|| objects::network_policy(names, &[])),
        },
        tries,
        stateful_set: build_stateful_set(names, sizing, observed.live.as_ref(), rolled, annotation),
    }
}

/// Returns the Service that a StatefulSet needs for its pods' names; scrapers also find pods
/// through it.
fn headless_service(names: &PoolNames) -> Service {
    let spec = ServiceSpec { cluster_ip: Some("None".into()), ..ServiceSpec::default() };
    objects::build_service(names, &[("admin", ADMIN_PORT)], spec)
}

/// Fixed pod names are the static members' names: a replaced pod gets its partitions back without a
/// rebalance. Pods start and stop in parallel; only a rolling update replaces them one by one, up
/// to the rollout's partition.
fn build_stateful_set(
    names: &PoolNames,
    sizing: &SizingStatus,
    live: Option<&StatefulSet>,
    rolled: RolloutTemplate,
    resources: Option<String>,
) -> StatefulSet {
    let RolloutTemplate { template, strategy, baseline } = rolled;
    let mut metadata = objects::build_metadata(names, &names.base);
    let annotations = [(BASELINE_ANNOTATION, baseline), (RESOURCES_ANNOTATION, resources)];
    let annotations =
        annotations.into_iter().filter_map(|(key, text)| Some((key.to_owned(), text?)));
    let annotations: BTreeMap<_, _> = annotations.collect();
    metadata.annotations = (!annotations.is_empty()).then_some(annotations);
    StatefulSet {
        metadata,
        spec: Some(StatefulSetSpec {
            replicas: (!is_sized_elsewhere(live, sizing)).then_some(sizing.replicas),
            service_name: Some(names.base.clone()),
            selector: objects::label_selector(names),
            pod_management_policy: Some("Parallel".into()),
            update_strategy: Some(strategy),
            revision_history_limit: Some(REVISIONS_RETAINED),
            template,
            ..StatefulSetSpec::default()
        }),
        status: None,
    }
}

/// Returns whether to leave `spec.replicas` to another autoscaler: only once it owns the field,
/// since a field without an owner falls back to 1.
fn is_sized_elsewhere(live: Option<&StatefulSet>, sizing: &SizingStatus) -> bool {
    sizing.sized_by.is_some() && live.is_some_and(|set| scale::is_others(&set.metadata))
}
