//! `rollout`: shows rollouts, and writes the annotation `millrace.dev/rollout`, the one way in
//! which the operator lets people hold a change (docs/operations.md#rollouts-of-gateways). It never
//! edits a spec: a change that all pods have is taken back by writing the earlier unit.

use millrace_crds::ROLLOUT_ANNOTATION;
use millrace_crds::v1alpha1::{EdgePool, GatewayPool};
use serde_json::json;

use super::watch::facts;
use super::{Answer, Session};
use crate::args::{Pools, Rollout};
use crate::error::Error;
use crate::facts::Facts;
use crate::gather::Depth;
use crate::{render, report};

/// Runs it.
pub(super) async fn run(session: &Session, args: &Rollout) -> Result<Answer, Error> {
    match args {
        Rollout::Status(named) => {
            let facts = facts(session, named, Depth::Statuses).await?;
            shown(session, &facts)
        }
        Rollout::Pause(pools) => write(session, pools, Some("pause")).await,
        Rollout::Resume(pools) => write(session, pools, None).await,
        Rollout::Undo(pools) => write(session, pools, Some("abort")).await,
    }
}

fn shown(session: &Session, facts: &Facts) -> Result<Answer, Error> {
    let lines = report::rollouts(facts);
    let healthy = lines.iter().all(report::RolloutLine::is_settled) && facts.gaps.is_empty();
    let text = render::rollouts(&lines, &facts.gaps, session.palette);
    let report = json!({
        "namespace": facts.namespace(),
        "name": facts.name(),
        "pools": lines,
        "gaps": facts.gaps,
    });
    Ok(Answer { healthy, ..Answer::of(text, &report)? })
}

async fn write(session: &Session, pools: &Pools, word: Option<&str>) -> Result<Answer, Error> {
    let facts = facts(session, &pools.named, Depth::Statuses).await?;
    if let Some(gap) = facts.gaps.first() {
        return Err(Error::Impossible(format!("{}: {}", gap.what, gap.why)));
    }
    let chosen = choose(&facts, pools, word)?;
    let mut text = String::new();
    for line in &chosen {
        let cluster = &session.cluster;
        match line.kind {
            "GatewayPool" => {
                cluster.annotate::<GatewayPool>(&line.pool, ROLLOUT_ANNOTATION, word).await?;
            }
            _ => cluster.annotate::<EdgePool>(&line.pool, ROLLOUT_ANNOTATION, word).await?,
        }
        let what = word.map_or("removed".to_owned(), |word| format!("is now {word}"));
        text.push_str(&format!("{} {}: {ROLLOUT_ANNOTATION} {what}\n", line.kind, line.pool));
    }
    text.push_str(match word {
        Some("pause") => "pods stay as they are until `kubectl millrace rollout resume`\n",
        Some(_) => {
            "pods return to the earlier unit, and no change begins until `kubectl millrace rollout \
             resume`: change the spec before\n"
        }
        None => "changes go on; `kubectl millrace rollout status` shows them\n",
    });
    let done = chosen.iter().map(|line| {
        json!({"kind": line.kind, "pool": line.pool, "annotation": ROLLOUT_ANNOTATION,
               "value": word})
    });
    let done: Vec<_> = done.collect();
    Answer::of(text, &json!({"namespace": facts.namespace(), "name": facts.name(), "done": done}))
}

/// The pools that are meant, and that it makes sense for.
fn choose(
    facts: &Facts,
    pools: &Pools,
    word: Option<&str>,
) -> Result<Vec<report::RolloutLine>, Error> {
    let mut lines = report::rollouts(facts);
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
    match word {
        Some("abort") => lines.retain(under_way),
        None => lines.retain(|line| line.annotation.is_some()),
        Some(_) => {}
    }
    if lines.is_empty() {
        return Err(Error::Impossible(match word {
            Some(_) => "no change is under way, so there is none to take back. A change that all \
                        pods have is taken back by writing the earlier image or settings into the \
                        spec (docs/operations.md#rollouts-of-gateways)"
                .to_owned(),
            None => format!("no pool has the annotation {ROLLOUT_ANNOTATION}: nothing is held"),
        }));
    }
    Ok(lines)
}

fn under_way(line: &report::RolloutLine) -> bool {
    let stage = line.stage.split(' ').next().unwrap_or_default();
    let stages = ["Waiting", "Canary", "Judging", "Promoting", "Paused", "Trying", "RollingOut"];
    stages.contains(&stage)
}
