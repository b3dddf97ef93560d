//! What becomes of a change of image or configuration before any pod of an edge pool has it. Pure.
//!
//! A pod of its own tries it first (`pool::preflight`). How that stands is part of the status, so
//! that another operator goes on with it. A refused change leaves the pool's pods as they are until
//! the spec or a Secret changes; what may pass by itself is tried again every [`RETRY_SECONDS`].
//! A workload that isn't there yet runs nothing that could be kept: it is made as asked for.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use millrace_crds::Reason;
use millrace_crds::v1alpha1::{EdgePool, PendingChange, PendingStage};
use millrace_rollout::{Fault, FaultKind, First};

use super::validate::Validated;
use crate::apply::hash_of;
use crate::pool::names::PoolNames;
use crate::pool::preflight::{self, Tries};
use crate::pool::status::{Rollout, cut};
use crate::pool::template;

/// A registry that was away, or a node that could not make the container, may have come back.
const RETRY_SECONDS: i64 = 600;

/// What pods are to run.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    image: String,
    config_map: String,
    /// Tells it from anything else in the spec that may be what a refused change needed.
    digest: String,
}

impl Asked {
    /// What a spec asks for.
    pub(super) fn of(validated: &Validated<'_>) -> Self {
        let Validated { pool, draft, config_map, secrets_digest } = validated;
        let settings = &pool.spec.settings;
        let digest = hash_of(&serde_json::json!({
            "image": draft.image,
            "config": config_map,
            "resources": settings.resources,
            "pods": settings.pods,
            "secrets": secrets_digest,
        }));
        Self { image: draft.image.clone(), config_map: config_map.clone(), digest }
    }

    /// Whether pods of this template run something else.
    pub(super) fn differs_from(&self, live: Option<&PodTemplateSpec>) -> bool {
        live.and_then(template::runs) != Some((&self.image, &self.config_map))
    }

    fn pending(&self, stage: PendingStage, since: Time, why: (&str, String)) -> PendingChange {
        let Self { image, config_map, digest } = self.clone();
        let (reason, message) = (why.0.to_owned(), cut(why.1));
        PendingChange { stage, since, reason, message, image, config_map, digest }
    }
}

/// How a change stands, and what is to be done about its try.
#[derive(Clone, Debug)]
pub(super) struct Decision {
    /// `None`: it may be written.
    pub(super) pending: Option<PendingChange>,
    pub(super) tries: Tries,
}

/// Decides about a change that differs from what the live workload runs; `wanted` is its template.
pub(super) fn decide(
    pool: &EdgePool,
    names: &PoolNames,
    asked: &Asked,
    wanted: &PodTemplateSpec,
    pods: &[Pod],
    now: Timestamp,
) -> Decision {
    let told = pool.status.as_ref().and_then(|status| status.pending_change.as_ref());
    let told = told.filter(|told| told.digest == asked.digest);
    if let Some(told) = told.filter(|told| stays_refused(told, now)) {
        return Decision { pending: Some(told.clone()), tries: Tries::over(pods) };
    }
    let told = told.filter(|told| told.stage == PendingStage::Trying);
    let name = preflight::name(names, &asked.image, &asked.config_map);
    let outcome = match told {
        Some(_) => preflight::outcome(pods, &name, None, now),
        None => First::Waits,
    };
    let whole_second = || Time(Timestamp::from_second(now.as_second()).unwrap_or(now));
    let since = told.map_or_else(whole_second, |told| told.since.clone());
    match outcome {
        First::Done => Decision { pending: None, tries: Tries::over(pods) },
        First::Waits => {
            let message =
                format!("a pod of its own tries {} with {}", asked.image, asked.config_map);
            let why = (Reason::Waiting.as_str(), message);
            let pod = || preflight::pod(pool, names, &name, wanted);
            Decision {
                pending: Some(asked.pending(PendingStage::Trying, since, why)),
                tries: Tries::waiting(pods, &name, told.is_some(), pod),
            }
        }
        First::Failed(Fault { kind, text }) => {
            let pending =
                asked.pending(PendingStage::Refused, whole_second(), (kind.as_str(), text));
            Decision { pending: Some(pending), tries: Tries::over(pods) }
        }
    }
}

fn stays_refused(told: &PendingChange, now: Timestamp) -> bool {
    let is_final = told.reason == FaultKind::SettingsRefused.as_str();
    let age_seconds = now.as_second() - told.since.0.as_second();
    told.stage == PendingStage::Refused && (is_final || age_seconds < RETRY_SECONDS)
}

/// What a pool says in its conditions while a change is pending.
pub(super) fn condition(pending: &PendingChange) -> Rollout {
    let PendingChange { stage, reason, message, image, config_map, .. } = pending;
    match stage {
        PendingStage::Trying => Rollout::Told {
            reason: Reason::Waiting,
            message: message.clone(),
            progressing: true,
            stalled: false,
        },
        PendingStage::Refused => Rollout::Told {
            reason: Reason::parse(reason).unwrap_or(Reason::PodsRefused),
            message: format!("no pod was changed to {image} with {config_map}: {message}"),
            progressing: false,
            stalled: true,
        },
    }
}
