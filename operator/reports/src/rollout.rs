//! Rollouts: of the gateway pool by `status.rollout`, of edge pools by `status.pendingChange`, and
//! the annotation that holds them.

use millrace_crds::ROLLOUT_ANNOTATION;
use millrace_crds::v1alpha1::{EdgePool, GatewayPool, PendingStage, RolloutReport, RolloutStage};
use serde::Serialize;

use crate::facts::Facts;

/// One pool's rollout.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RolloutLine {
    /// GatewayPool or EdgePool.
    pub kind: &'static str,
    /// The pool.
    pub pool: String,
    /// How far it has come; `Stable` where there is none.
    pub stage: String,
    /// Why, as a stable word.
    pub reason: String,
    /// Why, for people.
    pub message: String,
    /// For how long it has been in this stage, in seconds.
    pub for_seconds: Option<i64>,
    /// The image before.
    pub image_before: Option<String>,
    /// The new image, or the one that runs.
    pub image_after: Option<String>,
    /// The configuration before.
    pub config_before: Option<String>,
    /// The new one.
    pub config_after: Option<String>,
    /// Pods that may have the change.
    pub pods: Option<i32>,
    /// Pods of the pool, ready of wanted.
    pub pods_ready: Option<String>,
    /// Attempts since all pods last ran the same unit.
    pub attempts: Option<i32>,
    /// The judge's figures.
    pub report: Option<RolloutReport>,
    /// What the annotation says.
    pub annotation: Option<String>,
}

impl RolloutLine {
    /// Whether nothing is under way, refused or held.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let held = self.annotation.as_deref().is_some_and(|word| word != "resume");
        self.stage == RolloutStage::Stable.as_str() && !held
    }
}

/// The rollouts of a pipeline's pools.
#[must_use]
pub fn rollouts(facts: &Facts) -> Vec<RolloutLine> {
    let now = facts.at_second;
    let gateways = facts.gateways.iter().map(|pool| of_gateway(pool, now));
    gateways.chain(facts.edges.iter().map(|pool| of_edge(pool, now))).collect()
}

fn annotation<K: kube::Resource>(pool: &K) -> Option<String> {
    pool.meta().annotations.as_ref()?.get(ROLLOUT_ANNOTATION).cloned()
}

fn nothing(kind: &'static str, pool: Option<&str>, annotation: Option<String>) -> RolloutLine {
    RolloutLine {
        kind,
        pool: pool.unwrap_or_default().to_owned(),
        stage: RolloutStage::Stable.as_str().to_owned(),
        reason: String::new(),
        message: String::new(),
        for_seconds: None,
        image_before: None,
        image_after: None,
        config_before: None,
        config_after: None,
        pods: None,
        pods_ready: None,
        attempts: None,
        report: None,
        annotation,
    }
}

fn of_gateway(pool: &GatewayPool, now: i64) -> RolloutLine {
    let mut line = nothing("GatewayPool", pool.metadata.name.as_deref(), annotation(pool));
    let Some(status) = &pool.status else { return line };
    line.pods_ready.clone_from(&status.pods);
    line.image_after.clone_from(&status.image);
    let Some(rollout) = &status.rollout else { return line };
    line.stage = match rollout.paused_at {
        Some(at) => format!("{} at {}", rollout.stage.as_str(), at.as_str()),
        None => rollout.stage.as_str().to_owned(),
    };
    line.reason.clone_from(&rollout.reason);
    line.message.clone_from(&rollout.message);
    line.for_seconds = Some((now - rollout.since.0.as_second()).max(0));
    line.image_before = rollout.before.as_ref().map(|unit| unit.image.clone());
    line.config_before = rollout.before.as_ref().map(|unit| unit.config_map.clone());
    line.image_after = Some(rollout.after.image.clone());
    line.config_after = Some(rollout.after.config_map.clone());
    line.pods = rollout.pods;
    line.attempts = Some(rollout.attempts).filter(|attempts| *attempts > 0);
    line.report.clone_from(&rollout.report);
    line
}

fn of_edge(pool: &EdgePool, now: i64) -> RolloutLine {
    let mut line = nothing("EdgePool", pool.metadata.name.as_deref(), annotation(pool));
    let Some(status) = &pool.status else { return line };
    line.pods_ready.clone_from(&status.pods);
    line.image_after.clone_from(&status.image);
    let Some(change) = &status.pending_change else { return line };
    line.stage = match change.stage {
        PendingStage::Trying => "Trying",
        PendingStage::Refused => "Refused",
        PendingStage::Canary => "Canary",
        PendingStage::Judging => "Judging",
        PendingStage::RollingOut => "RollingOut",
        PendingStage::RolledBack => "RolledBack",
    }
    .to_owned();
    line.reason.clone_from(&change.reason);
    line.message.clone_from(&change.message);
    line.for_seconds = Some((now - change.since.0.as_second()).max(0));
    line.image_before = line.image_after.replace(change.image.clone());
    line.config_after = Some(change.config_map.clone());
    line
}
