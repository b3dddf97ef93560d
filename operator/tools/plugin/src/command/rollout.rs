//! `rollout`: shows rollouts, and writes `spec.rolloutAction`, the only field by which a user can
//! hold a change (page Rollouts). It writes nothing else: to revert a
//! change that all pods have, write the earlier unit.

use millrace_crds::v1alpha1::{EdgePool, GatewayPool, RolloutAction};
use serde_json::json;

use super::watch::read_facts;
use super::{CommandOutput, CommandSession};
use crate::args::{Pools, Rollout};
use crate::error::Error;
use crate::facts::Facts;
use crate::gather::Depth;
use crate::{render, report};

/// Runs the command.
pub(super) async fn run(session: &CommandSession, args: &Rollout) -> Result<CommandOutput, Error> {
    match args {
        Rollout::Status(named) => {
            let facts = read_facts(session, named, Depth::Statuses).await?;
            show_rollouts(session, &facts)
        }
        Rollout::Pause(pools) => write_annotation(session, pools, Some(RolloutAction::Pause)).await,
        Rollout::Resume(pools) => write_annotation(session, pools, None).await,
        Rollout::Undo(pools) => write_annotation(session, pools, Some(RolloutAction::Abort)).await,
    }
}

fn show_rollouts(session: &CommandSession, facts: &Facts) -> Result<CommandOutput, Error> {
    let lines = report::rollout_lines(facts);
    let healthy = lines.iter().all(report::RolloutLine::is_stable) && facts.gaps.is_empty();
    let text = render::render_rollouts(&lines, &facts.gaps, session.palette);
    let report = json!({
        "namespace": facts.namespace(),
        "name": facts.name(),
        "pools": lines,
        "gaps": facts.gaps,
    });
    Ok(CommandOutput { healthy, ..CommandOutput::from_report(text, &report)? })
}

async fn write_annotation(
    session: &CommandSession,
    pools: &Pools,
    action: Option<RolloutAction>,
) -> Result<CommandOutput, Error> {
    let facts = read_facts(session, &pools.named, Depth::Statuses).await?;
    if let Some(gap) = facts.gaps.first() {
        return Err(Error::Impossible(format!("{}: {}", gap.what, gap.why)));
    }
    let chosen = choose_pools(&facts, pools, action)?;
    let mut text = String::new();
    for line in &chosen {
        let cluster = &session.cluster;
        match line.kind {
            "GatewayPool" => cluster.act_on_rollout::<GatewayPool>(&line.pool, action).await?,
            _ => cluster.act_on_rollout::<EdgePool>(&line.pool, action).await?,
        }
        let what = action.map_or("removed".into(), |it| format!("is now {}", it.as_str()));
        text.push_str(&format!("{} {}: spec.rolloutAction {what}\n", line.kind, line.pool));
    }
    text.push_str(match action {
        Some(RolloutAction::Pause) => {
            "no pod is replaced until `kubectl millrace rollout resume`\n"
        }
        Some(RolloutAction::Abort) => {
            "pods return to the earlier unit, and no rollout begins until `kubectl millrace \
             rollout resume`: change the spec first\n"
        }
        None => "rollouts continue; `kubectl millrace rollout status` shows them\n",
    });
    let done = chosen
        .iter()
        .map(|line| json!({"kind": line.kind, "pool": line.pool, "rolloutAction": action}));
    let done: Vec<_> = done.collect();
    CommandOutput::from_report(
        text,
        &json!({"namespace": facts.namespace(), "name": facts.name(), "done": done}),
    )
}

/// Returns the selected pools to which the action applies.
fn choose_pools(
    facts: &Facts,
    pools: &Pools,
    action: Option<RolloutAction>,
) -> Result<Vec<report::RolloutLine>, Error> {
    let mut lines = report::rollout_lines(facts);
    let names: Vec<String> = lines.iter().map(|line| line.pool.clone()).collect();
    if let Some(pool) = &pools.pool {
        lines.retain(|line| line.pool == *pool);
        if lines.is_empty() {
            return Err(Error::Impossible(format!(
                "pipeline {} has no pool {pool}: it has {}",
                facts.name(),
                names.join(", ")
            )));
        }
    }
    match action {
        Some(RolloutAction::Abort) => lines.retain(is_in_progress),
        None => lines.retain(|line| line.action.is_some()),
        Some(RolloutAction::Pause) => {}
    }
    if lines.is_empty() {
        return Err(Error::Impossible(match action {
            Some(_) => "no rollout is in progress, so there is nothing to roll back. To revert a \
                        completed change, write the earlier image or settings into the spec \
                        (page Rollouts)"
                .to_owned(),
            None => "no pool has a spec.rolloutAction: no rollout is paused".to_owned(),
        }));
    }
    Ok(lines)
}

fn is_in_progress(line: &report::RolloutLine) -> bool {
    let stage = line.stage.split(' ').next().unwrap_or_default();
    let stages =
        ["Waiting", "Canary", "Analyzing", "Promoting", "Paused", "Validating", "RollingOut"];
    stages.contains(&stage)
}
