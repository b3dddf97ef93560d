//! Rollouts: of the gateway pool by `status.rollout`, of edge pools by `status.pendingChange`, and
//! the action that holds them.

use millrace_crds::v1alpha1::{
    EdgePool, GatewayPool, PendingStage, RolloutAction, RolloutReport, RolloutStage,
};
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
    /// The stage; `Stable` without a rollout.
    pub stage: String,
    /// The reason, as a stable word.
    pub reason: String,
    /// The message, for people.
    pub message: String,
    /// How long it has been in this stage, in seconds.
    pub for_seconds: Option<i64>,
    /// The image before.
    pub image_before: Option<String>,
    /// The new image, or the one that runs.
    pub image_after: Option<String>,
    /// The configuration before.
    pub config_before: Option<String>,
    /// The new configuration.
    pub config_after: Option<String>,
    /// Pods that may have the change.
    pub pods: Option<i32>,
    /// Pods of the pool, ready of wanted.
    pub pods_ready: Option<String>,
    /// Attempts since all pods last ran the same unit.
    pub attempts: Option<i32>,
    /// The figures of the analysis.
    pub report: Option<RolloutReport>,
    /// The user's action (`spec.rolloutAction`).
    pub action: Option<RolloutAction>,
}

impl RolloutLine {
    /// Returns whether no rollout is under way, refused or held.
    #[must_use]
    pub fn is_stable(&self) -> bool {
        self.stage == RolloutStage::Stable.as_str() && self.action.is_none()
    }
}

/// Returns the rollouts of a pipeline's pools.
#[must_use]
pub fn rollout_lines(facts: &Facts) -> Vec<RolloutLine> {
    let now = facts.at_second;
    let gateways = facts.gateways.iter().map(|pool| gateway_line(pool, now));
    gateways.chain(facts.edges.iter().map(|pool| edge_line(pool, now))).collect()
}

fn stable_line(
    kind: &'static str,
    pool: Option<&str>,
    action: Option<RolloutAction>,
) -> RolloutLine {
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
        action,
    }
}

fn gateway_line(pool: &GatewayPool, now: i64) -> RolloutLine {
    let mut line =
        stable_line("GatewayPool", pool.metadata.name.as_deref(), pool.spec.rollout_action);
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

fn edge_line(pool: &EdgePool, now: i64) -> RolloutLine {
    let mut line = stable_line("EdgePool", pool.metadata.name.as_deref(), pool.spec.rollout_action);
    let Some(status) = &pool.status else { return line };
    line.pods_ready.clone_from(&status.pods);
    line.image_after.clone_from(&status.image);
    let Some(change) = &status.pending_change else { return line };
    line.stage = match change.stage {
        PendingStage::Validating => "Validating",
        PendingStage::Rejected => "Rejected",
        PendingStage::Canary => "Canary",
        PendingStage::Analyzing => "Analyzing",
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
